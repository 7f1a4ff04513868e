//! What numbers are and what becomes of those that do not fit.

use super::*;

/// The type of a query's only column.
fn type_of(sql: &str) -> DataType {
    let plan = maintained(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).plan;
    assert_eq!(plan.row().len(), 1, "{sql}");
    plan.row().columns[0].data_type.clone()
}

#[test]
fn a_number_with_a_point_is_exact_alone_and_beside_exact_numbers() {
    for (sql, precision, scale) in [
        ("SELECT 0.10", 2, 2),
        ("SELECT -0.5", 1, 1),
        ("VALUES (12345678901234567890.12)", 22, 2),
        ("SELECT 0.1 + 0.2", 2, 1),
        ("SELECT x * 0.5 FROM d", 12, 3),
        ("SELECT COALESCE(x, 0.5) FROM d", 10, 2),
    ] {
        assert_eq!(type_of(sql), DataType::Decimal128(precision, scale), "{sql}");
    }
}

#[test]
fn a_number_with_a_point_in_a_computation_of_others_is_a_double() {
    for sql in [
        "SELECT a / 2.0 FROM t",
        "SELECT 1 / 3.0",
        "SELECT a * 0.5 FROM t",
        "SELECT (1.5 + 0.5) * a FROM t",
        "SELECT f + 0.5 FROM d",
        "SELECT AVG(a * 0.5) FROM t",
        "SELECT CASE WHEN a > 1 THEN 0.5 ELSE f END FROM t, d",
        "SELECT f FROM d UNION ALL SELECT 0.5",
        "SELECT 0.5 UNION ALL SELECT f FROM d UNION ALL SELECT 1.5",
        "SELECT x FROM (VALUES (0.5), (1e300)) AS v(x)",
        "SELECT 1e3",
        "SELECT 1234567890123456789012345678901234567890.5",
    ] {
        assert_eq!(type_of(sql), DataType::Float64, "{sql}");
    }
}

#[test]
fn a_constant_that_overflows_is_refused_with_its_expression() {
    for (sql, expression) in [
        ("SELECT a FROM t WHERE a > 9223372036854775807 + 1", "9223372036854775807 + 1"),
        ("SELECT CAST(2147483647 AS INT) + CAST(1 AS INT)", "CAST(2147483647 AS INT) + CAST(1 AS INT)"),
        ("SELECT a FROM (SELECT a, 9223372036854775807 AS m FROM t) AS q WHERE a < m * 2", "9223372036854775807 * 2"),
        ("VALUES (-9223372036854775807 - 2)", "-9223372036854775807 - 2"),
    ] {
        let error = maintained(sql).expect_err(sql).to_string();
        assert!(error.starts_with(&format!("{expression}: Overflow")), "{sql}: {error}");
    }
    assert_eq!(type_of("SELECT 9223372036854775806 + 1"), DataType::Int64);
}

#[test]
fn every_expression_over_rows_is_checked_for_overflow() {
    use datafusion_physical_expr::expressions::BinaryExpr;
    let sql = "SELECT t.a + 1, SUM(t.b * 2) FILTER (WHERE t.b - 1 > 0), MAX(u.c + 2) FROM t JOIN u ON t.a + 3 = u.a + 4 AND t.b * 5 < u.c \
               WHERE t.a * 6 > 7 GROUP BY t.a + 1";
    let mut seen = 0;
    let mut open = vec![maintained(sql).expect("a plan").plan];
    while let Some(plan) = open.pop() {
        open.extend(plan.inputs().into_iter().cloned());
        let Node::Linear { steps, .. } = plan.node() else { continue };
        let mut exprs: Vec<Scalar> = vec![];
        for step in steps {
            match step {
                Step::Filter(predicate) => exprs.push(predicate.clone()),
                Step::Project(items) => exprs.extend(items.iter().map(|(scalar, _)| scalar.clone())),
                Step::Unnest { .. } => {}
            }
        }
        while let Some(expr) = exprs.pop() {
            exprs.extend(expr.children().into_iter().cloned());
            assert_eq!(&crate::eval::checked(expr.clone()), &expr, "{expr}");
            seen += usize::from(expr.is::<BinaryExpr>());
        }
    }
    assert!(seen >= 7, "{seen} operators were seen");
}

#[test]
fn a_null_without_a_type_is_a_varchar() {
    assert_eq!(type_of("SELECT NULL AS n"), DataType::Utf8);
    assert_eq!(type_of("VALUES (NULL)"), DataType::Utf8);
    assert_eq!(type_of("SELECT NULL UNION ALL SELECT a FROM t"), DataType::Int32);
    assert_eq!(type_of("SELECT COALESCE(n, 3) FROM (SELECT NULL AS n FROM t) AS q"), DataType::Int64);
}
