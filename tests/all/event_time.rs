//! Event time: results do not depend on the order in which rows come within the watermark's bound, on how they are batched,
//! or on workers; and which rows are late depends on the order of the rows alone.
//!
//! What is published is compared line by line with a small model of what the sorted rows come to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use weir::Engine;
use weir::text::line;

pub const TICK: i64 = 1000;
pub const BOUND: i64 = 2000;
const TTL: i64 = 5000;

/// What begins the clock of these tests: 2026-01-01, in milliseconds.
pub const START: i64 = 1_767_225_600_000;

/// A time in milliseconds, a key and a value.
pub type Row = (i64, i32, i64);

/// Rows in the order of their times, with gaps that are shorter and longer than the ttl.
pub fn rows(rng: &mut StdRng, count: usize) -> Vec<Row> {
    let mut at = START;
    (0..count)
        .map(|_| {
            at += if rng.random_bool(0.1) { rng.random_range(3000..9000) } else { rng.random_range(0..900) };
            (at, rng.random_range(0..4), rng.random_range(-5..20))
        })
        .collect()
}

/// The rows in another order, in which none comes after one that is later by more than the bound.
pub fn shuffled<R: Copy>(rows: &[R], time: impl Fn(&R) -> i64, bound: i64, rng: &mut StdRng) -> Vec<R> {
    let mut keyed: Vec<(i64, R)> = rows.iter().map(|row| (time(row) + rng.random_range(0..=bound), *row)).collect();
    keyed.shuffle(rng);
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// The rows in pieces of random sizes.
pub fn pieces<R: Copy>(rows: &[R], rng: &mut StdRng) -> Vec<Vec<R>> {
    let mut rest = rows;
    let mut made = Vec::new();
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(rng.random_range(1..=rest.len().min(12)));
        made.push(piece.to_vec());
        rest = others;
    }
    made
}

