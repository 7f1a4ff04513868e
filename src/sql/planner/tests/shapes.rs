//! The shape of plans: which nodes there are, what is arranged by what, and what is not there.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{Int64Type, TimestampMillisecondType};

use super::*;
use crate::plan::{JoinKind, Rank, SumKind};

fn plan(sql: &str) -> Plan {
    maintained(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).plan
}

/// All nodes of a plan, the root first.
fn nodes(plan: &Plan) -> Vec<Plan> {
    let mut found = vec![plan.clone()];
    plan.inputs().into_iter().for_each(|input| found.extend(nodes(input)));
    found
}

fn count(plan: &Plan, is: impl Fn(&Node) -> bool) -> usize {
    nodes(plan).iter().filter(|plan| is(plan.node())).count()
}

fn names(arrangement: &Arrangement) -> (Vec<&str>, Vec<&str>) {
    let names: Vec<&str> = arrangement.input.row().columns.iter().map(|column| column.name.as_str()).collect();
    let (key, values) = names.split_at(arrangement.key);
    (key.to_vec(), values.to_vec())
}

fn only(plans: &[Plan], is: impl Fn(&Node) -> bool) -> &Plan {
    let found: Vec<&Plan> = plans.iter().filter(|plan| is(plan.node())).collect();
    assert_eq!(found.len(), 1, "{}", plans.first().map(tree).unwrap_or_default());
    found[0]
}

#[test]
fn a_chain_of_filters_and_projections_is_one_node() {
    let plan =
        plan("SELECT x + 1 AS y FROM (SELECT a + b AS x FROM (SELECT a, b, s FROM t WHERE a > 1) AS q WHERE b < 3) AS r WHERE x > 5");
    assert_eq!(count(&plan, |node| matches!(node, Node::Linear { .. })), 1, "{}", tree(&plan));
}

#[test]
fn reading_a_table_as_it_is_costs_no_node() {
    assert!(matches!(plan("SELECT a, b, s FROM t").node(), Node::Get { .. }));
    assert!(matches!(plan("SELECT * FROM (SELECT * FROM t) AS q").node(), Node::Get { .. }));
}

#[test]
fn a_join_arranges_its_keys_and_what_is_read_of_each_side_and_names_the_sides() {
    let plans = nodes(&plan("SELECT x.b, u.c FROM t AS x JOIN u ON x.a = u.a AND x.s = u.s WHERE x.b > 1"));
    let Node::Join { kind: JoinKind::Inner, left, right } = only(&plans, |node| matches!(node, Node::Join { .. })).node() else {
        panic!("{}", tree(&plans[0]))
    };
    assert_eq!(names(left), (vec!["a", "s"], vec!["b"]));
    assert_eq!(names(right), (vec!["a", "s"], vec!["c"]));
    assert_eq!((left.name.as_deref(), right.name.as_deref()), (Some("x"), Some("u")));
}

#[test]
fn the_sides_of_a_join_have_keys_of_one_type_and_order() {
    let queries = [
        "SELECT 1 FROM t JOIN d ON t.a = d.x",
        "SELECT 1 FROM t LEFT JOIN d ON t.b = d.f",
        "SELECT 1 FROM t JOIN (SELECT MAX(a) AS m, b FROM t GROUP BY b) AS q ON t.a = q.m",
        "SELECT 1 FROM t JOIN (SELECT a FROM t ORDER BY a DESC LIMIT 3) AS q ON t.a = q.a",
    ];
    for sql in queries {
        let plans = nodes(&plan(sql));
        let Node::Join { left, right, .. } = only(&plans, |node| matches!(node, Node::Join { .. })).node() else { panic!("{sql}") };
        for (l, r) in left.input.row().columns[..left.key].iter().zip(right.input.row().columns[..right.key].iter()) {
            assert_eq!((&l.data_type, l.sort, l.sort), (&r.data_type, r.sort, SortOptions::default()), "{sql}");
        }
    }
}

