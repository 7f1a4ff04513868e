//! ORDER BY with LIMIT, top-N by ranking functions, and OVER windows.

use super::{Query, same};

pub const QUERIES: &[Query] = &[
    // LIMIT
    same("limit", "SELECT a, b, c FROM t ORDER BY a NULLS FIRST, b NULLS FIRST, c NULLS FIRST LIMIT 5"),
    same("limit_descending", "SELECT a, b, c FROM t ORDER BY a DESC NULLS LAST, b NULLS LAST, c DESC NULLS FIRST LIMIT 4"),
    same("limit_offset", "SELECT a, b, c FROM t ORDER BY c NULLS LAST, b DESC NULLS LAST, a NULLS FIRST LIMIT 4 OFFSET 3"),
    same("limit_by_a_hidden_column", "SELECT y FROM p ORDER BY x DESC NULLS LAST, id LIMIT 3"),
    same("limit_by_doubles", "SELECT a, d, e FROM u ORDER BY d DESC NULLS LAST, a NULLS FIRST, e NULLS FIRST LIMIT 3"),
    same("limit_of_groups", "SELECT a, COUNT(*) AS n FROM t GROUP BY a ORDER BY COUNT(*) DESC, a NULLS LAST LIMIT 2"),
    same(
        "limit_in_a_subquery",
        "SELECT SUM(s.b) AS total, COUNT(*) AS n FROM (SELECT a, b FROM t ORDER BY b DESC NULLS LAST, a NULLS FIRST LIMIT 5) AS s",
    ),
    same("limit_of_a_union", "SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a NULLS LAST LIMIT 6"),
    // Top-N
    same(
        "row_number_exposed",
        "SELECT a, b, c, n FROM (SELECT a, b, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST, c NULLS FIRST) AS n FROM t) AS s WHERE n <= 2",
    ),
    same(
        "row_number_hidden",
        "SELECT a, b, c FROM (SELECT a, b, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST, c NULLS FIRST) AS n FROM t) AS s WHERE n <= 2",
    ),
    same(
        "row_number_first",
        "SELECT c, a, b FROM (SELECT a, b, c, ROW_NUMBER() OVER (PARTITION BY c ORDER BY a NULLS LAST, b NULLS LAST) AS n FROM t) AS s WHERE n = 1",
    ),
    same(
        "row_number_of_all",
        "SELECT id, x FROM (SELECT id, x, ROW_NUMBER() OVER (ORDER BY x NULLS LAST, id) AS n FROM p) AS s WHERE n < 4",
    ),
    same(
        "rank_exposed",
        "SELECT a, b, r FROM (SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS r FROM t) AS s WHERE r <= 2",
    ),
    same(
        "rank_hidden",
        "SELECT a, b FROM (SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS r FROM t) AS s WHERE r < 3",
    ),
    same(
        "dense_rank_exposed",
        "SELECT c, b, r FROM (SELECT c, b, DENSE_RANK() OVER (PARTITION BY c ORDER BY b NULLS LAST) AS r FROM t) AS s WHERE r <= 2",
    ),
    same(
        "dense_rank_hidden",
        "SELECT c, b FROM (SELECT c, b, DENSE_RANK() OVER (PARTITION BY c ORDER BY b DESC NULLS LAST) AS r FROM t) AS s WHERE r <= 2",
    ),
    same(
        "top_n_of_groups",
        "SELECT c, a, s FROM (SELECT c, a, s, ROW_NUMBER() OVER (PARTITION BY c ORDER BY s DESC NULLS LAST, a NULLS FIRST) AS n FROM (SELECT c, a, SUM(b) AS s FROM t GROUP BY c, a) AS g) AS r WHERE n = 1",
    ),
    same(
        "top_n_then_aggregate",
        "SELECT a, SUM(b) AS s FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS n FROM t) AS r WHERE n <= 2 GROUP BY a",
    ),
    same(
        "top_n_between",
        "SELECT a, b, n FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n FROM t) AS s WHERE n >= 2 AND n <= 3",
    ),
    // OVER
    same(
        "over_whole_partition",
        "SELECT a, b, SUM(b) OVER (PARTITION BY a) AS s, COUNT(*) OVER (PARTITION BY a) AS n, MAX(b) OVER (PARTITION BY a) AS most FROM t",
    ),
    same("over_everything", "SELECT a, COUNT(*) OVER () AS n, AVG(b) OVER () AS mean FROM t"),
    same(
        "over_running_rows",
        "SELECT a, b, c, SUM(b) OVER (PARTITION BY a ORDER BY b NULLS FIRST, c NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM t",
    ),
    same(
        "over_sliding_rows",
        "SELECT id, x, SUM(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, COUNT(*) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS n FROM p",
    ),
    same(
        "over_sliding_minimum",
        "SELECT id, MIN(x) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS least, MAX(y) OVER (ORDER BY id DESC ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS last_y FROM p",
    ),
    same(
        "over_default_frame_takes_peers",
        "SELECT a, b, SUM(b) OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS s, COUNT(*) OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n FROM t",
    ),
    same(
        "over_range_offsets",
        "SELECT a, b, COUNT(*) OVER (PARTITION BY a ORDER BY b NULLS FIRST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM t WHERE b IS NOT NULL",
    ),
    same(
        "over_range_to_the_end",
        "SELECT a, b, SUM(b) OVER (PARTITION BY a ORDER BY b DESC NULLS LAST RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s FROM t",
    ),
    same(
        "over_lag_and_lead",
        "SELECT id, LAG(x) OVER (ORDER BY id) AS before_x, LEAD(y) OVER (ORDER BY id) AS next_y, LAG(id, 2, -1) OVER (ORDER BY id) AS second_before FROM p",
    ),
    same("over_lag_in_partitions", "SELECT y, id, id - LAG(id) OVER (PARTITION BY y ORDER BY id) AS step FROM p"),
    same(
        "over_first_and_last_value",
        "SELECT id, FIRST_VALUE(x) OVER (PARTITION BY y ORDER BY id) AS first_x, LAST_VALUE(x) OVER (PARTITION BY y ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last_x FROM p",
    ),
    same(
        "over_nth_value",
        "SELECT id, NTH_VALUE(id, 2) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second_id FROM p",
    ),
    same(
        "over_ranking",
        "SELECT a, b, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS FIRST, c NULLS FIRST) AS i, RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS r, DENSE_RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS dr FROM t",
    ),
    same(
        "over_ntile_and_fractions",
        "SELECT id, NTILE(3) OVER (ORDER BY id) AS third, PERCENT_RANK() OVER (ORDER BY x NULLS FIRST) AS pr, CUME_DIST() OVER (ORDER BY x NULLS FIRST) AS cd FROM p",
    ),
    same("over_two_partitions", "SELECT a, c, b, SUM(b) OVER (PARTITION BY a) AS by_a, SUM(b) OVER (PARTITION BY c) AS by_c FROM t"),
    same("over_then_filter", "SELECT a, b FROM (SELECT a, b, AVG(b) OVER (PARTITION BY a) AS mean FROM t) AS s WHERE b > mean"),
    same("over_groups", "SELECT a, SUM(b) AS s, SUM(SUM(b)) OVER (ORDER BY a NULLS FIRST) AS running FROM t GROUP BY a"),
    same("over_then_group", "SELECT least, COUNT(*) AS n FROM (SELECT MIN(b) OVER (PARTITION BY a) AS least FROM t) AS s GROUP BY least"),
    same("over_named_window", "SELECT id, SUM(x) OVER w AS s, COUNT(*) OVER w AS n FROM p WINDOW w AS (PARTITION BY y ORDER BY id)"),
    same("over_a_join", "SELECT t.a, t.b, u.d, MAX(u.d) OVER (PARTITION BY t.b) AS most FROM t JOIN u ON t.a = u.a"),
];
