//! The functions that SQL text can name.
//!
//! All of DataFusion's scalar, nested, aggregate and window functions, the names that users of other engines know them
//! by, and Weir's own: the functions of *engine time* ([`EngineTime`]), which stand for an instant that the planner puts
//! in (never for the machine's clock), [`single_value`], which makes a scalar subquery of more than one row an error, and
//! what Flink has beside these: DATE_FORMAT with Java's patterns, REGEXP_EXTRACT and SPLIT_INDEX, FLOOR and CEIL to units of
//! time, TIMESTAMPDIFF, and whole numbers times intervals. DATE_TRUNC is Weir's own: see `calendar`.

mod calendar;
mod date_format;
mod date_trunc;
mod intervals;
mod regexp_extract;
mod split_index;
mod timestamp_diff;
mod to_char;

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimeUnit, UInt64Type};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::planner::ExprPlanner;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, HigherOrderUDF, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, WindowUDF,
};

pub use calendar::check_unit;
pub use date_trunc::{CEIL, FLOOR};
pub use intervals::{TIMES, multiplied};

/// Every function by every name it has, in lower case.
pub struct Functions {
    pub scalar: HashMap<String, Arc<ScalarUDF>>,
    pub higher_order: HashMap<String, Arc<HigherOrderUDF>>,
    pub aggregate: HashMap<String, Arc<AggregateUDF>>,
    pub window: HashMap<String, Arc<WindowUDF>>,
    /// What makes function calls of syntax: `EXTRACT`, array literals, field access and the like.
    pub planners: Vec<Arc<dyn ExprPlanner>>,
}

/// Names that users of Flink and others expect, and what they are called here.
const ALIASES: &[(&str, &str)] =
    &[("ceiling", "ceil"), ("unix_timestamp", "to_unixtime"), ("regexp", "regexp_like"), ("startswith", "starts_with")];
const AGGREGATE_ALIASES: &[(&str, &str)] =
    &[("every", "bool_and"), ("some", "bool_or"), ("listagg", "string_agg"), ("collect", "array_agg")];

/// Functions that say something of files or of the process, of which a view knows nothing.
const LEFT_OUT: &[&str] = &["input_file_name", "file_row_index", "version", "today"];

/// The functions there are.
pub fn functions() -> &'static Functions {
    static FUNCTIONS: LazyLock<Functions> = LazyLock::new(Functions::all);
    &FUNCTIONS
}

impl Functions {
    fn all() -> Self {
        let mut scalar = HashMap::new();
        for function in
            datafusion_functions::all_default_functions().into_iter().chain(datafusion_functions_nested::all_default_nested_functions())
        {
            insert(&mut scalar, function.name(), function.aliases(), &function);
        }
        for name in LEFT_OUT {
            scalar.remove(*name);
        }
        for kind in Instant::ALL {
            for name in kind.names() {
                scalar.insert(name.to_string(), Arc::new(ScalarUDF::new_from_impl(EngineTime::new(name, kind))));
            }
        }
        for flink in [
            ScalarUDF::new_from_impl(date_format::DateFormat::new()),
            ScalarUDF::new_from_impl(regexp_extract::RegexpExtract::new()),
            ScalarUDF::new_from_impl(split_index::SplitIndex::new()),
            ScalarUDF::new_from_impl(date_trunc::DateTrunc::new(false)),
            ScalarUDF::new_from_impl(date_trunc::RoundTo::new(false)),
            ScalarUDF::new_from_impl(date_trunc::RoundTo::new(true)),
            ScalarUDF::new_from_impl(timestamp_diff::TimestampDiff::new()),
            ScalarUDF::new_from_impl(to_char::ToChar::new()),
        ] {
            let flink = Arc::new(flink);
            insert(&mut scalar, flink.name(), flink.aliases(), &flink);
        }
        alias(&mut scalar, ALIASES);
        let mut higher_order = HashMap::new();
        for function in datafusion_functions_nested::all_default_higher_order_functions() {
            insert(&mut higher_order, function.name(), function.aliases(), &function);
        }
        let mut aggregate = HashMap::new();
        for function in datafusion_functions_aggregate::all_default_aggregate_functions() {
            insert(&mut aggregate, function.name(), function.aliases(), &function);
        }
        alias(&mut aggregate, AGGREGATE_ALIASES);
        let mut window = HashMap::new();
        for function in datafusion_functions_window::all_default_window_functions() {
            insert(&mut window, function.name(), function.aliases(), &function);
        }
        Functions { scalar, higher_order, aggregate, window, planners: planners() }
    }

    /// All names, for messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let scalar = self.scalar.keys().chain(self.higher_order.keys());
        scalar.chain(self.aggregate.keys()).chain(self.window.keys()).map(String::as_str)
    }
}