#[test]
fn a_condition_beside_an_equality_is_a_filter_over_an_inner_join() {
    let plan = plan("SELECT t.a FROM t JOIN u ON t.a = u.a AND t.b < u.c");
    let Node::Linear { input, steps } = plan.node() else { panic!("{}", tree(&plan)) };
    assert!(matches!(input.node(), Node::Join { kind: JoinKind::Inner, .. }));
    assert!(matches!(steps[0], Step::Filter(_)));
}

#[test]
fn nulls_are_filtered_only_where_they_cannot_be_kept() {
    let filtered = |sql: &str| {
        let plans = nodes(&plan(sql));
        let Node::Join { left, right, .. } = only(&plans, |node| matches!(node, Node::Join { .. })).node() else { panic!("{sql}") };
        let filters = |arrangement: &Arrangement| match arrangement.input.node() {
            Node::Linear { steps, .. } => steps.iter().any(|step| matches!(step, Step::Filter(_))),
            _ => false,
        };
        (filters(left), filters(right))
    };
    assert_eq!(filtered("SELECT t.b, u.c FROM t JOIN u ON t.a = u.a"), (true, true));
    assert_eq!(filtered("SELECT t.b, u.c FROM t LEFT JOIN u ON t.a = u.a"), (false, true));
    assert_eq!(filtered("SELECT t.b, u.c FROM t RIGHT JOIN u ON t.a = u.a"), (true, false));
    assert_eq!(filtered("SELECT t.b, u.c FROM t FULL JOIN u ON t.a = u.a"), (false, false));
    assert_eq!(filtered("SELECT t.b, n.v FROM t JOIN n ON t.a = n.k"), (true, false), "k is NOT NULL");
    assert_eq!(filtered("SELECT t.b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)"), (false, true));
    assert_eq!(filtered("SELECT x.b FROM t AS x JOIN t AS y ON x.a IS NOT DISTINCT FROM y.a"), (false, false));
}