pub fn timestamp(ms: i64) -> String {
    let (seconds, millis) = (ms.rem_euclid(86_400_000) / 1000, ms % 1000);
    let day = (ms - START) / 86_400_000 + 1;
    format!("2026-01-{day:02} {:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Where print sinks write.
#[derive(Clone, Default)]
pub struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Printed {
    /// Everything.
    pub fn all(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines of a sink, in order.
    pub fn of(&self, sink: &str) -> Vec<String> {
        self.all().lines().filter_map(|line| Some(line.strip_prefix(sink)?.strip_prefix("> ")?.to_string())).collect()
    }
}

/// How the rows come to the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// An INSERT a piece.
    Inserts,
    /// A file a piece, in one folder.
    Files,
}

/// A folder that is there for as long as this is.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-event-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs definitions over a table `t` into which the pieces come, to the end.
pub fn run(pieces: &[Vec<Row>], way: Way, workers: usize, options: &str, definitions: &str, name: &str) -> (Engine, Printed) {
    let printed = Printed::default();
    let folder = Folder::new(name);
    let engine = Engine::builder().workers(workers).base(&folder.0).output(Box::new(printed.clone())).build().unwrap();
    let with = match (way, options) {
        (Way::Inserts, "") => String::new(),
        (Way::Inserts, options) => format!("WITH ({})", options.trim_start_matches(", ")),
        (Way::Files, options) => format!("WITH ('connector' = 'file', 'path' = 'rows', 'format' = 'csv'{options})"),
    };
    engine
        .execute(&format!("CREATE TABLE t (ts TIMESTAMP(3), k INT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) {with}"))
        .unwrap();
    if way == Way::Files {
        std::fs::create_dir_all(folder.0.join("rows")).unwrap();
        for (number, piece) in pieces.iter().enumerate() {
            let text = piece.iter().fold(String::new(), |mut text, (at, k, v)| {
                writeln!(text, "{},{k},{v}", timestamp(*at)).unwrap();
                text
            });
            std::fs::write(folder.0.join(format!("rows/{number:04}.csv")), text).unwrap();
        }
    }
    engine.execute(definitions).unwrap();
    if way == Way::Inserts {
        for piece in pieces {
            let values: Vec<String> = piece.iter().map(|(at, k, v)| format!("(TIMESTAMP '{}', {k}, {v})", timestamp(*at))).collect();
            engine.execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
        }
    }
    engine.finish().unwrap();
    (engine, printed)
}

const VIEWS: &str = "
    CREATE TABLE plain (k INT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'plain');
    CREATE TABLE lately (k INT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'lately');
    CREATE TABLE forgotten (k INT, n BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'forgotten');
    CREATE TABLE sizes (n BIGINT, groups BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'sizes');
    CREATE VIEW l WITH (state_ttl = '5 s', on_expiry = 'retract') AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k;
    CREATE VIEW f WITH (state_ttl = '5 s') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
    EXECUTE STATEMENT SET BEGIN
      INSERT INTO plain SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k;
      INSERT INTO lately SELECT k, n, total FROM l;
      INSERT INTO forgotten SELECT k, n FROM f;
      INSERT INTO sizes SELECT n, COUNT(*) FROM l GROUP BY n;
    END;";

/// What counts and sums by key publish, with a ttl or without, of rows in the order of their times.
fn published(rows: &[Row], ttl: Option<i64>) -> Vec<String> {
    let mut by_tick: BTreeMap<i64, Vec<(i32, i64)>> = BTreeMap::new();
    rows.iter().for_each(|(at, k, v)| by_tick.entry(at - at % TICK).or_default().push((*k, *v)));
    let mut state: BTreeMap<i32, (i64, i64, i64)> = BTreeMap::new();
    let mut lines = Vec::new();
    for (tick, rows) in by_tick {
        if let Some(ttl) = ttl {
            let mut due: Vec<(i64, i32)> = state.iter().map(|(k, (.., last))| (last + ttl, *k)).filter(|(at, _)| *at <= tick).collect();
            due.sort();
            for (_, k) in due {
                let (n, total, _) = state.remove(&k).unwrap();
                lines.push(format!("-D[{k}, {n}, {total}]"));
            }
        }
        let touched: BTreeSet<i32> = rows.iter().map(|(k, _)| *k).collect();
        for k in touched {
            let before = state.get(&k).copied();
            let (n, total, _) = before.unwrap_or_default();
            let added = rows.iter().filter(|(key, _)| *key == k);
            let (n, total) = added.fold((n, total), |(n, total), (_, v)| (n + 1, total + v));
            state.insert(k, (n, total, tick));
            match before {
                Some((old, sum, _)) => lines.extend([format!("-U[{k}, {old}, {sum}]"), format!("+U[{k}, {n}, {total}]")]),
                None => lines.push(format!("+I[{k}, {n}, {total}]")),
            }
        }
    }
    lines
}

#[test]
fn what_is_published_does_not_depend_on_order_within_the_bound_on_batches_or_on_workers() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(seed);
        let sorted = rows(&mut rng, 70);
        let mut others: Option<[Vec<String>; 2]> = None;
        for (attempt, way) in [Way::Inserts, Way::Files, Way::Inserts, Way::Files].into_iter().enumerate() {
            let order = if attempt == 0 { sorted.clone() } else { shuffled(&sorted, |row| row.0, BOUND, &mut rng) };
            let (engine, printed) = run(&pieces(&order, &mut rng), way, 1 + attempt / 2, "", VIEWS, &format!("bound-{seed}-{attempt}"));
            let place = format!("seed {seed}, attempt {attempt}, {way:?}");
            assert_eq!(printed.of("plain"), published(&sorted, None), "{place}");
            assert_eq!(printed.of("lately"), published(&sorted, Some(TTL)), "{place}");
            let found = ["forgotten", "sizes"].map(|sink| printed.of(sink));
            assert_eq!(*others.get_or_insert_with(|| found.clone()), found, "{place}");
            assert_eq!(engine.late(), [], "{place}");
        }
    }
}

