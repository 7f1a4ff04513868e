//! Comparisons of columns of all precisions with each other and with literals that are finer than they are, in WHERE and
//! in SELECT, where NULL, false and failure are three things: as SQLite has them of exact integers.
//!
//! In SQLite a moment is its nanoseconds and a number its ten-thousandths.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::engine::Engine;

use crate::both::{Both, both, joined};
use crate::sqlite::Sqlite;
use crate::value::{self, difference};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
const ONE: i64 = 10_000;

fn pick<T: Clone>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())].clone()
}

/// A moment around the epoch, on a unit of so many nanoseconds.
fn instant(rng: &mut StdRng, unit: i64) -> i64 {
    // Few enough that moments meet, and near enough that they differ in the unit below.
    let offset = pick(rng, &[0, 0, 0, 1, -1, 500, 997_000, 2_000_000, 997_000_000]);
    (rng.random_range(-3..4) * SECOND + offset).div_euclid(unit) * unit
}

/// The digits of a TIMESTAMP of this precision.
fn text(ns: i64, precision: usize) -> String {
    let (day, rest) = (ns.div_euclid(DAY), ns.rem_euclid(DAY));
    let date = ["1969-12-31", "1970-01-01", "1970-01-02"][usize::try_from(day + 1).expect("a day around the epoch")];
    let (seconds, fraction) = (rest / SECOND, format!("{:09}", rest % SECOND));
    let point = if precision == 0 { "" } else { "." };
    format!("{date} {:02}:{:02}:{:02}{point}{}", seconds / 3_600, seconds / 60 % 60, seconds % 60, &fraction[..precision])
}

fn moment_literal(rng: &mut StdRng) -> Both {
    if rng.random_bool(0.1) {
        let day = rng.random_range(-1..2);
        return both(format!("DATE '{}'", &text(day * DAY, 0)[..10]), (day * DAY).to_string());
    }
    let precision = pick(rng, &[0, 3, 6, 9]);
    let ns = instant(rng, 10_i64.pow(9 - precision as u32));
    both(format!("TIMESTAMP '{}'", text(ns, precision)), ns.to_string())
}

fn moment(rng: &mut StdRng) -> Both {
    let column = pick(rng, &["s", "ms", "us", "ns", "d"]);
    let by = pick(rng, &[1, 3, 500, 1_500, 2_000]);
    match rng.random_range(0..10) {
        0 => both(format!("({column} + INTERVAL '{by}' MILLISECOND)"), format!("({column} + {by} * 1000000)")),
        1 => both(format!("({column} - INTERVAL '{by}' MICROSECOND)"), format!("({column} - {by} * 1000)")),
        2 => both(format!("(INTERVAL '{by}' SECOND + {column})"), format!("({column} + {by} * {SECOND})")),
        3 => both("(ms + (us - us2))", "(ms + (us - us2))"),
        4 => both("(s + (ms - us))", "(s + (ms - us))"),
        5 => both(format!("CAST({column} AS TIMESTAMP(9))"), column),
        6 => both("CAST(s AS TIMESTAMP(3))", "s"),
        7 => both(
            "CAST(CASE WHEN us >= TIMESTAMP '1970-01-01 00:00:00' THEN us END AS TIMESTAMP(0))",
            "(CASE WHEN us >= 0 THEN us / 1000000000 * 1000000000 END)",
        ),
        _ => both(column, column),
    }
}

fn number_literal(rng: &mut StdRng) -> Both {
    let number: i64 = pick(rng, &[0, 1, 2, -2, 127, 128, -128, 300, 70_000]) * ONE + pick(rng, &[0, 0, 0, 1, 2_500, -2_500, 100]);
    let digits = format!("{}.{:04}", number.abs() / ONE, number.abs() % ONE);
    let sign = if number < 0 { "-" } else { "" };
    let shown = match number % ONE {
        0 => format!("{}", number / ONE),
        rest if rest % 2_500 == 0 && rng.random_bool(0.3) => format!("{sign}{digits}e0"),
        _ => format!("{sign}{}", digits.trim_end_matches('0')),
    };
    both(shown, number.to_string())
}

fn number(rng: &mut StdRng) -> Both {
    let column = pick(rng, &["i8", "i", "b", "de", "wide"]);
    match rng.random_range(0..10) {
        0 => both("CAST(i AS BIGINT)", "i"),
        1 => both("CAST(i8 AS DECIMAL(6, 3))", "i8"),
        2 => both("CAST(de AS DECIMAL(18, 4))", "de"),
        3 => both("TRY_CAST(b AS TINYINT)", "(CASE WHEN b BETWEEN -1280000 AND 1270000 THEN b END)"),
        4 => both("TRY_CAST(i AS DECIMAL(5, 2))", "(CASE WHEN abs(i) < 10000000 THEN i END)"),
        5 => both("CAST(de AS INT)", "(de / 10000 * 10000)"),
        6 => both("(i + 1)", "(i + 10000)"),
        _ => both(column, column),
    }
}

