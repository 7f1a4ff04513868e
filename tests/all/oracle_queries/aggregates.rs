//! Aggregates, GROUP BY, HAVING, GROUPING SETS.

use super::{Query, same, translated};

pub const QUERIES: &[Query] = &[
    same("count_by_key", "SELECT a, COUNT(*) AS n, COUNT(b) AS known, COUNT(DISTINCT b) AS different FROM t GROUP BY a"),
    same("sum_and_avg", "SELECT a, SUM(b) AS s, AVG(b) AS mean FROM t GROUP BY a"),
    same("sum_and_avg_of_doubles", "SELECT a, SUM(d) AS s, AVG(d) AS mean FROM u GROUP BY a"),
    same("min_and_max", "SELECT a, MIN(b) AS least, MAX(b) AS most, MIN(c) AS first_c, MAX(c) AS last_c FROM t GROUP BY a"),
    same("min_and_max_of_doubles", "SELECT e, MIN(d) AS least, MAX(d) AS most, COUNT(*) AS n FROM u GROUP BY e"),
    same("min_of_expression", "SELECT c, MIN(a - b) AS least, MAX(a * b) AS most FROM t GROUP BY c"),
    same("sum_distinct", "SELECT a, SUM(DISTINCT b) AS s, COUNT(DISTINCT c) AS n, SUM(b) AS all_b FROM t GROUP BY a"),
    same("count_distinct_of_two_columns", "SELECT COUNT(DISTINCT a) AS different_a, COUNT(DISTINCT c) AS different_c, COUNT(*) AS n FROM t"),
    same("filter_clause", "SELECT a, COUNT(*) FILTER (WHERE b > 1) AS n, SUM(b) FILTER (WHERE c = 'x') AS s, MIN(b) FILTER (WHERE b > 2) AS least FROM t GROUP BY a"),
    same("filter_clause_distinct", "SELECT COUNT(DISTINCT b) FILTER (WHERE a > 1) AS n, AVG(a) FILTER (WHERE b IS NULL) AS mean FROM t"),
    translated("bool_and_or", "SELECT a, BOOL_AND(b > 1) AS every_b, BOOL_OR(b > 3) AS some_b FROM t GROUP BY a", "SELECT a, MIN(b > 1), MAX(b > 3) FROM t GROUP BY a"),
    translated(
        "variance",
        "SELECT a, VAR_SAMP(d) AS sample, VAR_POP(d) AS population FROM u GROUP BY a",
        "SELECT a, CASE WHEN COUNT(d) > 1 THEN (COUNT(d) * SUM(d * d) - SUM(d) * SUM(d)) / (COUNT(d) * (COUNT(d) - 1.0)) END,
            CASE WHEN COUNT(d) > 0 THEN (COUNT(d) * SUM(d * d) - SUM(d) * SUM(d)) / (COUNT(d) * COUNT(d) * 1.0) END FROM u GROUP BY a",
    ),
    // squared: this SQLite has no square root
    translated(
        "standard_deviation",
        "SELECT c, STDDEV(b) * STDDEV(b) AS sample, STDDEV_POP(b) * STDDEV_POP(b) AS population FROM t GROUP BY c",
        "SELECT c, CASE WHEN COUNT(b) > 1 THEN ((COUNT(b) * SUM(b * b) - SUM(b) * SUM(b)) / (COUNT(b) * (COUNT(b) - 1.0))) END,
            CASE WHEN COUNT(b) > 0 THEN ((COUNT(b) * SUM(b * b) - SUM(b) * SUM(b)) / (COUNT(b) * COUNT(b) * 1.0)) END FROM t GROUP BY c",
    ),
    translated(
        "covariance",
        "SELECT COVAR_POP(a, d) AS together FROM u WHERE a > 0",
        "SELECT CASE WHEN COUNT(*) > 0 THEN (COUNT(*) * SUM(a * d) - SUM(a) * SUM(d)) / (COUNT(*) * COUNT(*) * 1.0) END FROM u WHERE a > 0 AND d IS NOT NULL",
    ),
    translated(
        "median",
        "SELECT a, MEDIAN(d) AS middle FROM u WHERE d IS NOT NULL GROUP BY a",
        "SELECT a, AVG(d) FROM (SELECT a, d, ROW_NUMBER() OVER (PARTITION BY a ORDER BY d) AS i, COUNT(*) OVER (PARTITION BY a) AS n FROM u WHERE d IS NOT NULL)
            WHERE i IN ((n + 1) / 2, (n + 2) / 2) GROUP BY a",
    ),
    same("string_agg", "SELECT a, STRING_AGG(c, ',' ORDER BY c) AS cs FROM t GROUP BY a"),
    same("string_agg_by_another_column", "SELECT STRING_AGG(y, '+' ORDER BY id DESC) AS ys FROM p"),
    translated(
        "array_agg",
        "SELECT a, ARRAY_AGG(b ORDER BY b NULLS FIRST) AS bs FROM t GROUP BY a",
        "SELECT a, '[' || GROUP_CONCAT(COALESCE(b, 'NULL'), ', ' ORDER BY b NULLS FIRST) || ']' FROM t GROUP BY a",
    ),
    translated(
        "first_and_last_value_aggregates",
        "SELECT x, FIRST_VALUE(id ORDER BY id) AS first_id, LAST_VALUE(id ORDER BY id) AS last_id FROM p GROUP BY x",
        "SELECT x, MIN(id), MAX(id) FROM p GROUP BY x",
    ),
    same("group_by_two_columns", "SELECT a, c, COUNT(*) AS n, SUM(b) AS s FROM t GROUP BY a, c"),
    same("group_by_expression", "SELECT a % 2 AS parity, COUNT(*) AS n FROM t GROUP BY a % 2"),
    same("group_by_boolean", "SELECT b > 2 AS big, COUNT(*) AS n, MAX(c) AS last_c FROM t GROUP BY b > 2"),
    same("group_without_aggregates", "SELECT a, c FROM t GROUP BY a, c"),
    same("group_by_of_a_hidden_key", "SELECT COUNT(*) AS n FROM t GROUP BY c"),
    same("having", "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING COUNT(*) > 1 AND MIN(b) < 3"),
    same("having_without_group_by", "SELECT COUNT(*) AS n FROM t HAVING COUNT(*) > 8"),
    same("expression_of_aggregates", "SELECT a, SUM(b) * 2 + COUNT(*) AS score, MAX(b) - MIN(b) AS spread FROM t GROUP BY a"),
    same("global_aggregates", "SELECT COUNT(*) AS n, SUM(b) AS s, MIN(c) AS first_c, MAX(a) AS most, AVG(b) AS mean FROM t"),
    same("global_aggregates_of_little", "SELECT COUNT(*) AS n, SUM(b) AS s, MAX(c) AS last_c FROM t WHERE a = 4 AND b > 2"),
    same("aggregate_of_aggregate", "SELECT n, COUNT(*) AS group_count, SUM(s) AS s FROM (SELECT a, COUNT(*) AS n, SUM(b) AS s FROM t GROUP BY a) AS g GROUP BY n"),
    same("max_of_counts", "SELECT MAX(n) AS most, MIN(n) AS least FROM (SELECT c, COUNT(*) AS n FROM t GROUP BY c) AS g"),
    same("aggregate_over_distinct", "SELECT c, COUNT(*) AS n, SUM(a) AS s FROM (SELECT DISTINCT a, c FROM t) AS g GROUP BY c"),
    same("aggregate_of_outer_join", "SELECT p.id, COUNT(t.a) AS n, SUM(t.b) AS s FROM p LEFT JOIN t ON p.id = t.a GROUP BY p.id"),
    same("aggregate_of_upserts", "SELECT x, COUNT(*) AS n, MIN(y) AS first_y, SUM(id) AS ids FROM p GROUP BY x"),
    translated(
        "grouping_sets",
        "SELECT a, c, COUNT(*) AS n, SUM(b) AS s FROM t GROUP BY GROUPING SETS ((a, c), (a), ())",
        "SELECT a, c, COUNT(*), SUM(b) FROM t GROUP BY a, c UNION ALL SELECT a, NULL, COUNT(*), SUM(b) FROM t GROUP BY a UNION ALL SELECT NULL, NULL, COUNT(*), SUM(b) FROM t",
    ),
    translated(
        "grouping_sets_without_total",
        "SELECT a, c, MIN(b) AS least, COUNT(DISTINCT b) AS n FROM t GROUP BY GROUPING SETS ((a), (c))",
        "SELECT a, NULL, MIN(b), COUNT(DISTINCT b) FROM t GROUP BY a UNION ALL SELECT NULL, c, MIN(b), COUNT(DISTINCT b) FROM t GROUP BY c",
    ),
    translated(
        "grouping_function",
        "SELECT a, c, GROUPING(a) AS ga, GROUPING(c) AS gc, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((a, c), (c), ())",
        "SELECT a, c, 0, 0, COUNT(*) FROM t GROUP BY a, c UNION ALL SELECT NULL, c, 1, 0, COUNT(*) FROM t GROUP BY c UNION ALL SELECT NULL, NULL, 1, 1, COUNT(*) FROM t",
    ),
    translated(
        "rollup",
        "SELECT a, b, SUM(b) AS s, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)",
        "SELECT a, b, SUM(b), COUNT(*) FROM t GROUP BY a, b UNION ALL SELECT a, NULL, SUM(b), COUNT(*) FROM t GROUP BY a UNION ALL SELECT NULL, NULL, SUM(b), COUNT(*) FROM t",
    ),
    translated(
        "cube",
        "SELECT a, c, MAX(b) AS most, COUNT(*) AS n FROM t GROUP BY CUBE (a, c)",
        "SELECT a, c, MAX(b), COUNT(*) FROM t GROUP BY a, c UNION ALL SELECT a, NULL, MAX(b), COUNT(*) FROM t GROUP BY a
            UNION ALL SELECT NULL, c, MAX(b), COUNT(*) FROM t GROUP BY c UNION ALL SELECT NULL, NULL, MAX(b), COUNT(*) FROM t",
    ),
    translated(
        "rollup_having",
        "SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a) HAVING COUNT(*) > 2",
        "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 2 UNION ALL SELECT NULL, COUNT(*) FROM t HAVING COUNT(*) > 2",
    ),
];
