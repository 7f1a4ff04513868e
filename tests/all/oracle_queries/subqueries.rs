//! IN, NOT IN, EXISTS and scalar subqueries, correlated or not.

use super::{Query, same, translated};

pub const QUERIES: &[Query] = &[
    same("in_subquery", "SELECT a, b FROM t WHERE a IN (SELECT a FROM u)"),
    same("in_subquery_correlated", "SELECT a, b, c FROM t WHERE a IN (SELECT u.a FROM u WHERE u.e = t.c)"),
    same("in_subquery_with_groups", "SELECT a, b FROM t WHERE a IN (SELECT a FROM t GROUP BY a HAVING COUNT(*) > 1)"),
    same("in_subquery_of_expression", "SELECT a, b FROM t WHERE a + 1 IN (SELECT id FROM p WHERE x > 1)"),
    same("not_in_with_nulls", "SELECT a, b FROM t WHERE a NOT IN (SELECT a FROM u WHERE d > 2)"),
    same("not_in_without_nulls", "SELECT a, b FROM t WHERE a NOT IN (SELECT id FROM p)"),
    same("not_in_nulls_filtered", "SELECT a, b FROM t WHERE b NOT IN (SELECT x FROM p WHERE x IS NOT NULL)"),
    same("not_in_of_what_may_be_empty", "SELECT a, b FROM t WHERE a NOT IN (SELECT a FROM u WHERE d > 3)"),
    same("not_in_correlated", "SELECT a, b, c FROM t WHERE a NOT IN (SELECT u.a FROM u WHERE u.e = t.c)").may_be_refused(),
    same("in_or", "SELECT a, b FROM t WHERE a IN (SELECT a FROM u) OR b = 1"),
    same("not_in_or", "SELECT a, b FROM t WHERE a NOT IN (SELECT a FROM u WHERE d > 2) OR b = 1").may_be_refused(),
    same("in_as_a_column", "SELECT a, a IN (SELECT a FROM u WHERE d > 2) AS found FROM t").may_be_refused(),
    same("exists", "SELECT id, y FROM p WHERE EXISTS (SELECT 1 FROM t WHERE t.a = p.id)"),
    same("exists_with_residual", "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.d > t.b)"),
    same("exists_inequality_only", "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.x > t.b)"),
    same("exists_uncorrelated", "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM p WHERE x = 4)"),
    same("not_exists", "SELECT id, y FROM p WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.a = p.id AND t.b > 1)"),
    same("not_exists_null_keys_stay", "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)"),
    same("exists_or", "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) OR b = 1"),
    same(
        "exists_and_not_exists",
        "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND NOT EXISTS (SELECT 1 FROM p WHERE p.id = t.b)",
    ),
    same(
        "exists_two_levels",
        "SELECT id FROM p WHERE EXISTS (SELECT 1 FROM t WHERE t.a = p.id AND EXISTS (SELECT 1 FROM u WHERE u.a = t.b))",
    ),
    same("scalar_in_where", "SELECT a, b FROM t WHERE b > (SELECT AVG(b) FROM t)"),
    same("scalar_in_select", "SELECT a, (SELECT MAX(d) FROM u) AS most FROM t"),
    same("scalar_of_nothing_is_null", "SELECT a, (SELECT MAX(d) FROM u WHERE a > 100) AS no_value FROM t"),
    same("scalar_correlated_max", "SELECT a, b, (SELECT MAX(d) FROM u WHERE u.a = t.a) AS most FROM t"),
    same("scalar_correlated_count_is_zero_of_nothing", "SELECT a, b, (SELECT COUNT(*) FROM u WHERE u.a = t.a) AS n FROM t"),
    same("scalar_correlated_in_where", "SELECT a, b FROM t WHERE b >= (SELECT MIN(d) FROM u WHERE u.a = t.a)"),
    same("scalar_correlated_count_in_where", "SELECT id, y FROM p WHERE (SELECT COUNT(*) FROM t WHERE t.a = p.id) < 2"),
    same("scalar_of_a_key", "SELECT a, (SELECT MIN(y) FROM p WHERE p.id = t.b) AS y FROM t"),
    same("scalar_in_expression", "SELECT a, b - (SELECT MIN(b) FROM t) AS above FROM t"),
    same("scalar_in_having", "SELECT a, SUM(b) AS s FROM t GROUP BY a HAVING SUM(b) > (SELECT AVG(x) FROM p)"),
    translated(
        "lateral_aggregate",
        "SELECT t.a, s.most FROM t CROSS JOIN LATERAL (SELECT MAX(u.d) AS most FROM u WHERE u.a = t.a) AS s",
        "SELECT t.a, (SELECT MAX(u.d) FROM u WHERE u.a = t.a) FROM t",
    )
    .may_be_refused(),
    translated(
        "lateral_rows",
        "SELECT t.a, s.d FROM t CROSS JOIN LATERAL (SELECT u.d FROM u WHERE u.a = t.a) AS s",
        "SELECT t.a, u.d FROM t JOIN u ON u.a = t.a",
    )
    .may_be_refused(),
];