/// Views of what is least, greatest and different: a table in memory, whose rows may go, has to keep every value; of a file, to
/// which rows are only added, a number is enough.
const EXTREMES: &str = "
    CREATE TABLE groups (k INT, least BIGINT, most BIGINT, first TIMESTAMP(3), last DATE, third DOUBLE, small SMALLINT, below BIGINT, part BIGINT,
                         n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'groups');
    CREATE TABLE windows (e TIMESTAMP(3), least BIGINT, most REAL, PRIMARY KEY (e) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'windows');
    CREATE TABLE lately (k INT, least BIGINT, most BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'lately');
    CREATE TABLE joined (k INT, most BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'joined');
    CREATE TABLE different (k INT, n BIGINT, low BIGINT, high BIGINT, both BIGINT, total BIGINT, lasts BIGINT, PRIMARY KEY (k) NOT ENFORCED)
      WITH ('connector' = 'print', 'print-identifier' = 'different');
    CREATE VIEW l WITH (state_ttl = '5 s', on_expiry = 'retract') AS SELECT k, MIN(v) AS least, MAX(v) AS most FROM t GROUP BY k;
    EXECUTE STATEMENT SET BEGIN
      INSERT INTO groups SELECT k, MIN(v), MAX(v), MIN(ts), MAX(CAST(ts AS DATE)), MIN(CAST(v AS DOUBLE) / -3), MAX(CAST(v + 1 AS SMALLINT)),
        MAX(v) FILTER (WHERE v < 0), MIN(60 / v) FILTER (WHERE v <> 0), COUNT(*), SUM(v) FROM t GROUP BY k;
      INSERT INTO windows SELECT window_end, MIN(v), MAX(CAST(v AS REAL)) FROM TUMBLE(t, ts, INTERVAL '3' SECOND) GROUP BY window_end;
      INSERT INTO lately SELECT k, least, most FROM l;
      INSERT INTO joined SELECT a.k, MAX(a.v + b.v) FROM t AS a JOIN t AS b ON a.k = b.k AND a.ts < b.ts GROUP BY a.k;
      INSERT INTO different SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE v < 3), COUNT(DISTINCT v) FILTER (WHERE v > 5),
        COUNT(DISTINCT v) FILTER (WHERE v < 3 OR v > 5), SUM(DISTINCT v) FILTER (WHERE v > 5),
        COUNT(DISTINCT 10 / v) FILTER (WHERE v <> 0) FROM t GROUP BY k;
    END;";

#[test]
fn what_is_least_and_greatest_is_the_same_of_rows_that_only_come_and_of_rows_that_may_go() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(200 + seed);
        let sorted = rows(&mut rng, 70);
        let mut first: Option<[Vec<String>; 5]> = None;
        for (attempt, way) in [Way::Inserts, Way::Files, Way::Files].into_iter().enumerate() {
            let order = shuffled(&sorted, |row| row.0, BOUND, &mut rng);
            let (_engine, printed) =
                run(&pieces(&order, &mut rng), way, 1 + attempt / 2, "", EXTREMES, &format!("extremes-{seed}-{attempt}"));
            let found = ["groups", "windows", "lately", "joined", "different"].map(|sink| printed.of(sink));
            assert!(found.iter().all(|lines| lines.len() > 10), "{found:?}");
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "seed {seed}, attempt {attempt}");
        }
    }
}

