//! Windows of time. A row's time is made of its numbers: `7 * a + b - 15` seconds after the epoch, or before it. SQLite
//! finds its windows by looking at all there are, and its sessions by where the row before is too far away.

use super::{Query, translated};

/// The rows of `t` with a time, in seconds.
macro_rules! timed {
    () => {
        "x AS (SELECT c, b, a * 7 + b - 15 AS ts, rowid AS id FROM t WHERE a IS NOT NULL AND b IS NOT NULL)"
    };
}

/// The same as a relation whose time is a TIMESTAMP, and may be NULL.
macro_rules! table {
    () => {
        "(SELECT c, b, to_timestamp_millis((a * 7 + b - 15) * 1000) AS ts FROM t)"
    };
}

/// A time in seconds.
macro_rules! seconds {
    ($time:literal) => {
        concat!("CAST(EXTRACT(EPOCH FROM ", $time, ") AS BIGINT)")
    };
}

/// All multiples of a step, in seconds, at which a window may begin.
macro_rules! multiples {
    ($step:literal, $offset:literal) => {
        concat!("w(s) AS (SELECT -", $step, " * 40 + ", $offset, " UNION ALL SELECT s + ", $step, " FROM w WHERE s < ", $step, " * 40)")
    };
}

/// The rows of `x` with the first and last time of their sessions of gap 3.
macro_rules! sessions {
    ($by:literal) => {
        concat!(
            "y AS (SELECT *, ts - LAG(ts) OVER (",
            $by,
            " ORDER BY ts, id) < 3 AS joins FROM x), z AS (SELECT *, SUM(1 - COALESCE(joins, 0)) OVER (",
            $by,
            " ORDER BY ts, id ROWS UNBOUNDED PRECEDING) AS n FROM y)"
        )
    };
}

pub const QUERIES: &[Query] = &[
    translated(
        "tumble_rows",
        concat!(
            "SELECT c, b, ",
            seconds!("window_start"),
            " AS s, ",
            seconds!("window_end"),
            " AS e FROM TUMBLE(",
            table!(),
            ", ts, INTERVAL '5' SECOND, INTERVAL '2' SECOND)"
        ),
        concat!("WITH RECURSIVE ", timed!(), ", ", multiples!("5", "2"), " SELECT c, b, s, s + 5 FROM x JOIN w ON s <= ts AND ts < s + 5"),
    ),
    translated(
        "tumble_totals",
        concat!(
            "SELECT c, ",
            seconds!("TUMBLE_END(ts, INTERVAL '5' SECOND)"),
            " AS e, COUNT(*) AS n, SUM(b) AS total FROM ",
            table!(),
            " AS x GROUP BY c, TUMBLE(ts, INTERVAL '5' SECOND)"
        ),
        concat!(
            "WITH RECURSIVE ",
            timed!(),
            ", ",
            multiples!("5", "0"),
            " SELECT c, s + 5, COUNT(*), SUM(b) FROM x JOIN w ON s <= ts AND ts < s + 5 GROUP BY c, s"
        ),
    ),
    translated(
        "hop_rows",
        concat!(
            "SELECT c, b, ",
            seconds!("window_start"),
            " AS s, ",
            seconds!("window_end"),
            " AS e FROM HOP(",
            table!(),
            ", ts, INTERVAL '2' SECOND, INTERVAL '7' SECOND)"
        ),
        concat!("WITH RECURSIVE ", timed!(), ", ", multiples!("2", "0"), " SELECT c, b, s, s + 7 FROM x JOIN w ON s <= ts AND ts < s + 7"),
    ),
    translated(
        "hop_best",
        concat!(
            "SELECT c, ",
            seconds!("HOP_START(ts, INTERVAL '3' SECOND, INTERVAL '9' SECOND)"),
            " AS s, MAX(b) AS best, COUNT(DISTINCT b) AS n FROM ",
            table!(),
            " AS x GROUP BY c, HOP(ts, INTERVAL '3' SECOND, INTERVAL '9' SECOND)"
        ),
        concat!(
            "WITH RECURSIVE ",
            timed!(),
            ", ",
            multiples!("3", "0"),
            " SELECT c, s, MAX(b), COUNT(DISTINCT b) FROM x JOIN w ON s <= ts AND ts < s + 9 GROUP BY c, s"
        ),
    ),
    translated(
        "cumulate_totals",
        concat!(
            "SELECT ",
            seconds!("window_start"),
            " AS s, ",
            seconds!("window_end"),
            " AS e, SUM(b) AS total, COUNT(*) AS n FROM CUMULATE(",
            table!(),
            ", ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND) GROUP BY window_start, window_end"
        ),
        concat!(
            "WITH RECURSIVE ",
            timed!(),
            ", ",
            multiples!("6", "0"),
            " SELECT s, s + k, SUM(b), COUNT(*) FROM x JOIN w ON s <= ts AND ts < s + 6 JOIN (SELECT 2 AS k UNION SELECT 4 UNION SELECT 6) ON ts < s + k GROUP BY s, k"
        ),
    ),
    translated(
        "session_rows",
        concat!(
            "SELECT c, b, ",
            seconds!("window_start"),
            " AS s, ",
            seconds!("window_end"),
            " AS e FROM TABLE(SESSION(",
            table!(),
            " PARTITION BY c, DESCRIPTOR(ts), INTERVAL '3' SECOND))"
        ),
        concat!(
            "WITH ",
            timed!(),
            ", ",
            sessions!("PARTITION BY c"),
            " SELECT c, b, MIN(ts) OVER (PARTITION BY c, n), MAX(ts) OVER (PARTITION BY c, n) + 3 FROM z"
        ),
    ),
    translated(
        "session_rows_of_all",
        concat!(
            "SELECT c, ",
            seconds!("ts"),
            " AS at, ",
            seconds!("window_start"),
            " AS s FROM SESSION(",
            table!(),
            ", ts, INTERVAL '3' SECOND)"
        ),
        concat!("WITH ", timed!(), ", ", sessions!(""), " SELECT c, ts, MIN(ts) OVER (PARTITION BY n) FROM z"),
    ),
    translated(
        "session_totals",
        concat!(
            "SELECT c, ",
            seconds!("SESSION_START(ts, INTERVAL '3' SECOND)"),
            " AS s, ",
            seconds!("SESSION_END(ts, INTERVAL '3' SECOND)"),
            " AS e, COUNT(*) AS n, SUM(b) AS total FROM ",
            table!(),
            " AS x GROUP BY c, SESSION(ts, INTERVAL '3' SECOND)"
        ),
        concat!(
            "WITH ",
            timed!(),
            ", ",
            sessions!("PARTITION BY c"),
            " SELECT c, MIN(ts), MAX(ts) + 3, COUNT(*), SUM(b) FROM z GROUP BY c, n"
        ),
    ),
    translated(
        "window_join",
        concat!(
            "SELECT l.c AS c, r.c AS d, ",
            seconds!("l.window_end"),
            " AS e FROM TUMBLE(",
            table!(),
            ", ts, INTERVAL '5' SECOND) AS l JOIN TUMBLE(",
            table!(),
            ", ts, INTERVAL '5' SECOND) AS r ON l.window_start = r.window_start AND l.window_end = r.window_end WHERE l.b < r.b"
        ),
        concat!(
            "WITH RECURSIVE ",
            timed!(),
            ", ",
            multiples!("5", "0"),
            " SELECT l.c, r.c, s + 5 FROM w JOIN x l ON s <= l.ts AND l.ts < s + 5 JOIN x r ON s <= r.ts AND r.ts < s + 5 WHERE l.b < r.b"
        ),
    ),
];
