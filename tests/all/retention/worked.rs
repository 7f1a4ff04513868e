//! The model itself: the contract's worked example, its other examples, and the rows of the acceptance scenarios.

use super::model::{Arrangement, Cell, Feed, Node, Policy, Refresh, Retention, Row, Source, World};
use super::operators::{Aggregate, Join, grouped, joined, keys_are_equal};

const POLICIES: [Policy; 3] = [Policy::Forget, Policy::Keep, Policy::Retract];

/// A row from its values with spaces between: integers, NULL, and texts.
fn cells(text: &str) -> Row {
    let cell = |word: &str| match word {
        "NULL" => Cell::Null,
        word => word.parse().map_or_else(|_| Cell::Text(word.into()), Cell::Int),
    };
    text.split(' ').map(cell).collect()
}

fn words(row: &Row) -> String {
    row.iter().map(|cell| cell.to_string().replace('\'', "")).collect::<Vec<_>>().join(" ")
}

fn ttl(milliseconds: i64) -> Retention {
    Retention { ttl: Some(milliseconds), ..Retention::default() }
}

const NEVER: Retention = Retention { ttl: None, ttl_max: None, refresh: Refresh::Write };

/// Aggregates by the first so many columns; `of` says which aggregate of which column.
fn group(source: Source, columns: std::ops::Range<usize>, of: Vec<(Aggregate, usize)>, retention: Retention, policy: Policy) -> Node {
    let (scope, key) = (columns.clone(), columns.clone());
    let input = Arrangement::new(vec![Feed::of(source)], Box::new(move |row| row[scope.clone()].to_vec()), retention);
    let always = if columns.is_empty() { vec![vec![]] } else { vec![] };
    let answer = move |group: &Row, rows: &[Row]| {
        vec![group.iter().cloned().chain(of.iter().map(|(aggregate, column)| aggregate.of(rows, *column))).collect()]
    };
    Node::grouped(input, grouped(Box::new(move |row| row[key.clone()].to_vec()), always, answer), policy)
}

fn counted(table: &'static str, retention: Retention, policy: Policy) -> Node {
    group(Source::Table(table), 0..1, vec![(Aggregate::Rows, 0)], retention, policy)
}