#[test]
fn aggregates_that_add_up_share_one_arrangement_of_sums() {
    let plans = nodes(&plan("SELECT a, COUNT(*), SUM(b), AVG(b), COUNT(b), BOOL_OR(b > 1) FROM t GROUP BY a"));
    let Node::Reduce { parts, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else { panic!("{}", tree(&plans[0])) };
    assert_eq!(parts.len(), 1);
    let Layout::Sums(sums) = &parts[0].input.layout else { panic!("{}", tree(&plans[0])) };
    let kinds: Vec<SumKind> = sums.iter().map(|sum| sum.kind).collect();
    use SumKind::*;
    assert_eq!(kinds, [Count, Integer, Count, True, Count], "rows, b, b that is not NULL, b > 1 that is true, b > 1 that is not NULL");
}

#[test]
fn whole_numbers_are_summed_as_such_for_an_average() {
    let plans = nodes(&plan("SELECT AVG(a) FROM t"));
    let Node::Reduce { parts, outputs, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else {
        panic!("{}", tree(&plans[0]))
    };
    assert_eq!(parts[0].input.input.row().columns[0].data_type, DataType::Int32);
    assert_eq!(outputs[0].column.data_type, DataType::Float64);
}

#[test]
fn minimum_and_maximum_read_the_first_row_with_null_last() {
    let plans = nodes(&plan("SELECT a, MIN(b), MAX(b), MAX(DISTINCT s) FROM t GROUP BY a"));
    let Node::Reduce { parts, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else { panic!("{}", tree(&plans[0])) };
    let sorts: Vec<SortOptions> = parts.iter().map(|part| part.input.input.row().columns[1].sort).collect();
    assert!(parts.iter().all(|part| matches!(part.kind, PartKind::First) && part.input.key == 1));
    let sort = |descending| SortOptions { descending, nulls_first: false };
    assert_eq!(sorts, [sort(false), sort(true), sort(true)]);
}

#[test]
fn minimum_and_maximum_of_numbers_that_only_come_are_kept_beside_sums() {
    let kinds = |sql: &str| {
        let plans = nodes(&plan(sql));
        let Node::Reduce { parts, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else { panic!("{sql}") };
        parts.iter().map(|part| matches!(part.kind, PartKind::First)).collect::<Vec<_>>()
    };
    assert_eq!(kinds("SELECT a, COUNT(*), MIN(b), MAX(b + 1), SUM(b) FROM log GROUP BY a"), [false]);
    assert_eq!(kinds("SELECT MAX(l.b) FROM log AS l JOIN log AS m ON l.a = m.a"), [false]);
    assert_eq!(kinds("SELECT a, MIN(s) FROM log GROUP BY a"), [true], "text is as long as it likes");
    assert_eq!(kinds("SELECT a, MIN(log.b) FROM log LEFT JOIN n ON log.a = n.k GROUP BY a"), [true], "NULLs go when a match comes");
    assert_eq!(kinds("SELECT MIN(b) FROM (SELECT b FROM log UNION ALL SELECT b FROM t) AS q"), [true], "rows of t may go");
}

#[test]
fn distinct_values_under_several_filters_are_kept_once() {
    let parts = |sql: &str| {
        let plans = nodes(&plan(sql));
        let reduces = plans.iter().filter(|plan| matches!(plan.node(), Node::Reduce { .. }));
        reduces.map(|plan| plan.arrangements().len()).collect::<Vec<_>>()
    };
    let filtered = "COUNT(DISTINCT b) FILTER (WHERE s = 'x'), SUM(DISTINCT b) FILTER (WHERE s = 'y')";
    // All rows, the values of b; and under the latter, which filters each value passes.
    assert_eq!(parts(&format!("SELECT a, COUNT(*), COUNT(DISTINCT b), {filtered} FROM t GROUP BY a")), [2, 1]);
    assert_eq!(parts(&format!("SELECT a, {filtered}, COUNT(DISTINCT s) FILTER (WHERE b = 1) FROM t GROUP BY a")), [3, 1]);
    assert_eq!(parts("SELECT a, COUNT(DISTINCT b) FILTER (WHERE s = 'x') FROM t GROUP BY a"), [2]);
    // What can fail is computed of the rows that are counted, and no others.
    let fallible = "COUNT(DISTINCT 1 / b) FILTER (WHERE b <> 0), COUNT(DISTINCT 1 / b) FILTER (WHERE b > 1)";
    assert_eq!(parts(&format!("SELECT a, {fallible} FROM t GROUP BY a")), [3]);
}

#[test]
fn the_first_part_of_a_reduction_reads_every_row() {
    for sql in [
        "SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a",
        "SELECT a, ARRAY_AGG(DISTINCT b) FROM t GROUP BY a",
        "SELECT a, SUM(DISTINCT b) FILTER (WHERE b > 1), MIN(s) FILTER (WHERE b > 1) FROM t GROUP BY a",
    ] {
        let plans = nodes(&plan(sql));
        let Node::Reduce { parts, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else { panic!("{sql}") };
        let below = nodes(&parts[0].input.input);
        let loses_rows = |plan: &Plan| match plan.node() {
            Node::Threshold { .. } => true,
            Node::Linear { steps, .. } => steps.iter().any(|step| matches!(step, Step::Filter(_))),
            _ => false,
        };
        assert!(!below.iter().any(loses_rows), "{sql}\n{}", tree(&plans[0]));
    }
}

#[test]
fn ordered_aggregates_are_fed_from_arrangements_in_their_order() {
    let plans = nodes(&plan("SELECT a, STRING_AGG(s, ',' ORDER BY b DESC), ARRAY_AGG(b ORDER BY s), MEDIAN(b) FROM t GROUP BY a"));
    let Node::Reduce { parts, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else { panic!("{}", tree(&plans[0])) };
    assert_eq!(parts.len(), 2, "MEDIAN shares one of the two");
    let first: Vec<(&str, bool)> =
        parts.iter().map(|part| &part.input.input.row().columns[1]).map(|column| (column.name.as_str(), column.sort.descending)).collect();
    assert_eq!(first, [("b", true), ("s", false)]);
}

#[test]
fn a_query_without_group_by_has_its_row_over_nothing() {
    let plans = nodes(&plan("SELECT COUNT(*) FROM t"));
    let Node::Reduce { always, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else {
        panic!("{}", tree(&plans[0]))
    };
    assert_eq!(always.iter().map(|rows| (rows.num_rows(), rows.num_columns())).collect::<Vec<_>>(), [(1, 0)]);
    let plans = nodes(&plan("SELECT a, COUNT(*) FROM t GROUP BY ROLLUP (a)"));
    let Node::Reduce { always, .. } = only(&plans, |node| matches!(node, Node::Reduce { .. })).node() else {
        panic!("{}", tree(&plans[0]))
    };
    assert_eq!(always.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1]);
    assert!(always[0].column(0).is_null(0) && !always[0].column(1).is_null(0), "the key is NULL and the set's number");
}

#[test]
fn distinct_and_group_by_without_aggregates_are_one_plan() {
    let (distinct, grouped) = (plan("SELECT DISTINCT a FROM t"), plan("SELECT a FROM t GROUP BY a"));
    assert!(matches!(distinct.node(), Node::Threshold { kind: crate::plan::Threshold::Distinct, .. }));
    assert_eq!(distinct.fingerprint(), grouped.fingerprint());
}

#[test]
fn a_common_table_expression_read_twice_is_one_plan() {
    let plans = nodes(&plan("WITH q AS (SELECT a, COUNT(*) AS n FROM t GROUP BY a) SELECT x.n, y.n FROM q AS x JOIN q AS y ON x.a = y.a"));
    let reductions: Vec<&Plan> = plans.iter().filter(|plan| matches!(plan.node(), Node::Reduce { .. })).collect();
    assert_eq!(reductions.len(), 2);
    assert_eq!(reductions[0].fingerprint(), reductions[1].fingerprint());
}

#[test]
fn keeping_the_first_ranks_of_a_partition_is_a_top_n_and_no_window() {
    let ranked = |function: &str, columns: &str, predicate: &str| {
        format!("SELECT {columns} FROM (SELECT *, {function}() OVER (PARTITION BY a ORDER BY b DESC) AS r FROM t) AS q WHERE {predicate}")
    };
    let cases = [
        ("ROW_NUMBER", "a, b, r", "r <= 2", (0, Some(2), Rank::RowNumber, true)),
        ("ROW_NUMBER", "a, b", "r < 3", (0, Some(2), Rank::RowNumber, false)),
        ("ROW_NUMBER", "a", "r = 1 AND s = 'x'", (0, Some(1), Rank::RowNumber, false)),
        ("ROW_NUMBER", "a, b", "2 >= r", (0, Some(2), Rank::RowNumber, false)),
        ("ROW_NUMBER", "a, r", "r BETWEEN 3 AND 5", (2, Some(3), Rank::RowNumber, true)),
        ("ROW_NUMBER", "a, b", "r >= 2 AND r <= 4", (1, Some(3), Rank::RowNumber, false)),
        ("RANK", "a, r", "r <= 3", (0, Some(3), Rank::Rank { order: 1 }, true)),
        ("DENSE_RANK", "a, b", "r <= 3 AND r > 1", (0, Some(3), Rank::DenseRank { order: 1 }, true)),
    ];
    for (function, columns, predicate, expected) in cases {
        let sql = ranked(function, columns, predicate);
        let plans = nodes(&plan(&sql));
        assert_eq!(count(&plans[0], |node| matches!(node, Node::Window { .. })), 0, "{sql}");
        let Node::TopK { input, offset, limit, rank, expose } = only(&plans, |node| matches!(node, Node::TopK { .. })).node() else {
            panic!("{sql}")
        };
        assert_eq!((*offset, *limit, *rank, *expose), expected, "{sql}");
        let (key, values) = names(input);
        assert_eq!((key, values[0]), (vec!["a"], "b"), "{sql}");
        assert!(input.input.row().columns[1].sort.descending, "{sql}");
    }
}

#[test]
fn a_rank_that_is_not_bounded_from_above_stays_a_window() {
    for predicate in ["r > 2", "r <> 1", "r <= b", "r = 1 OR b = 2"] {
        let sql = format!("SELECT a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS r FROM t) AS q WHERE {predicate}");
        let plan = plan(&sql);
        assert_eq!(count(&plan, |node| matches!(node, Node::Window { .. })), 1, "{sql}\n{}", tree(&plan));
    }
}

#[test]
fn a_window_beside_the_rank_is_computed_of_the_whole_partition_first() {
    let plans = nodes(&plan(
        "SELECT a, b, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS r, MAX(b) OVER (PARTITION BY a) AS m FROM t) AS q WHERE r = 1",
    ));
    let top = plans.iter().position(|plan| matches!(plan.node(), Node::TopK { .. }));
    let window = plans.iter().position(|plan| matches!(plan.node(), Node::Window { .. }));
    assert!(top.is_some() && top < window, "{}", tree(&plans[0]));
}

#[test]
fn functions_over_one_window_share_a_node() {
    let plan = plan(
        "SELECT SUM(b) OVER w, LAG(b) OVER w, ROW_NUMBER() OVER w, COUNT(*) OVER (PARTITION BY s) FROM t WINDOW w AS (PARTITION BY a ORDER BY b DESC)",
    );
    let widths: Vec<usize> = nodes(&plan)
        .iter()
        .filter_map(|plan| match plan.node() {
            Node::Window { functions, .. } => Some(functions.len()),
            _ => None,
        })
        .collect();
    assert_eq!(widths.iter().sum::<usize>(), 4);
    assert_eq!(widths.len(), 2, "{}", tree(&plan));
}

#[test]
fn a_limit_is_a_top_n_of_one_group_in_the_asked_order() {
    let plans = nodes(&plan("SELECT a, b FROM t ORDER BY b DESC NULLS LAST, a LIMIT 3 OFFSET 1"));
    let Node::TopK { input, offset: 1, limit: Some(3), .. } = only(&plans, |node| matches!(node, Node::TopK { .. })).node() else {
        panic!("{}", tree(&plans[0]))
    };
    assert_eq!(names(input), (vec![], vec!["b", "a"]));
    assert_eq!(input.input.row().columns[0].sort, SortOptions { descending: true, nulls_first: false });
}

#[test]
fn an_order_by_is_kept_for_who_shows_the_rows_and_dropped_from_a_view() {
    let shown =
        plan_query(&query("SELECT a FROM t ORDER BY b DESC, a"), &tables(), Purpose::Once { now: 0 }, &Retentions::none()).expect("a plan");
    assert_eq!(shown.show, [0]);
    let keys: Vec<(&str, bool)> =
        shown.order.iter().map(|by| (shown.plan.row().columns[by.column].name.as_str(), by.options.descending)).collect();
    assert_eq!(keys, [("b", true), ("a", false)]);
    let view = maintained("SELECT a FROM t ORDER BY b DESC, a").expect("a plan");
    assert_eq!((view.show, view.order, view.plan.row().len()), (vec![0], vec![], 1));
}

#[test]
fn null_sorts_below_every_value_unless_told_otherwise() {
    let shown = plan_query(&query("SELECT a, b FROM t ORDER BY a, b DESC"), &tables(), Purpose::Once { now: 0 }, &Retentions::none())
        .expect("a plan");
    assert_eq!(shown.order.iter().map(|by| by.options.nulls_first).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_plan_is_encoded_in_ascending_order_under_the_querys_names() {
    for sql in [
        "SELECT a AS x, MAX(b) AS y FROM t GROUP BY a",
        "SELECT b AS x, a AS y FROM t ORDER BY b DESC LIMIT 2",
        "SELECT a AS x, b AS y FROM t WHERE a > 1",
    ] {
        let plan = plan(sql);
        assert_eq!(plan.row().columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["x", "y"], "{sql}");
        assert!(plan.row().columns.iter().all(|column| column.sort == SortOptions::default()), "{sql}");
    }
}

#[test]
fn rows_hold_plain_types_only() {
    let sql = "SELECT a, STRING_AGG(s, ','), ARRAY_AGG(s), CONCAT('x', MAX(s)) FROM t GROUP BY a";
    let types: Vec<DataType> = plan(sql).row().columns.iter().map(|column| column.data_type.clone()).collect();
    assert_eq!(types[1], DataType::Utf8);
    assert_eq!(types[3], DataType::Utf8);
    assert!(matches!(&types[2], DataType::List(element) if *element.data_type() == DataType::Utf8));
}

#[test]
fn an_unnested_list_of_each_row_needs_no_join() {
    for (sql, outer) in [
        ("SELECT id, i FROM l CROSS JOIN UNNEST(items) AS q(i)", false),
        ("SELECT id, i FROM l, UNNEST(l.items) AS q(i)", false),
        ("SELECT id, i FROM l LEFT JOIN UNNEST(items) AS q(i) ON TRUE", true),
        ("SELECT id, UNNEST(items) AS i FROM l", false),
    ] {
        let plan = plan(sql);
        let Node::Linear { steps, .. } = plan.node() else { panic!("{sql}\n{}", tree(&plan)) };
        assert!(steps.iter().any(|step| matches!(step, Step::Unnest { outer: o, .. } if *o == outer)), "{sql}\n{}", tree(&plan));
    }
}

#[test]
fn engine_time_is_the_instant_it_was_asked_at() {
    let once = plan_query(
        &query("SELECT NOW() AS a, CURRENT_TIMESTAMP AS b, LOCALTIMESTAMP AS c"),
        &tables(),
        Purpose::Once { now: 86_400_123 },
        &Retentions::none(),
    );
    let plan = once.expect("a plan").plan;
    let Node::Linear { steps, .. } = plan.node() else { panic!("{}", tree(&plan)) };
    let [Step::Project(items)] = steps.as_slice() else { panic!("{}", tree(&plan)) };
    let one = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        vec![],
        &arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
    );
    let one = one.expect("a row");
    for (scalar, _) in items {
        let value = scalar.evaluate(&one).and_then(|value| value.into_array(1)).expect("a value");
        assert_eq!(value.as_primitive::<TimestampMillisecondType>().value(0), 86_400_123);
    }
}

#[test]
fn a_scalar_stands_over_the_columns_of_its_row() {
    let row: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]));
    let expr = Parser::new(&GenericDialect {}).try_with_sql("b * 2 + 1").and_then(|mut parser| parser.parse_expr()).expect("an expression");
    let (scalar, data_type) = plan_scalar(&expr, &row, Purpose::Maintain).expect("a scalar");
    assert_eq!(data_type, DataType::Int64);
    let column = |values: Vec<i64>| Arc::new(arrow::array::Int64Array::from(values)) as arrow::array::ArrayRef;
    let batch = RecordBatch::try_new(row, vec![column(vec![0, 0]), column(vec![3, 4])]).expect("a batch");
    let values = scalar.evaluate(&batch).and_then(|value| value.into_array(2)).expect("values");
    assert_eq!(values.as_primitive::<Int64Type>().values(), &[7, 9]);
}

#[test]
fn types_of_flink_and_of_the_standard_have_their_arrow_types() {
    let of = |sql: &str| {
        let parsed = Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_data_type()).expect(sql);
        data_type(&parsed).unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let timestamp = |unit| DataType::Timestamp(unit, None);
    for (sql, expected) in [
        ("STRING", DataType::Utf8),
        ("VARCHAR", DataType::Utf8),
        ("BYTES", DataType::Binary),
        ("INT", DataType::Int32),
        ("BIGINT", DataType::Int64),
        ("DOUBLE", DataType::Float64),
        ("DECIMAL(12, 3)", DataType::Decimal128(12, 3)),
        ("DECIMAL", DataType::Decimal128(10, 0)),
        ("TIMESTAMP(3)", timestamp(TimeUnit::Millisecond)),
        ("TIMESTAMP", timestamp(TimeUnit::Microsecond)),
        ("TIMESTAMP(9)", timestamp(TimeUnit::Nanosecond)),
        ("TIMESTAMP_LTZ(3)", timestamp(TimeUnit::Millisecond)),
        ("DATE", DataType::Date32),
        ("ARRAY<INT>", DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)))),
    ] {
        assert_eq!(of(sql), expected, "{sql}");
    }
}