#[test]
fn which_rows_of_a_source_are_late_depends_on_the_order_of_the_rows_alone() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(100 + seed);
        let mut order = rows(&mut rng, 60);
        for _ in 0..15 {
            let (a, b) = (rng.random_range(0..order.len()), rng.random_range(0..order.len()));
            order.swap(a, b);
        }
        let mut watermark = 0;
        let in_time = |row: &&Row| {
            let is_late = row.0 < watermark;
            watermark = watermark.max(row.0 - BOUND);
            !is_late
        };
        let mut kept: Vec<Row> = order.iter().filter(in_time).copied().collect();
        let late = (order.len() - kept.len()) as u64;
        assert!(late > 0, "seed {seed} makes no row late");
        kept.sort();
        for workers in [1, 2] {
            let (engine, printed) = run(&pieces(&order, &mut rng), Way::Files, workers, "", VIEWS, &format!("late-{seed}-{workers}"));
            assert_eq!(printed.of("plain"), published(&kept, None), "seed {seed}");
            assert_eq!(printed.of("lately"), published(&kept, Some(TTL)), "seed {seed}");
            assert_eq!(engine.late().iter().map(|late| (late.dropped, late.accepted)).collect::<Vec<_>>(), [(late, 0)]);
        }
        // Accepted rows all count, and where they count is the same however they are batched.
        let accepted = [1, 2].map(|workers| {
            let name = format!("accept-{seed}-{workers}");
            let (engine, printed) = run(&pieces(&order, &mut rng), Way::Files, workers, ", 'late' = 'accept'", VIEWS, &name);
            assert_eq!(engine.late().iter().map(|late| (late.dropped, late.accepted)).collect::<Vec<_>>(), [(0, late)]);
            ["plain", "lately", "forgotten", "sizes"].map(|sink| printed.of(sink))
        });
        assert_eq!(accepted[0], accepted[1], "seed {seed}");
        let counted: i64 = accepted[0][0].iter().filter(|line| line.starts_with("+I") || line.starts_with("+U")).count() as i64
            - accepted[0][0].iter().filter(|line| line.starts_with("-U")).count() as i64;
        assert_eq!(counted as usize, order.iter().map(|row| row.1).collect::<BTreeSet<_>>().len());
    }
}

/// Waits until a query answers so, a minute at most.
fn wait_for(engine: &Engine, query: &str, expected: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = line(&engine.query(query).unwrap(), 0).join(", ");
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "{query}: {found}, and not {expected}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_idle_table_holds_nobody_back_and_goes_on_from_the_others_time() {
    let engine = Engine::builder().build().unwrap();
    engine
        .execute(
            "CREATE TABLE a (ts TIMESTAMP(3), n INT, WATERMARK FOR ts AS ts);
             CREATE TABLE b (ts TIMESTAMP(3), n INT, WATERMARK FOR ts AS ts) WITH ('idle_timeout' = '200 ms');
             INSERT INTO a VALUES (TIMESTAMP '2026-01-01 00:00:10', 1);",
        )
        .unwrap();
    wait_for(&engine, "SELECT NOW()", "2026-01-01 00:00:10");
    wait_for(&engine, "SELECT state FROM weir_watermarks WHERE table_name = 'b'", "idle");
    engine.execute("INSERT INTO b VALUES (TIMESTAMP '2026-01-01 00:00:09', 2), (TIMESTAMP '2026-01-01 00:00:12', 3)").unwrap();
    assert_eq!(engine.late().iter().map(|late| (late.table.as_str(), late.dropped)).collect::<Vec<_>>(), [("b", 1)]);
    engine.execute("INSERT INTO a VALUES (TIMESTAMP '2026-01-01 00:00:20', 4)").unwrap();
    wait_for(&engine, "SELECT SUM(n) FROM b", "3");
}

#[test]
fn a_file_without_a_watermark_is_one_step_before_all_that_has_one() {
    for (attempt, workers) in [1, 2, 1].into_iter().enumerate() {
        let folder = Folder::new(&format!("plain-{attempt}"));
        let names: String = (0..30_000).map(|n| format!("{},{n}\n", n % 3)).collect();
        std::fs::write(folder.0.join("names.csv"), names).unwrap();
        std::fs::write(folder.0.join("t.csv"), "2026-01-01 00:00:01,1\n2026-01-01 00:00:05,2\n").unwrap();
        let printed = Printed::default();
        let engine = Engine::builder().workers(workers).base(&folder.0).output(Box::new(printed.clone())).build().unwrap();
        engine
            .execute(
                "CREATE TABLE names (k INT, n INT) WITH ('connector' = 'file', 'path' = 'names.csv', 'format' = 'csv');
                 CREATE TABLE t (ts TIMESTAMP(3), k INT, WATERMARK FOR ts AS ts) WITH ('connector' = 'file', 'path' = 't.csv', 'format' = 'csv');
                 CREATE TABLE counts (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'counts');
                 CREATE TABLE joined (ts TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'joined');
                 INSERT INTO counts SELECT k, COUNT(*) FROM names GROUP BY k;
                 INSERT INTO joined SELECT t.ts, c.n FROM t JOIN (SELECT k, COUNT(*) AS n FROM names GROUP BY k) AS c ON t.k = c.k;",
            )
            .unwrap();
        engine.finish().unwrap();
        assert_eq!(printed.of("counts"), ["+I[0, 10000]", "+I[1, 10000]", "+I[2, 10000]"]);
        assert_eq!(printed.of("joined"), ["+I[2026-01-01 00:00:01, 10000]", "+I[2026-01-01 00:00:05, 10000]"]);
    }
}