fn join(join: Join, sides: [(&'static str, usize, Retention); 2], policy: Policy) -> Node {
    let widths = sides.map(|(_, width, _)| width);
    let inputs = sides.map(|(table, _, retention)| Arrangement::of_rows(Source::Table(table), retention));
    Node::ungrouped(inputs.into(), joined(join, widths, Box::new(keys_are_equal)), policy)
}

impl World {
    /// At an instant, one statement: rows of one table that come or go.
    fn at(&mut self, at: i64, table: &'static str, diff: i64, rows: &[&str]) {
        self.advance_to(at);
        self.change(rows.iter().map(|row| (table, cells(row), diff)));
    }

    fn rows(&self, node: usize) -> Vec<String> {
        let live = self.shows(node);
        live.iter().flat_map(|(row, count)| std::iter::repeat_n(words(row), *count as usize)).collect()
    }

    /// A line a step, removals first.
    fn told(&self, node: usize) -> Vec<String> {
        let mut lines: Vec<(super::model::Moment, String)> = vec![];
        let mut said = self.said_after(node, None);
        said.sort_by_key(|(moment, _, diff)| (*moment, *diff > 0));
        for (moment, row, diff) in said {
            let change = format!(" {}({})", if diff > 0 { "+" } else { "-" }, words(&row)).repeat(diff.unsigned_abs() as usize);
            match lines.last_mut() {
                Some((last, line)) if *last == moment => line.push_str(&change),
                _ => lines.push((moment, format!("{}:{change}", moment.0))),
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// `clicks` counted with a ttl of ten seconds, the total of the counts without.
fn clicks(policy: Policy) -> (World, usize, usize) {
    let mut world = World::default();
    let counts = world.add(counted("clicks", ttl(10_000), policy));
    let total = world.add(group(Source::Node(counts), 0..0, vec![(Aggregate::Sum, 1)], NEVER, Policy::Forget));
    world.settle();
    (world, counts, total)
}

#[test]
fn the_worked_example_of_the_contract() {
    let totals = [["1", "2", "2", "3"], ["1", "2", "2", "1"], ["1", "2", "NULL", "1"]];
    let told = [
        vec!["0: +(a 1)", "4000: -(a 1) +(a 2)", "20000: +(a 1)"],
        vec!["0: +(a 1)", "4000: -(a 1) +(a 2)", "20000: -(a 2) +(a 1)"],
        vec!["0: +(a 1)", "4000: -(a 1) +(a 2)", "14000: -(a 2)", "20000: +(a 1)"],
    ];
    let at_15 = [vec![], vec!["a 2"], vec![]];
    for (i, policy) in POLICIES.into_iter().enumerate() {
        let (mut world, counts, total) = clicks(policy);
        let mut seen = vec![];
        for (at, rows) in [(0, 1), (4000, 1), (14_000, 0), (20_000, 1)] {
            world.advance_to(at);
            (0..rows).for_each(|_| world.at(at, "clicks", 1, &["a"]));
            seen.extend(world.rows(total));
            if at == 14_000 {
                world.advance_to(15_000);
                assert_eq!(world.rows(counts), at_15[i], "{policy:?}");
            }
        }
        assert_eq!(seen, totals[i], "{policy:?}");
        assert_eq!(world.told(counts), told[i], "{policy:?}");
    }
}

#[test]
fn scenario_01_a_row_at_the_deadline_finds_its_group_gone() {
    let totals = ["4", "1", "1"];
    let last = [vec!["30000: +(a 1)"], vec![], vec!["30000: -(a 1)", "30000: +(a 1)"]];
    for (i, policy) in POLICIES.into_iter().enumerate() {
        let (mut world, counts, total) = clicks(policy);
        [0, 4000, 20_000, 30_000].into_iter().for_each(|at| world.at(at, "clicks", 1, &["a"]));
        assert_eq!((world.rows(counts), world.rows(total)), (vec!["a 1".to_string()], vec![totals[i].to_string()]));
        let told: Vec<String> = world.told(counts).into_iter().filter(|line| line.starts_with("30000")).collect();
        assert_eq!(told, last[i], "{policy:?}");
    }
}

#[test]
fn scenario_03_each_side_of_a_join_forgets_by_its_own_ttl() {
    let mut world = World::default();
    let sides = [("info", 2, ttl(60_000)), ("score", 2, ttl(120_000))];
    let j = world.add(join(Join::Inner, sides, Policy::Forget));
    world.at(0, "info", 1, &["u1 Ann"]);
    world.at(30_000, "score", 1, &["u1 10"]);
    world.at(70_000, "score", 1, &["u1 20"]);
    assert_eq!(world.rows(j), Vec::<String>::new());
    world.at(100_000, "info", 1, &["u1 Anna"]);
    assert_eq!(world.rows(j), ["u1 Anna u1 10", "u1 Anna u1 20"]);
    world.at(155_000, "info", 1, &["u1 Zoe"]);
    let told = ["30000: +(u1 Ann u1 10)", "100000: +(u1 Anna u1 10) +(u1 Anna u1 20)", "155000: +(u1 Zoe u1 20)"];
    assert_eq!(world.told(j), told);
}

#[test]
fn scenario_04_two_figures_arm_lazily() {
    let mut world = World::default();
    let retention = Retention { ttl_max: Some(24_000), ..ttl(12_000) };
    let c = world.add(counted("clicks", retention, Policy::Forget));
    world.at(0, "clicks", 1, &["a", "b"]);
    world.at(10_000, "clicks", 1, &["a", "b"]);
    world.at(13_000, "clicks", 1, &["b"]);
    let shows = |world: &mut World, at| {
        world.advance_to(at);
        world.rows(c)
    };
    assert_eq!(shows(&mut world, 23_000), ["a 2", "b 3"]);
    assert_eq!(shows(&mut world, 24_000), ["b 3"]);
    assert_eq!(shows(&mut world, 36_000), ["b 3"]);
    assert_eq!(shows(&mut world, 37_000), Vec::<String>::new());
}

#[test]
fn only_the_write_that_creates_a_scope_counts_with_create() {
    let mut world = World::default();
    let retention = Retention { refresh: Refresh::Create, ..ttl(10_000) };
    let c = world.add(counted("clicks", retention, Policy::Retract));
    world.at(0, "clicks", 1, &["a"]);
    world.at(9000, "clicks", 1, &["a"]);
    // emptied, and still armed
    world.at(9500, "clicks", -1, &["a", "a"]);
    world.at(9800, "clicks", 1, &["a"]);
    world.at(10_000, "clicks", 1, &["a"]);
    let told = ["0: +(a 1)", "9000: -(a 1) +(a 2)", "9500: -(a 2)", "9800: +(a 1)", "10000: -(a 1)", "10000: +(a 1)"];
    assert_eq!(world.told(c), told);
}

#[test]
fn scenario_07_late_retractions_find_nothing_and_half_an_update_survives() {
    let mut world = World::default();
    let of = [(Aggregate::Rows, 0), (Aggregate::Sum, 2)];
    let input = Feed { source: Source::Table("orders"), each: Box::new(|row| vec![vec![row[1].clone(), row[0].clone(), row[2].clone()]]) };
    let by_customer = Arrangement::new(vec![input], Box::new(|row| row[..1].to_vec()), ttl(10_000));
    let answer = move |group: &Row, rows: &[Row]| {
        vec![group.iter().cloned().chain(of.iter().map(|(aggregate, column)| aggregate.of(rows, *column))).collect()]
    };
    let v = world.add(Node::grouped(by_customer, grouped(Box::new(|row| row[..1].to_vec()), vec![], answer), Policy::Forget));
    world.at(0, "orders", 1, &["1 c 5"]);
    world.at(11_000, "orders", -1, &["1 c 5"]);
    assert_eq!((world.rows(v), world.nodes[v].inputs[0].late), (vec![], 1));
    world.at(11_000, "orders", 1, &["2 c 7"]);
    world.advance_to(23_000);
    world.change([("orders", cells("2 c 7"), -1), ("orders", cells("2 c 9"), 1)]);
    assert_eq!(world.rows(v), ["c 1 9"]);
    assert_eq!(world.told(v), ["0: +(c 1 5)", "11000: +(c 1 7)", "23000: +(c 1 9)"]);
}

/// The contract's outer join, without its last columns joined by: `l(k, a)` and `r(k, b)`, `r` for ten seconds.
fn outer_join(policy: Policy) -> (World, usize) {
    let mut world = World::default();
    let j = world.add(join(Join::Left, [("l", 2, NEVER), ("r", 2, ttl(10_000))], policy));
    world.at(0, "r", 1, &["1 x"]);
    world.at(1000, "l", 1, &["1 A"]);
    world.at(5000, "l", 1, &["2 B"]);
    world.at(11_000, "l", 1, &["1 C"]);
    world.at(12_000, "l", -1, &["1 A"]);
    world.at(13_000, "r", 1, &["1 y"]);
    world.at(14_000, "r", -1, &["1 y"]);
    (world, j)
}

#[test]
fn scenario_08_a_padded_row_that_an_expiry_makes_is_owed_and_not_said() {
    let (world, j) = outer_join(Policy::Forget);
    let told = [
        "1000: +(1 A 1 x)",
        "5000: +(2 B NULL NULL)",
        "11000: +(1 C NULL NULL)",
        "13000: -(1 C NULL NULL) +(1 C 1 y)",
        "14000: -(1 C 1 y) +(1 C NULL NULL)",
    ];
    assert_eq!(world.told(j), told);
    assert_eq!(world.rows(j), ["1 C NULL NULL", "2 B NULL NULL"]);
    let (world, j) = outer_join(Policy::Retract);
    let told = [
        "1000: +(1 A 1 x)",
        "5000: +(2 B NULL NULL)",
        "10000: -(1 A 1 x) +(1 A NULL NULL)",
        "11000: +(1 C NULL NULL)",
        "12000: -(1 A NULL NULL)",
        "13000: -(1 C NULL NULL) +(1 C 1 y)",
        "14000: -(1 C 1 y) +(1 C NULL NULL)",
    ];
    assert_eq!(world.told(j), told);
    assert_eq!(world.rows(j), ["1 C NULL NULL", "2 B NULL NULL"]);
}

#[test]
fn scenario_09_a_histogram_over_counts_that_expire() {
    let at_10 = [vec!["1 1", "2 1"], vec!["1 1", "2 1"], vec!["2 1"]];
    let at_20 = [vec!["1 2", "2 1"], vec!["1 2"], vec!["1 1"]];
    for (i, policy) in POLICIES.into_iter().enumerate() {
        let mut world = World::default();
        let counts = world.add(counted("t", ttl(10_000), policy));
        let histogram = world.add(group(Source::Node(counts), 1..2, vec![(Aggregate::Rows, 0)], NEVER, Policy::Forget));
        world.at(0, "t", 1, &["a", "b"]);
        world.at(1000, "t", 1, &["a"]);
        assert_eq!(world.rows(histogram), ["1 1", "2 1"]);
        world.advance_to(10_000);
        assert_eq!(world.rows(histogram), at_10[i], "{policy:?}");
        world.at(20_000, "t", 1, &["a"]);
        assert_eq!(world.rows(histogram), at_20[i], "{policy:?}");
    }
}

/// The executable contract's cascade: a histogram of counts, where one or the other has the ttl.
#[test]
fn a_cascade_publishes_what_the_executable_contract_does() {
    let told = |inner: Retention, outer: Retention| {
        let mut world = World::default();
        let counts = world.add(counted("t", inner, Policy::Forget));
        let histogram = world.add(group(Source::Node(counts), 1..2, vec![(Aggregate::Rows, 0)], outer, Policy::Forget));
        for (at, key) in [(0, "a"), (200, "a"), (400, "b"), (3000, "a"), (3300, "b"), (3600, "a")] {
            world.at(at, "t", 1, &[key]);
        }
        world.told(histogram)
    };
    let inner = [
        "0: +(1 1)",
        "200: -(1 1) +(2 1)",
        "400: +(1 1)",
        "3000: -(1 1) +(1 2)",
        "3300: -(1 2) +(1 3)",
        "3600: -(1 3) -(2 1) +(1 2) +(2 2)",
    ];
    assert_eq!(told(ttl(2000), NEVER), inner);
    // at 3 s the count of a goes from 2 to 3, at 3.3 s that of b from 1 to 2, at 3.6 s that of a from 3 to 4
    let outer = ["0: +(1 1)", "200: -(1 1) +(2 1)", "400: +(1 1)", "3000: +(3 1)", "3300: +(2 1)", "3600: -(3 1) +(4 1)"];
    assert_eq!(told(NEVER, ttl(2000)), outer);
}

#[test]
fn semi_and_anti_joins_publish_what_the_executable_contract_does() {
    let told = |kind: Join| {
        let mut world = World::default();
        let j = world.add(join(kind, [("l", 2, NEVER), ("r", 1, ttl(2000))], Policy::Forget));
        world.at(0, "l", 1, &["1 1"]);
        world.at(100, "r", 1, &["1"]);
        world.at(2500, "l", 1, &["1 2"]);
        world.at(3000, "r", 1, &["1"]);
        world.at(5500, "l", -1, &["1 1"]);
        (world.told(j), world.rows(j))
    };
    let semi = ["100: +(1 1)", "3000: +(1 1) +(1 2)"].map(String::from).to_vec();
    assert_eq!(told(Join::Semi), (semi, vec![]));
    let anti = ["0: +(1 1)", "100: -(1 1)", "2500: +(1 2)", "3000: -(1 2)"].map(String::from).to_vec();
    assert_eq!(told(Join::Anti), (anti, vec!["1 2".to_string()]));
}

#[test]
fn a_kept_total_is_all_that_is_shown_until_rows_come_back() {
    let mut world = World::default();
    let total = world.add(group(Source::Table("t"), 0..0, vec![(Aggregate::Rows, 0)], ttl(10_000), Policy::Keep));
    world.settle();
    world.at(0, "t", 1, &["a", "b"]);
    world.advance_to(10_000);
    assert_eq!(world.rows(total), ["2"]);
    // late: it makes nothing, and what was kept stays
    world.at(11_000, "t", -1, &["a"]);
    assert_eq!(world.rows(total), ["2"]);
    world.at(12_000, "t", 1, &["c"]);
    assert_eq!(world.told(total), ["0: +(0)", "0: -(0) +(2)", "12000: -(2) +(1)"]);
}

#[test]
fn a_row_that_comes_and_goes_within_one_step_touches_nothing() {
    let mut world = World::default();
    let c = world.add(counted("t", ttl(10_000), Policy::Retract));
    world.at(0, "t", 1, &["a"]);
    world.advance_to(5000);
    world.change([("t", cells("a"), 1), ("t", cells("a"), -1)]);
    world.advance_to(10_000);
    assert_eq!(world.told(c), ["0: +(a 1)", "10000: -(a 1)"]);
}
