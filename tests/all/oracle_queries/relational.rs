//! Filters, projections, joins, set operations, DISTINCT, VALUES, CTEs, UNNEST, views over views.

use super::{Query, same, translated};

pub const QUERIES: &[Query] = &[
    // Filters
    same("filter_comparisons", "SELECT a, b, c FROM t WHERE a > 1 AND b <= 3"),
    same("filter_or_null", "SELECT a, b FROM t WHERE a = 1 OR b IS NULL"),
    same("filter_not_of_unknown", "SELECT a, b, c FROM t WHERE NOT (a = b)"),
    same("filter_between_and_in_list", "SELECT a, b, c FROM t WHERE a BETWEEN 1 AND 3 AND c IN ('x', 'y', '')"),
    same("filter_not_in_list", "SELECT a, b FROM t WHERE a NOT IN (1, 2)"),
    same("filter_in_list_with_null", "SELECT a, b FROM t WHERE a IN (1, NULL, 3)"),
    same("filter_like", "SELECT a, c FROM t WHERE c LIKE 'x%' OR c LIKE '%y' OR c LIKE '_'"),
    same("filter_distinct_from", "SELECT a, b FROM t WHERE a IS DISTINCT FROM b"),
    same("filter_distinct_from_and", "SELECT a, b FROM t WHERE a IS DISTINCT FROM b AND c = 'x' OR a IS NOT DISTINCT FROM b AND c = 'y'"),
    same("filter_on_expression", "SELECT a, b FROM t WHERE (a + b) % 2 = 0 AND COALESCE(c, 'none') <> 'x'"),
    same("filter_is_true", "SELECT a, b FROM t WHERE (a > 2) IS NOT TRUE"),
    same("filter_of_filter", "SELECT s.a, s.b FROM (SELECT a, b, c FROM t WHERE a > 0) AS s WHERE s.b > 0 AND s.c IS NOT NULL"),
    same("filter_primary_key", "SELECT id, x, y FROM p WHERE id >= 2 AND x IS NOT NULL"),
    // Projections
    same(
        "project_arithmetic",
        "SELECT a + b AS plus, a - b AS minus, a * b AS times, -a AS negative, a % 3 AS modulo, (a + 7) / 2 AS half FROM t",
    ),
    same("project_doubles", "SELECT d * 2 + 0.5 AS scaled, d / 4 AS quarter, d - a AS mixed, ABS(d) AS size, ROUND(d) AS whole FROM u"),
    same(
        "project_strings",
        "SELECT UPPER(c) AS upper_c, LENGTH(c) AS len, c || '-' || c AS twice, SUBSTR(c, 1, 1) AS head, REPLACE(c, 'x', 'zz') AS replaced, TRIM(' ' || c || ' ') AS trimmed FROM t",
    ),
    same(
        "project_case",
        "SELECT a, CASE WHEN a IS NULL THEN -1 WHEN a > 2 THEN 1 ELSE 0 END AS size, CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS word FROM t",
    ),
    same("project_null_functions", "SELECT COALESCE(b, a, 0) AS first_known, NULLIF(a, b) AS unless_equal FROM t"),
    same("project_casts", "SELECT CAST(a AS VARCHAR) AS as_text, CAST(d AS INT) AS as_int, CAST(a AS DOUBLE) AS as_double FROM u"),
    same(
        "project_booleans",
        "SELECT a > 1 AS more, b IS NULL AS unknown, (a > 1) AND (b > 1) AS both_more, (a > 1) OR (b > 1) AS either, NOT (a > 1) AS less FROM t",
    ),
    same("project_constants", "SELECT a, 1 AS one, 'k' AS k, 0.25 AS quarter FROM t"),
    same("project_one_column_twice", "SELECT a AS left_a, a AS right_a FROM t"),
    same("project_chain", "SELECT z + 1 AS z FROM (SELECT y * 2 AS z FROM (SELECT a + b AS y FROM t) AS s1) AS s2 WHERE z > 2"),
    same("project_decimal_literals", "SELECT a * 0.1 AS tenth, a / 4.0 AS quarter, a * 1.5 + 0.25 AS more FROM t WHERE a > 1.5"),
    // -0.0 is 0.0
    same("zero_filter", "SELECT a, d FROM u WHERE d * -1.0 = 0 OR d * -1.0 IN (0.0, 1.0)"),
    same("zero_filter_order", "SELECT a, d FROM u WHERE d * -1.0 < 0.0"),
    same("zero_distinct", "SELECT DISTINCT n FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f"),
    same(
        "zero_group",
        "SELECT n, COUNT(*) AS k, SUM(a) AS s FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f GROUP BY n",
    ),
    same(
        "zero_join",
        "SELECT f.a, u.a AS other FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f JOIN u ON f.n = u.d",
    ),
    same(
        "zero_left_join",
        "SELECT f.a, u.a AS other FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f LEFT JOIN u ON f.n = u.d AND u.a > 2",
    ),
    same("zero_count_distinct", "SELECT COUNT(DISTINCT n) AS k FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f"),
    same(
        "zero_except",
        "SELECT n FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f EXCEPT SELECT d FROM u WHERE a < 3",
    ),
    same(
        "zero_rank",
        "SELECT a, n, RANK() OVER (ORDER BY n NULLS FIRST) AS r FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f",
    ),
    same(
        "zero_partition",
        "SELECT a, n, COUNT(*) OVER (PARTITION BY n) AS k FROM (SELECT a, CASE WHEN a > 1 THEN d * -1.0 ELSE d END AS n FROM u) AS f",
    ),
    // LATERAL of the outer row
    translated(
        "lateral_columns",
        "SELECT t.a, q.twice FROM t CROSS JOIN LATERAL (SELECT t.b * 2 AS twice) AS q WHERE q.twice > t.a",
        "SELECT a, b * 2 AS twice FROM t WHERE b * 2 > a",
    ),
    // Joins
    same("join_inner", "SELECT t.a, t.b, u.d FROM t JOIN u ON t.a = u.a"),
    same("join_inner_residual", "SELECT t.a, t.b, u.d FROM t JOIN u ON t.a = u.a AND t.b > u.d"),
    same("join_inner_on_expression", "SELECT t.a, u.e FROM t JOIN u ON t.a + 1 = u.a"),
    same("join_inner_two_keys", "SELECT t.a, t.b, p.y FROM t JOIN p ON t.a = p.id AND t.b = p.x"),
    same("join_inner_mixed_types", "SELECT t.a, t.c, u.e FROM t JOIN u ON t.a = u.d"),
    same("join_inner_on_text", "SELECT t.a, p.id, t.c FROM t JOIN p ON t.c = p.y"),
    same("join_inner_by_where", "SELECT t.a, u.d, p.y FROM t, u, p WHERE t.a = u.a AND u.a = p.id"),
    same("join_using", "SELECT a, b, d FROM t JOIN u USING (a)"),
    same("join_natural", "SELECT a, b, c, d, e FROM t NATURAL JOIN u"),
    same("join_inequality", "SELECT t.a, p.id FROM t JOIN p ON t.a < p.x"),
    same("join_self", "SELECT l.a, l.b, r.b AS other FROM t AS l JOIN t AS r ON l.a = r.a AND l.b < r.b"),
    same(
        "join_null_safe_beside_equality",
        "SELECT t1.b, p.x FROM t AS t1 JOIN t AS t2 ON t1.b = t2.b JOIN p ON t2.a IS NOT DISTINCT FROM p.x",
    ),
    same(
        "join_null_safe_and_equality_of_one_pair",
        "SELECT p1.x FROM p AS p1 FULL JOIN p AS p2 ON p1.y IS NOT DISTINCT FROM p2.y WHERE p1.y = p2.y",
    ),
    same(
        "join_full_null_safe_and_equality",
        "SELECT t.a, t.b, u.a AS other, u.d FROM t FULL JOIN u ON t.a IS NOT DISTINCT FROM u.a AND t.b = u.d",
    ),
    same("join_null_safe", "SELECT t.a, t.b, u.d FROM t JOIN u ON t.a IS NOT DISTINCT FROM u.a"),
    same("join_left", "SELECT t.a, t.b, u.d, u.e FROM t LEFT JOIN u ON t.a = u.a"),
    same("join_left_residual_on_the_left", "SELECT t.a, t.b, u.d FROM t LEFT JOIN u ON t.a = u.a AND t.b > 2"),
    same("join_left_residual_on_the_right", "SELECT t.a, t.b, u.d FROM t LEFT JOIN u ON t.a = u.a AND u.d > 1"),
    same("join_left_residual_on_both", "SELECT t.a, t.b, u.d FROM t LEFT JOIN u ON t.a = u.a AND t.b > u.d"),
    same("join_left_null_safe", "SELECT t.a, t.c, p.id FROM t LEFT JOIN p ON t.c IS NOT DISTINCT FROM p.y"),
    same("join_left_where_absent", "SELECT t.a, t.b FROM t LEFT JOIN p ON t.a = p.id WHERE p.id IS NULL"),
    same("join_left_where_present", "SELECT t.a, t.b, p.x FROM t LEFT JOIN p ON t.a = p.id WHERE p.x > 1"),
    same("join_left_inequality", "SELECT t.a, p.id FROM t LEFT JOIN p ON t.b < p.x"),
    same("join_left_chain", "SELECT t.a, u.d, p.y FROM t LEFT JOIN u ON t.a = u.a LEFT JOIN p ON u.a = p.id"),
    same("join_right", "SELECT t.b, u.a, u.d FROM t RIGHT JOIN u ON t.a = u.a"),
    same("join_right_residual", "SELECT t.b, u.a, u.d FROM t RIGHT JOIN u ON t.a = u.a AND t.b < u.d"),
    same("join_full", "SELECT t.a, t.b, u.a AS ua, u.d FROM t FULL JOIN u ON t.a = u.a"),
    same("join_full_residual", "SELECT t.a, t.b, p.id, p.x FROM t FULL JOIN p ON t.a = p.id AND t.b > p.x"),
    same(
        "join_full_of_aggregates",
        "SELECT l.a, l.n, r.a AS ra, r.n AS rn FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS l FULL JOIN (SELECT a, COUNT(*) AS n FROM u GROUP BY a) AS r ON l.a = r.a",
    ),
    same("join_cross", "SELECT t.a, p.id FROM t CROSS JOIN p"),
    same("join_cross_with_totals", "SELECT t.a, s.total FROM t CROSS JOIN (SELECT SUM(b) AS total FROM t) AS s"),
    same(
        "join_three_ways_and_group",
        "SELECT p.y, COUNT(*) AS n, SUM(u.d) AS total FROM t JOIN u ON t.a = u.a JOIN p ON p.id = t.b GROUP BY p.y",
    ),
    translated(
        "join_left_semi",
        "SELECT t.a, t.b, t.c FROM t LEFT SEMI JOIN u ON t.a = u.a AND u.d > 0",
        "SELECT a, b, c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.a = u.a AND u.d > 0)",
    ),
    translated(
        "join_left_anti",
        "SELECT t.a, t.b, t.c FROM t LEFT ANTI JOIN u ON t.a = u.a AND t.b > u.d",
        "SELECT a, b, c FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t.a = u.a AND t.b > u.d)",
    ),
    translated(
        "join_right_semi",
        "SELECT p.id, p.y FROM t RIGHT SEMI JOIN p ON t.a = p.id",
        "SELECT id, y FROM p WHERE EXISTS (SELECT 1 FROM t WHERE t.a = p.id)",
    ),
    translated(
        "join_right_anti",
        "SELECT p.id, p.y FROM t RIGHT ANTI JOIN p ON t.a = p.id",
        "SELECT id, y FROM p WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.a = p.id)",
    ),
    // Distinct
    same("distinct_rows", "SELECT DISTINCT a, c FROM t"),
    same("distinct_expression", "SELECT DISTINCT a % 2 AS parity, b IS NULL AS unknown FROM t"),
    same("distinct_of_join", "SELECT DISTINCT t.c, u.e FROM t JOIN u ON t.a = u.a"),
    translated(
        "distinct_on",
        "SELECT DISTINCT ON (a) a, b, c FROM t ORDER BY a NULLS FIRST, b DESC NULLS LAST, c NULLS FIRST",
        "SELECT a, b, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST, c NULLS FIRST) AS n FROM t) WHERE n = 1",
    ),
    // Set operations
    same("union", "SELECT a, b FROM t UNION SELECT id, x FROM p"),
    same("union_all", "SELECT a, b FROM t UNION ALL SELECT id, x FROM p UNION ALL SELECT a, a + 1 FROM u"),
    same("union_of_types", "SELECT a AS v FROM t UNION ALL SELECT d FROM u"),
    same("intersect", "SELECT a, b FROM t INTERSECT SELECT id, x FROM p"),
    same("intersect_matches_nulls", "SELECT c FROM t INTERSECT SELECT e FROM u"),
    same("except", "SELECT a, b FROM t EXCEPT SELECT id, x FROM p"),
    same("except_matches_nulls", "SELECT a FROM t EXCEPT SELECT a FROM u"),
    translated(
        "intersect_all",
        "SELECT a FROM t INTERSECT ALL SELECT a FROM u",
        "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY a) AS n FROM t INTERSECT SELECT a, ROW_NUMBER() OVER (PARTITION BY a) FROM u)",
    ),
    translated(
        "except_all",
        "SELECT a FROM t EXCEPT ALL SELECT a FROM u",
        "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY a) AS n FROM t EXCEPT SELECT a, ROW_NUMBER() OVER (PARTITION BY a) FROM u)",
    ),
    translated(
        "except_all_of_two_columns",
        "SELECT a, c FROM t EXCEPT ALL SELECT a, e FROM u WHERE d > 0",
        "SELECT a, c FROM (SELECT a, c, ROW_NUMBER() OVER (PARTITION BY a, c) AS n FROM t EXCEPT SELECT a, e, ROW_NUMBER() OVER (PARTITION BY a, e) FROM u WHERE d > 0)",
    ),
    same(
        "set_operations_nested",
        "SELECT v FROM (SELECT a AS v FROM t UNION SELECT b FROM t) AS s EXCEPT SELECT v FROM (SELECT id AS v FROM p INTERSECT SELECT a FROM u) AS r",
    ),
    same(
        "union_then_group",
        "SELECT v, COUNT(*) AS n FROM (SELECT a AS v FROM t UNION ALL SELECT a FROM u UNION ALL SELECT id FROM p) AS s GROUP BY v",
    ),
    // VALUES, CTEs, UNNEST
    translated(
        "values",
        "SELECT k, s FROM (VALUES (1, 'one'), (2, NULL), (2, NULL)) AS v(k, s)",
        "SELECT column1, column2 FROM (VALUES (1, 'one'), (2, NULL), (2, NULL))",
    )
    .reads_no_table(),
    translated(
        "values_joined",
        "SELECT t.b, v.s FROM t JOIN (VALUES (1, 'one'), (2, 'two'), (2, 'zwei')) AS v(k, s) ON t.a = v.k",
        "SELECT t.b, v.column2 FROM t JOIN (VALUES (1, 'one'), (2, 'two'), (2, 'zwei')) AS v ON t.a = v.column1",
    ),
    same("cte", "WITH s AS (SELECT a, SUM(b) AS total FROM t GROUP BY a) SELECT s.a, s.total, u.d FROM s JOIN u ON s.a = u.a"),
    same(
        "cte_used_twice",
        "WITH s AS (SELECT a, COUNT(*) AS n FROM t GROUP BY a) SELECT l.a, r.a AS other, l.n FROM s AS l JOIN s AS r ON l.n = r.n",
    ),
    same(
        "cte_of_cte",
        "WITH s AS (SELECT a, b FROM t WHERE a > 0), r AS (SELECT a, MAX(b) AS most FROM s GROUP BY a) SELECT COUNT(*) AS n, SUM(most) AS total FROM r",
    ),
    translated(
        "unnest_in_select",
        "SELECT c, UNNEST(make_array(a, b)) AS v FROM t",
        "SELECT c, a AS v FROM t UNION ALL SELECT c, b FROM t",
    ),
    translated(
        "unnest_of_aggregate",
        "SELECT a, UNNEST(bs) AS b FROM (SELECT a, ARRAY_AGG(b) AS bs FROM t GROUP BY a) AS s",
        "SELECT a, b FROM t",
    ),
    translated(
        "unnest_then_group",
        "SELECT v, COUNT(*) AS n FROM (SELECT UNNEST(make_array(a, b, 1)) AS v FROM t) AS s GROUP BY v",
        "SELECT v, COUNT(*) FROM (SELECT a AS v FROM t UNION ALL SELECT b FROM t UNION ALL SELECT 1 FROM t) GROUP BY v",
    ),
    // Views over views
    same("view_one_deep", "SELECT a, n, s FROM v1 WHERE n > 1"),
    same("view_two_deep", "SELECT a, n, d FROM v2 WHERE d IS NULL OR d > 0"),
    same("view_three_deep", "SELECT n, k, m FROM v3"),
    same("view_joined_with_a_deeper_one", "SELECT v1.a, v3.k FROM v1 JOIN v3 ON v1.n = v3.n"),
    same("view_counts_of_counts", "SELECT k, COUNT(*) AS group_count FROM v3 GROUP BY k"),
];