#[test]
fn the_clock_runs_out_at_the_last_row_and_nothing_that_is_due_later_happens() {
    let (_, printed) = run(&[vec![(START, 1, 1), (START + 6000, 2, 2), (START + 10_999, 3, 3)]], Way::Files, 1, "", VIEWS, "end");
    // Key 1 is due at 5 s; key 2 at 11 s, which is after the last row's tick of 10 s.
    assert_eq!(printed.of("lately"), ["+I[1, 1, 1]", "-D[1, 1, 1]", "+I[2, 1, 2]", "+I[3, 1, 3]"]);
}

#[test]
fn with_a_primary_key_the_later_row_wins_whichever_came_first() {
    let folder = Folder::new("keyed");
    std::fs::write(folder.0.join("t.csv"), "1,2026-01-01 00:00:05,new\n1,2026-01-01 00:00:04,old\n1,2026-01-01 00:00:20,last\n").unwrap();
    let printed = Printed::default();
    let engine = Engine::builder().base(&folder.0).output(Box::new(printed.clone())).build().unwrap();
    engine
        .execute(
            "CREATE TABLE t (k INT, ts TIMESTAMP(3), v VARCHAR, PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
             WITH ('connector' = 'file', 'path' = 't.csv', 'format' = 'csv');
             CREATE TABLE out (k INT, v VARCHAR, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = 'out');
             INSERT INTO out SELECT k, v FROM t;",
        )
        .unwrap();
    engine.finish().unwrap();
    assert_eq!(printed.of("out"), ["+I[1, old]", "-U[1, old]", "+U[1, new]", "-U[1, new]", "+U[1, last]"]);
}

#[test]
fn a_correction_in_a_source_is_never_late_and_keeps_both_of_its_halves() {
    let folder = Folder::new("corrections");
    let rows = "+I,2026-01-01 00:00:01,1\n+I,2026-01-01 00:00:10,2\n-U,2026-01-01 00:00:01,1\n+U,2026-01-01 00:00:01,5\n";
    std::fs::write(folder.0.join("t.csv"), rows).unwrap();
    let printed = Printed::default();
    let engine = Engine::builder().base(&folder.0).output(Box::new(printed.clone())).build().unwrap();
    engine
        .execute(
            "CREATE TABLE t (ts TIMESTAMP(3), n INT, WATERMARK FOR ts AS ts)
             WITH ('connector' = 'file', 'path' = 't.csv', 'format' = 'csv', 'changelog' = 'true');
             CREATE TABLE out (total BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'out');
             INSERT INTO out SELECT SUM(n) FROM t;",
        )
        .unwrap();
    engine.finish().unwrap();
    assert_eq!(printed.of("out").last().map(String::as_str), Some("+I[7]"));
}

#[test]
fn a_subscription_is_there_before_anything_that_begins_with_it_is_read() {
    let folder = Folder::new("subscription");
    std::fs::write(folder.0.join("t.csv"), "2026-01-01 00:00:01,1\n2026-01-01 00:00:05,2\n").unwrap();
    let engine = Engine::builder().base(&folder.0).build().unwrap();
    engine
        .execute(
            "CREATE TABLE t (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'file', 'path' = 't.csv', 'format' = 'csv');
             CREATE MATERIALIZED VIEW totals AS SELECT n % 1 AS k, SUM(n) AS total FROM t GROUP BY n % 1;",
        )
        .unwrap();
    let mut changes = engine.subscribe("totals").unwrap();
    let instants: Vec<i64> = (0..2).map(|_| changes.next().unwrap().unwrap().at).collect();
    assert_eq!(instants, [START + 1000, START + 5000]);
}
