//! What DataFusion's planner asks about names: relations of our catalog, functions, types.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::TableReference;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use datafusion_sql::planner::ParserOptions;

use super::errors::through;
use super::group_windows;
use super::relations::Relations;
use super::types::Types;
use super::{Catalog, Relation};
use crate::error::Error;
use crate::plan::lower::RelationSource;
use crate::sql::functions::functions;

/// A catalog as DataFusion's planner sees one.
pub(super) struct Context<'a> {
    catalog: &'a dyn Catalog,
    options: ConfigOptions,
    relations: Vec<Arc<dyn RelationPlanner>>,
    types: Arc<dyn TypePlanner>,
}

impl<'a> Context<'a> {
    pub fn new(catalog: &'a dyn Catalog) -> Self {
        Context { catalog, options: options(), relations: vec![Arc::new(Relations)], types: Arc::new(Types) }
    }

    /// How SQL text is read: names without quotes in lower case, strings as Utf8, numbers with a
    /// point as decimals, NULL below every value.
    pub fn parser_options(&self) -> ParserOptions {
        ParserOptions::from(&self.options.sql_parser)
    }
}

/// The options of all of planning.
pub(super) fn options() -> ConfigOptions {
    let mut options = ConfigOptions::default();
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.default_null_ordering = "nulls_min".into();
    // Rows come and go: a subquery is a join, not a value looked up once.
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    options.optimizer.skip_failed_rules = false;
    options
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> datafusion_common::Result<Arc<dyn TableSource>> {
        let found = match &name {
            TableReference::Bare { table } => self.catalog.relation(table),
            _ => None,
        };
        match found {
            Some(Relation { schema, plan, versions }) => Ok(Arc::new(RelationSource { schema, plan, versions })),
            None => Err(through(Error::unknown("table or view", name.to_string(), self.catalog.names()))),
        }
    }

    fn create_cte_work_table(&self, name: &str, _schema: SchemaRef) -> datafusion_common::Result<Arc<dyn TableSource>> {
        Err(through(Error::unsupported(format!("WITH RECURSIVE ({name})"))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &functions().planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::clone(&self.types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let name = name.to_lowercase();
        functions().scalar.get(&name).cloned().or_else(|| group_windows::function(&name))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        functions().higher_order.get(&name.to_lowercase()).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        functions().aggregate.get(&name.to_lowercase()).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        functions().window.get(&name.to_lowercase()).cloned()
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        functions().scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        functions().higher_order.keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        functions().aggregate.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        functions().window.keys().cloned().collect()
    }
}