/// A comparison of two of a kind.
fn comparison(rng: &mut StdRng) -> Both {
    type Makes = fn(&mut StdRng) -> Both;
    let [value, literal]: [Makes; 2] = pick(rng, &[[moment as Makes, moment_literal], [number, number_literal]]);
    let op = pick(rng, &["<", "<=", ">", ">=", "=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
    match rng.random_range(0..10) {
        0..4 => joined(&value(rng), op, &literal(rng)),
        4 | 5 => joined(&literal(rng), op, &value(rng)),
        6 => joined(&value(rng), op, &value(rng)),
        7 => {
            let between = pick(rng, &["BETWEEN", "NOT BETWEEN"]);
            joined(&joined(&value(rng), between, &literal(rng)), "AND", &literal(rng))
        }
        _ => {
            let mut list = literal(rng);
            for _ in 0..rng.random_range(0..6) {
                let item = if rng.random_bool(0.1) { both("NULL", "NULL") } else { literal(rng) };
                list = joined(&list, ",", &item);
            }
            let list = both(format!("({})", list.weir), format!("({})", list.sqlite));
            joined(&value(rng), pick(rng, &["IN", "NOT IN"]), &list)
        }
    }
}

fn row(rng: &mut StdRng, id: usize) -> Both {
    let (mut weir, mut sqlite) = (vec![id.to_string()], vec![id.to_string()]);
    let mut push = |rng: &mut StdRng, shown: String, value: i64| {
        let null = rng.random_bool(0.1);
        weir.push(if null { "NULL".into() } else { shown });
        sqlite.push(if null { "NULL".into() } else { value.to_string() });
    };
    for precision in [0, 3, 6, 6, 9] {
        let ns = instant(rng, 10_i64.pow(9 - precision as u32));
        push(rng, format!("TIMESTAMP '{}'", text(ns, precision)), ns);
    }
    let day = rng.random_range(-1..2);
    push(rng, format!("DATE '{}'", &text(day * DAY, 0)[..10]), day * DAY);
    for numbers in [&[0, 1, 2, -2, 127, -128][..], &[0, 1, 2, -2, 128, 300, 70_000], &[0, 2, 127, 128, 300, 1 << 40]] {
        let number = pick(rng, numbers);
        push(rng, number.to_string(), number * ONE);
    }
    for scale in [2, 4] {
        let unit = 10_i64.pow(4 - scale);
        let number = (pick(rng, &[0, 1, 2, 127, 300]) * ONE + pick(rng, &[0, 0, 1, 100, 2_500, 9_900])) / unit * unit;
        push(rng, format!("{}.{:04}", number / ONE, number % ONE), number);
    }
    both(format!("({})", weir.join(", ")), format!("({})", sqlite.join(", ")))
}

#[test]
fn a_comparison_does_not_depend_on_how_fine_its_operands_are() {
    let mut rng = StdRng::seed_from_u64(41);
    let engine = Engine::builder().workers(1).build().expect("an engine");
    let sqlite = Sqlite::new();
    let columns = "s TIMESTAMP(0), ms TIMESTAMP(3), us TIMESTAMP(6), us2 TIMESTAMP(6), ns TIMESTAMP(9), d DATE, \
                   i8 TINYINT, i INT, b BIGINT, de DECIMAL(10, 2), wide DECIMAL(18, 4)";
    engine.execute(&format!("CREATE TABLE c (id INT, {columns})")).expect("a table");
    sqlite.execute("CREATE TABLE c (id, s, ms, us, us2, ns, d, i8, i, b, de, wide)");
    let rows: Vec<Both> = (0..60).map(|id| row(&mut rng, id)).collect();
    let values = |of: fn(&Both) -> &str| rows.iter().map(of).collect::<Vec<_>>().join(", ");
    engine.execute(&format!("INSERT INTO c VALUES {}", values(|row| &row.weir))).expect("rows");
    sqlite.execute(&format!("INSERT INTO c VALUES {}", values(|row| &row.sqlite)));
    let check = |query: &Both| {
        let found = engine.query(&query.weir).unwrap_or_else(|error| panic!("{error}: {}", query.weir));
        let expected = sqlite.query(&query.sqlite).unwrap_or_else(|error| panic!("{error}"));
        if let Some(message) = difference(&value::rows(&found), &expected) {
            panic!("{message}\nof {}\nand {}", query.weir, query.sqlite);
        }
    };
    for _ in 0..12 {
        let conditions: Vec<Both> = (0..25).map(|_| comparison(&mut rng)).collect();
        let shown =
            |of: fn(&Both) -> &str| conditions.iter().enumerate().map(|(n, c)| format!(", ({}) AS c{n}", of(c))).collect::<String>();
        check(&both(format!("SELECT id{} FROM c", shown(|c| &c.weir)), format!("SELECT id{} FROM c", shown(|c| &c.sqlite))));
        let any = conditions[..6].iter().map(|c| both(format!("({})", c.weir), format!("({})", c.sqlite)));
        let any = any.reduce(|a, b| joined(&a, "OR NOT", &b)).expect("six conditions");
        check(&both(format!("SELECT id FROM c WHERE {}", any.weir), format!("SELECT id FROM c WHERE {}", any.sqlite)));
        let (value, literal) = (moment(&mut rng), moment_literal(&mut rng));
        // The filter comes to the cast when it is pushed below the subquery's columns.
        let outer =
            |of: fn(&Both) -> &str| format!("SELECT id FROM (SELECT id, {} AS x FROM c) AS q WHERE x < {}", of(&value), of(&literal));
        check(&both(outer(|c| &c.weir), outer(|c| &c.sqlite)));
    }
}
