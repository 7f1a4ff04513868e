//! A run that is killed again and again writes the bytes of one that is not.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::kept::Folder;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// The files that the program writes.
const SINKS: [&str; 2] = ["changes.csv", "changes.json"];

/// Joins, aggregates, top-N, windows that speak when they close, and each policy. What is said of a step is put in order, so
/// that the bytes follow from the rows.
const PROGRAM: &str = "
CREATE TABLE orders (id BIGINT, customer INT, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
  WITH ('connector' = 'file', 'path' = 'orders.csv', 'format' = 'csv');
CREATE TABLE payments (order_id BIGINT, paid BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
  WITH ('connector' = 'file', 'path' = 'payments.csv', 'format' = 'csv');
CREATE TABLE customers (customer INT, region VARCHAR) WITH ('connector' = 'file', 'path' = 'customers.csv', 'format' = 'csv');

CREATE VIEW per_customer WITH (state_ttl = '20 s', on_expiry = 'forget') AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE VIEW lately WITH (state_ttl = '15 s', on_expiry = 'retract') AS
  SELECT customer, COUNT(*) AS n, MAX(amount) AS total FROM orders GROUP BY customer;
CREATE VIEW kept WITH (state_ttl = '10 s', on_expiry = 'keep') AS
  SELECT customer, COUNT(DISTINCT amount) AS n, MIN(amount) AS total FROM orders GROUP BY customer;
CREATE VIEW paid WITH (state_ttl = '30 s', on_expiry = 'retract') AS
  SELECT o.id, o.customer, o.amount, p.paid FROM orders AS o LEFT JOIN payments AS p ON o.id = p.order_id;
CREATE VIEW regions WITH (state_ttl.n = '25 s') AS
  SELECT c.region, SUM(n.total) AS total FROM per_customer AS n JOIN customers AS c ON n.customer = c.customer GROUP BY c.region;
CREATE VIEW best WITH (state_ttl = '20 s') AS
  SELECT customer, id, amount FROM (
    SELECT customer, id, amount, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS place FROM orders
  ) AS ranked WHERE place <= 2;
CREATE VIEW closed AS
  SELECT customer, window_end, COUNT(*) AS n, SUM(amount) AS total
  FROM TUMBLE(orders, ts, INTERVAL '10' SECOND) GROUP BY customer, window_end EMIT ON WINDOW CLOSE;
CREATE VIEW sessions AS
  SELECT customer, SESSION_END(ts, INTERVAL '4' SECOND) AS window_end, COUNT(*) AS n, SUM(amount) AS total
  FROM orders GROUP BY customer, SESSION(ts, INTERVAL '4' SECOND) EMIT ON WINDOW CLOSE;

CREATE TABLE csv (what VARCHAR, a VARCHAR, b VARCHAR, c VARCHAR)
  WITH ('connector' = 'file', 'path' = 'changes.csv', 'format' = 'csv', 'changelog' = 'true');
CREATE TABLE json (what VARCHAR, a BIGINT, b BIGINT, c BIGINT)
  WITH ('connector' = 'file', 'path' = 'changes.json', 'format' = 'json', 'changelog' = 'true');
INSERT INTO csv
  SELECT 'region', region, CAST(total AS VARCHAR), '' FROM regions
  UNION ALL SELECT 'best', CAST(customer AS VARCHAR), CAST(id AS VARCHAR), CAST(amount AS VARCHAR) FROM best
  UNION ALL SELECT 'closed', CAST(customer AS VARCHAR), CAST(window_end AS VARCHAR), CAST(total AS VARCHAR) FROM closed
  UNION ALL SELECT 'session', CAST(customer AS VARCHAR), CAST(window_end AS VARCHAR), CAST(total AS VARCHAR) FROM sessions;
INSERT INTO json
  SELECT 'forget', CAST(customer AS BIGINT), n, total FROM per_customer
  UNION ALL SELECT 'retract', CAST(customer AS BIGINT), n, total FROM lately
  UNION ALL SELECT 'keep', CAST(customer AS BIGINT), n, total FROM kept
  UNION ALL SELECT 'paid', id, amount, paid FROM paid;
";

fn timestamp(milliseconds: i64) -> String {
    let (seconds, fraction) = (milliseconds / 1000, milliseconds % 1000);
    format!("2026-01-{:02} {:02}:{:02}:{:02}.{fraction:03}", seconds / 86_400 + 1, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// A folder with the program and so many orders for it, which come a little out of order, some too late.
fn folder(orders: i64) -> Folder {
    let mut rng = StdRng::seed_from_u64(orders.unsigned_abs());
    let (mut of_orders, mut of_payments) = (String::new(), String::new());
    for id in 0..orders {
        let late = if rng.random_bool(0.01) { 5000 } else { 2500 };
        let at = id * 40 + 5000 - rng.random_range(0..late);
        let (customer, amount) = (rng.random_range(0..40) + id / 2000 * 7, rng.random_range(1..100));
        writeln!(of_orders, "{id},{customer},{amount},{}", timestamp(at)).expect("text");
        if rng.random_bool(0.6) {
            let paid = id - rng.random_range(0..200);
            writeln!(of_payments, "{paid},{amount},{}", timestamp(at + rng.random_range(0..500))).expect("text");
        }
    }
    let customers = (0..100 + orders / 200).fold(String::new(), |mut text, customer| {
        writeln!(text, "{customer},r{}", customer % 5).expect("text");
        text
    });
    let folder = Folder::new().with("orders.csv", &of_orders).with("payments.csv", &of_payments);
    folder.with("customers.csv", &customers).with("q.sql", PROGRAM)
}

fn start(folder: &Path, workers: u32) -> Child {
    let workers = workers.to_string();
    let arguments = ["run", "-q", "q.sql", "--state", "state", "--checkpoint-every", "30 ms", "--workers", &workers];
    let mut command = Command::new(WEIR);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the binary starts")
}

/// How a child ends by itself within a time.
fn ended_within(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return Some(status);
        }
        if begun.elapsed() >= time {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn said(child: Child) -> String {
    String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stderr).into_owned()
}

fn sinks(folder: &Path) -> Vec<String> {
    SINKS.iter().map(|sink| std::fs::read_to_string(folder.join(sink)).expect("a sink of the program")).collect()
}

/// Where two texts are not the same any more.
fn first_difference(name: &str, got: &str, expected: &str) -> Option<String> {
    if got == expected {
        return None;
    }
    let line = got.lines().zip(expected.lines()).take_while(|(got, expected)| got == expected).count();
    let show = |text: &str| text.lines().skip(line.saturating_sub(2)).take(8).collect::<Vec<_>>().join("\n    ");
    Some(format!(
        "{name} is not the same from line {} on ({} bytes, {} expected)\n  has\n    {}\n  and not\n    {}",
        line + 1,
        got.len(),
        expected.len(),
        show(got),
        show(expected)
    ))
}

/// Kills runs of the program until there have been so many kills and the last run has ended by itself; says how it goes.
fn kill(orders: i64, kills: usize, seed: u64, mut tell: impl FnMut(usize, usize)) {
    let folder = folder(orders);
    let begun = Instant::now();
    let mut whole = start(folder.path(), 1);
    let status = ended_within(&mut whole, Duration::from_secs(300)).expect("the run ends");
    let took = begun.elapsed();
    assert!(status.success(), "{}", said(whole));
    let expected = sinks(folder.path());
    assert!(expected.iter().all(|sink| sink.lines().count() > orders as usize / 2), "the program has something to say");

    let mut rng = StdRng::seed_from_u64(seed);
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        std::fs::remove_dir_all(folder.path().join("state")).expect("the state of a run that has ended");
        SINKS.iter().for_each(|sink| std::fs::remove_file(folder.path().join(sink)).expect("a sink of a run that has ended"));
        let mut since = 0;
        loop {
            let mut child = start(folder.path(), if rng.random_bool(0.7) { 1 } else { 2 });
            // Also soon after it was started, so that it dies while it restores; and at last it may end.
            let patience = match rng.random_range(0..10) {
                _ if since >= 12 || killed >= kills => Duration::from_secs(300),
                0..3 => Duration::from_millis(rng.random_range(5..120)),
                _ => took.mul_f64(rng.random_range(0.05..0.6)),
            };
            if let Some(status) = ended_within(&mut child, patience) {
                assert!(status.success(), "after {killed} kills, seed {seed}: {}", said(child));
                break;
            }
            child.kill().expect("a child of ours");
            drop(said(child));
            (killed, since) = (killed + 1, since + 1);
            let listed = Command::new(WEIR).args(["state", "state", "--verify"]).current_dir(folder.path()).output().expect("it runs");
            let is_made = folder.path().join("state").exists();
            assert!(listed.status.success() || !is_made, "after {killed} kills: {}", String::from_utf8_lossy(&listed.stderr));
        }
        runs += 1;
        let got = sinks(folder.path());
        let differences: Vec<String> = SINKS
            .iter()
            .zip(got.iter().zip(&expected))
            .filter_map(|(name, (got, expected))| first_difference(name, got, expected))
            .collect();
        assert!(differences.is_empty(), "after {killed} kills, {since} of them in this run, seed {seed}:\n{}", differences.join("\n"));
        tell(killed, runs);
    }
}

#[test]
fn a_run_that_is_killed_twenty_times_writes_the_bytes_of_one_that_is_not() {
    kill(4_000, 20, 1, |_, _| {});
}

/// Ignored because it takes many minutes; the test above is its short form. `WEIR_KILLS` (500), `WEIR_FUZZ_SEED` (1).
#[test]
#[ignore = "takes many minutes"]
fn a_run_that_is_killed_five_hundred_times_writes_the_bytes_of_one_that_is_not() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    kill(20_000, number("WEIR_KILLS", 500) as usize, number("WEIR_FUZZ_SEED", 1), |kills, runs| {
        println!("{kills} kills, {runs} whole runs the same")
    });
}