fn insert<F: ?Sized>(map: &mut HashMap<String, Arc<F>>, name: &str, aliases: &[String], function: &Arc<F>) {
    for name in aliases.iter().map(String::as_str).chain([name]) {
        map.insert(name.to_lowercase(), Arc::clone(function));
    }
}

fn alias<F: ?Sized>(map: &mut HashMap<String, Arc<F>>, aliases: &[(&str, &str)]) {
    for (name, of) in aliases {
        if let Some(function) = map.get(*of) {
            let function = Arc::clone(function);
            map.entry(name.to_string()).or_insert(function);
        }
    }
}

fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(intervals::Intervals),
        Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
        Arc::new(datafusion_functions_nested::planner::NestedFunctionPlanner),
        Arc::new(datafusion_functions_nested::planner::FieldAccessPlanner),
        Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
        Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
        Arc::new(datafusion_functions_aggregate::planner::AggregateFunctionPlanner),
        Arc::new(datafusion_functions_window::planner::WindowFunctionPlanner),
    ]
}

/// What a function of engine time says of the instant. All are in UTC and carry no zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instant {
    /// The instant, as a TIMESTAMP(3).
    Timestamp,
    /// Its day.
    Date,
    /// Its time of day.
    Time,
}

impl Instant {
    const ALL: [Instant; 3] = [Instant::Timestamp, Instant::Date, Instant::Time];

    fn names(self) -> &'static [&'static str] {
        match self {
            Instant::Timestamp => &["now", "current_timestamp", "localtimestamp", "proctime", "current_row_timestamp"],
            Instant::Date => &["current_date"],
            Instant::Time => &["current_time", "localtime"],
        }
    }

    /// The type of its value.
    pub fn data_type(self) -> DataType {
        match self {
            Instant::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, None),
            Instant::Date => DataType::Date32,
            Instant::Time => DataType::Time64(TimeUnit::Nanosecond),
        }
    }

    /// Its value at `now`, in milliseconds since the epoch.
    pub fn at(self, now: i64) -> ScalarValue {
        const DAY: i64 = 86_400_000;
        match self {
            Instant::Timestamp => ScalarValue::TimestampMillisecond(Some(now), None),
            Instant::Date => ScalarValue::Date32(i32::try_from(now.div_euclid(DAY)).ok()),
            Instant::Time => ScalarValue::Time64Nanosecond(Some(now.rem_euclid(DAY) * 1_000_000)),
        }
    }
}

/// NOW() and its kin. The planner puts the instant in their place, or solves the conditions that they are in. To DataFusion
/// they are volatile, so that it leaves them where they are.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct EngineTime {
    name: &'static str,
    pub instant: Instant,
    signature: Signature,
}

impl EngineTime {
    fn new(name: &'static str, instant: Instant) -> Self {
        EngineTime { name, instant, signature: Signature::nullary(Volatility::Volatile) }
    }

    /// The engine time function that `function` is, if it is one.
    pub fn of(function: &ScalarUDF) -> Option<&EngineTime> {
        (function.inner().as_ref() as &dyn Any).downcast_ref()
    }
}

impl ScalarUDFImpl for EngineTime {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.instant.data_type())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is not evaluated: the planner replaces it", self.name)
    }
}

/// The one value of a scalar subquery: NULL of no rows, an error of more than one.
pub fn single_value() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::new_from_impl(SingleValue { signature: Signature::any(1, Volatility::Immutable) })));
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SingleValueAccumulator { value: ScalarValue::try_from(args.return_type())?, rows: 0 }))
    }
}

#[derive(Debug)]
struct SingleValueAccumulator {
    value: ScalarValue,
    rows: u64,
}

impl SingleValueAccumulator {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        self.rows += values.len() as u64;
        if self.rows > 1 {
            return exec_err!("a scalar subquery gave more than one row");
        }
        if !values.is_empty() {
            self.value = ScalarValue::try_from_array(values, 0)?;
        }
        Ok(())
    }
}

impl Accumulator for SingleValueAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<UInt64Type>();
        for state in 0..rows.len() {
            if rows.value(state) > 0 {
                self.add(&states[0].slice(state, 1))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_before_the_epoch_is_on_the_day_before_it() {
        assert_eq!(Instant::Date.at(-1), ScalarValue::Date32(Some(-1)));
        assert_eq!(Instant::Time.at(-1), ScalarValue::Time64Nanosecond(Some(86_399_999 * 1_000_000)));
    }

    #[test]
    fn no_name_of_engine_time_reaches_datafusions_clock() {
        for name in ["now", "current_timestamp", "localtimestamp", "current_date", "current_time", "localtime", "proctime"] {
            assert!(EngineTime::of(&functions().scalar[name]).is_some(), "{name}");
        }
        assert!(!functions().scalar.contains_key("today"));
    }
}
