//! OVER windows on time: after every change what SQLite computes from scratch, in partitions long enough that the operator
//! does not look at all of them again.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::engine::{Clock, Engine};

use crate::published::Published;
use crate::sqlite::Sqlite;
use crate::value::difference;

/// Windows in the words of Weir and of SQLite, in which a moment is its milliseconds.
const VIEWS: &[(&str, &str)] = &[
    (
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(*) OVER w AS n, MIN(x) OVER w AS least FROM e
         WINDOW w AS (PARTITION BY p ORDER BY t NULLS FIRST RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)",
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(*) OVER w AS n, MIN(x) OVER w AS least FROM e
         WINDOW w AS (PARTITION BY p ORDER BY t NULLS FIRST RANGE BETWEEN 3600000 PRECEDING AND CURRENT ROW)",
    ),
    (
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(x) OVER w AS n, MAX(x) OVER w AS most FROM e
         WINDOW w AS (PARTITION BY p ORDER BY t DESC NULLS LAST RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND INTERVAL '30' MINUTE FOLLOWING)",
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(x) OVER w AS n, MAX(x) OVER w AS most FROM e
         WINDOW w AS (PARTITION BY p ORDER BY t DESC NULLS LAST RANGE BETWEEN 600000 PRECEDING AND 1800000 FOLLOWING)",
    ),
    (
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(*) OVER w AS n FROM e
         WINDOW w AS (PARTITION BY p ORDER BY s NULLS LAST RANGE BETWEEN INTERVAL '1500' MILLISECOND PRECEDING AND INTERVAL '500' MILLISECOND PRECEDING)",
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(*) OVER w AS n FROM e
         WINDOW w AS (PARTITION BY p ORDER BY s NULLS LAST RANGE BETWEEN 1500 PRECEDING AND 500 PRECEDING)",
    ),
    (
        "SELECT id, p, COUNT(*) OVER (PARTITION BY p ORDER BY d NULLS FIRST RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS n,
         SUM(x) OVER (PARTITION BY p ORDER BY d NULLS FIRST RANGE BETWEEN INTERVAL '36' HOUR PRECEDING AND INTERVAL '12' HOUR FOLLOWING) AS s FROM e",
        "SELECT id, p, COUNT(*) OVER (PARTITION BY p ORDER BY d NULLS FIRST RANGE BETWEEN 86400000 PRECEDING AND CURRENT ROW) AS n,
         SUM(x) OVER (PARTITION BY p ORDER BY d NULLS FIRST RANGE BETWEEN 129600000 PRECEDING AND 43200000 FOLLOWING) AS s FROM e",
    ),
    (
        "SELECT id, p, SUM(x) OVER (PARTITION BY p ORDER BY k NULLS FIRST RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s,
         COUNT(*) OVER (PARTITION BY p ORDER BY k NULLS FIRST RANGE BETWEEN 3 FOLLOWING AND 5 FOLLOWING) AS n FROM e",
        "",
    ),
    (
        "SELECT id, p, SUM(x) OVER w AS s, COUNT(x) OVER w AS n, AVG(x) OVER w AS mean, RANK() OVER w AS r, DENSE_RANK() OVER w AS dr
         FROM e WINDOW w AS (PARTITION BY p ORDER BY t NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "",
    ),
    (
        "SELECT id, p, ROW_NUMBER() OVER w AS n, LAG(x, 2) OVER w AS before, LEAD(x) OVER w AS after, MAX(x) OVER w AS most,
         SUM(x * 0.1e0) OVER w AS tenths, FIRST_VALUE(x) OVER w AS first, LAST_VALUE(id) OVER w AS itself FROM e
         WINDOW w AS (PARTITION BY p ORDER BY t NULLS FIRST, id, x NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "",
    ),
    (
        "SELECT id, p, SUM(x) OVER (PARTITION BY p ORDER BY t NULLS FIRST, id, x NULLS FIRST ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s,
         MIN(x) OVER (PARTITION BY p ORDER BY t NULLS FIRST, id, x NULLS FIRST ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS least,
         FIRST_VALUE(x) OVER (PARTITION BY p ORDER BY t NULLS FIRST, id, x NULLS FIRST ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS x5 FROM e",
        "",
    ),
    (
        "SELECT id, p, SUM(x) OVER (PARTITION BY p ORDER BY t NULLS LAST RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM e",
        "SELECT id, p, SUM(x) OVER (PARTITION BY p ORDER BY t NULLS LAST RANGE BETWEEN 3600000 PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM e",
    ),
];

const MINUTE: i64 = 60_000;
const DAY: i64 = 1_440 * MINUTE;

fn timestamp(ms: i64) -> String {
    let (day, rest) = (ms / DAY, ms % DAY);
    let seconds = rest / 1_000;
    format!("1970-01-{:02} {:02}:{:02}:{:02}.{:03}", day + 1, seconds / 3_600, seconds / 60 % 60, seconds % 60, rest % 1_000)
}

struct Watched {
    name: String,
    sqlite: &'static str,
    published: Published,
}

impl Watched {
    fn compare(&mut self, sqlite: &Sqlite) -> Result<(), String> {
        self.published.follow()?;
        difference(&self.published.rows(), &sqlite.query(self.sqlite)?).map_or(Ok(()), Err)
    }
}

/// Rows around a moment: literals for both engines.
fn rows(rng: &mut StdRng, ids: &mut i64, count: usize, around: i64) -> (String, String) {
    let (mut weir, mut sqlite) = (vec![], vec![]);
    for _ in 0..count {
        // Some are copies in all but, perhaps, their value.
        *ids += i64::from(rng.random_bool(0.9));
        let p = rng.random_range(0..4).min(1);
        let moment = (around + rng.random_range(0..30) * MINUTE + rng.random_range(0..3) * 500).clamp(0, 30 * DAY);
        let second = moment / MINUTE * 1_000 / 3;
        let null = rng.random_bool(0.03);
        let shown = |text: String| if null { "NULL".to_owned() } else { text };
        let x = if rng.random_bool(0.1) { "NULL".to_owned() } else { rng.random_range(-9..10).to_string() };
        let (k, day, second) = (moment / (20 * MINUTE), moment / DAY * DAY, second / 1_000 * 1_000);
        weir.push(format!(
            "({ids}, {p}, {}, {}, {}, {}, {x})",
            shown(format!("TIMESTAMP '{}'", timestamp(moment))),
            shown(format!("TIMESTAMP '{}'", timestamp(second))),
            shown(format!("DATE '{}'", &timestamp(day)[..10])),
            shown(k.to_string()),
        ));
        sqlite.push(format!(
            "({ids}, {p}, {}, {}, {}, {}, {x})",
            shown(moment.to_string()),
            shown(second.to_string()),
            shown(day.to_string()),
            shown(k.to_string()),
        ));
    }
    (weir.join(", "), sqlite.join(", "))
}

fn run(seed: u64, workers: usize) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let engine = Engine::builder().workers(workers).clock(Clock::Manual).build().expect("an engine");
    let sqlite = Sqlite::new();
    let define = "(id INT, p INT, t TIMESTAMP(3), s TIMESTAMP(0), d DATE, k INT, x BIGINT)";
    engine.execute(&format!("CREATE TABLE e {define}")).expect("a table");
    sqlite.execute("CREATE TABLE e (id INT, p INT, t INT, s INT, d INT, k INT, x INT)");
    let (mut ids, mut latest) = (0, 0);
    let insert = |(weir, ours): (String, String)| {
        engine.execute(&format!("INSERT INTO e VALUES {weir}")).expect("rows");
        sqlite.execute(&format!("INSERT INTO e VALUES {ours}"));
    };
    insert(rows(&mut rng, &mut ids, 200, 0));
    let mut views = vec![];
    for (index, (weir, theirs)) in VIEWS.iter().enumerate() {
        let name = format!("v{index}");
        engine.execute(&format!("CREATE MATERIALIZED VIEW {name} AS {weir}")).unwrap_or_else(|e| panic!("{e}: {weir}"));
        let published = Published::of(&engine, &name);
        views.push(Watched { name, sqlite: if theirs.is_empty() { weir } else { theirs }, published });
    }
    for step in 0..14 {
        for _ in 0..rng.random_range(1..4) {
            match rng.random_range(0..10) {
                0..6 => {
                    latest += rng.random_range(0..40) * MINUTE;
                    let count = if rng.random_bool(0.3) { 60 } else { 3 };
                    insert(rows(&mut rng, &mut ids, count, latest));
                }
                6 | 7 => {
                    let around = rng.random_range(0..latest + 1);
                    insert(rows(&mut rng, &mut ids, 2, around));
                }
                _ => {
                    let (from, of) = (rng.random_range(0..ids), rng.random_range(1..40));
                    let from = if rng.random_bool(0.5) { ids - of / 4 } else { from };
                    let delete = format!("DELETE FROM e WHERE id BETWEEN {from} AND {}", from + of / 4);
                    engine.execute(&delete).expect("a change");
                    sqlite.execute(&delete);
                }
            }
        }
        engine.finish().map_err(|e| e.to_string())?;
        for view in &mut views {
            view.compare(&sqlite)
                .map_err(|e| format!("seed {seed}, {workers} workers, step {step}, {}: {e}\nof {}", view.name, view.sqlite))?;
        }
    }
    Ok(())
}

#[test]
fn windows_on_time_are_those_of_all_rows_after_every_change() {
    for (seed, workers) in [(1, 1), (2, 2), (3, 1)] {
        run(seed, workers).unwrap_or_else(|message| panic!("{message}"));
    }
}
