//! Expected values come from the contract's rules on precedence and names.

use super::*;
use crate::plan::{Policy, Refresh};
use crate::sql::parse::testing::one;
use crate::sql::statement::Statement;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// `orders o JOIN lineitem l JOIN customers c`.
const THREE: &str = "SELECT * FROM orders AS o JOIN lineitem AS l ON o.k = l.k JOIN customers AS c ON o.c = c.c";

/// Names and values, of settings or options.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn session(settings: Pairs) -> Defaults {
    let mut defaults = Defaults::default();
    settings.iter().for_each(|(name, value)| defaults.set(name, value).expect("the test's setting"));
    defaults
}

fn query(sql: &str) -> Query {
    match one(sql) {
        Statement::Query(query) => query,
        other => panic!("{sql}: {other:?}"),
    }
}

/// What a view over `sql` with these options says.
fn view(settings: Pairs, options: Pairs, sql: &str) -> Result<Retentions> {
    let options: Vec<SqlOption> = options.iter().map(|(name, value)| SqlOption { name: (*name).into(), value: (*value).into() }).collect();
    Retentions::new(&session(settings), &options, &query(sql))
}

fn said(settings: Pairs, options: Pairs, sql: &str) -> Retentions {
    view(settings, options, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn refusal(settings: Pairs, options: Pairs, sql: &str) -> String {
    match view(settings, options, sql) {
        Ok(said) => panic!("{sql}: {said:?}"),
        Err(error) => error.to_string(),
    }
}

/// A query with a hint that says one hour of `o`.
fn hinted(sql: &str) -> String {
    sql.replacen("SELECT", "SELECT /*+ STATE_TTL('o' = '1h') */", 1)
}

#[test]
fn the_nearest_that_says_a_ttl_wins() {
    let settings: Pairs = &[("state_ttl", "1 s")];
    let in_view = ("state_ttl", "1 min");
    let of_input = ("state_ttl.o", "10 min");
    let hint = hinted(THREE);
    let cases: &[(Pairs, Pairs, &str, Option<u64>, &str)] = &[
        (&[], &[], THREE, None, "default"),
        (settings, &[], THREE, Some(SECOND), "session"),
        (settings, &[in_view], THREE, Some(60 * SECOND), "view"),
        (settings, &[in_view, of_input], THREE, Some(600 * SECOND), "view option state_ttl.o"),
        (settings, &[in_view, of_input], &hint, Some(HOUR), "hint STATE_TTL('o')"),
        (settings, &[in_view], &hint, Some(HOUR), "hint STATE_TTL('o')"),
        (&[], &[], &hint, Some(HOUR), "hint STATE_TTL('o')"),
        (&[], &[of_input], THREE, Some(600 * SECOND), "view option state_ttl.o"),
    ];
    for (settings, options, sql, ttl, origin) in cases {
        let memory = said(settings, options, sql).of(Some("o"));
        assert_eq!((memory.ttl, memory.origin.to_string().as_str()), (*ttl, *origin), "{settings:?} {options:?} {sql}");
    }
}

#[test]
fn what_is_said_of_one_input_is_said_of_no_other() {
    let said = said(&[], &[("state_ttl", "1 min"), ("state_ttl.o", "1 h"), ("on_expiry.l", "keep")], THREE);
    assert_eq!((said.of(Some("o")).ttl, said.of(Some("o")).policy), (Some(HOUR), Policy::Forget));
    assert_eq!((said.of(Some("l")).ttl, said.of(Some("l")).policy), (Some(60 * SECOND), Policy::Keep));
    for other in [Some("c"), Some("o+l"), None] {
        assert_eq!((said.of(other).ttl, said.of(other).policy), (Some(60 * SECOND), Policy::Forget), "{other:?}");
    }
}

#[test]
fn each_of_the_four_comes_from_the_nearest_that_says_that_one() {
    let settings = &[("state_ttl", "1 h"), ("state_ttl_max", "2 h"), ("on_expiry", "retract"), ("ttl_refresh", "create")];
    let memory = said(settings, &[("on_expiry", "keep"), ("ttl_refresh.o", "write")], &hinted(THREE)).of(Some("o"));
    let origin = Origin::Hint("STATE_TTL('o')".into());
    let expected = Memory { ttl: Some(HOUR), ttl_max: Some(2 * HOUR), refresh: Refresh::Write, policy: Policy::Keep, origin };
    assert_eq!(memory, expected);
    let memory = said(settings, &[], THREE).of(Some("o"));
    assert_eq!((memory.refresh, memory.policy, memory.origin), (Refresh::Create, Policy::Retract, Origin::Session));
}

#[test]
fn never_nearer_by_wins_over_a_figure_farther_away() {
    let settings = &[("state_ttl", "1 s")];
    let memory = said(settings, &[("state_ttl", "never")], THREE).of(None);
    assert_eq!((memory.ttl, memory.origin), (None, Origin::View("state_ttl".into())));
    let said_of_o = said(settings, &[("state_ttl", "1 min"), ("state_ttl.o", "never")], THREE);
    assert_eq!((said_of_o.of(Some("o")).ttl, said_of_o.of(None).ttl), (None, Some(60 * SECOND)));
    let never = THREE.replace("SELECT", "SELECT /*+ STATE_TTL('o' = 'never') */");
    assert_eq!(said(settings, &[("state_ttl.o", "1 s")], &never).of(Some("o")).ttl, None);
}

#[test]
fn zero_is_never_in_hints_and_an_error_in_options() {
    for zero in ["0", "0s", "0 ms"] {
        let sql = THREE.replace("SELECT", &format!("SELECT /*+ STATE_TTL('o' = '{zero}') */"));
        let memory = said(&[("state_ttl", "1 s")], &[], &sql).of(Some("o"));
        assert_eq!((memory.ttl, memory.origin.to_string().as_str()), (None, "hint STATE_TTL('o')"), "{zero}");
        let sql = THREE.replacen("JOIN", &format!("JOIN /*+ OPTIONS('state.ttl.left' = '{zero}') */"), 1);
        assert_eq!(said(&[("state_ttl", "1 s")], &[], &sql).of(Some("o")).ttl, None, "{zero}");
        assert_eq!(session(&[("table.exec.state.ttl", zero)]), session(&[("state_ttl", "never")]));
        assert!(!refusal(&[], &[("state_ttl.o", zero)], THREE).is_empty());
    }
    assert!(refusal(&[], &[("state_ttl", "0 s")], THREE).contains("zero"));
}

#[test]
fn a_longer_figure_applies_to_ttls_up_to_itself() {
    let max = |settings: Pairs, options: Pairs| said(settings, options, THREE).of(Some("o")).ttl_max;
    assert_eq!(max(&[], &[("state_ttl", "12 s"), ("state_ttl_max", "24 s")]), Some(24 * SECOND));
    assert_eq!(max(&[], &[("state_ttl", "12 s"), ("state_ttl_max", "12 s")]), Some(12 * SECOND));
    assert_eq!(max(&[], &[("state_ttl", "12 s"), ("state_ttl_max", "never")]), None);
    let far = &[("state_ttl", "1 min"), ("state_ttl_max", "1 h")];
    assert_eq!(max(far, &[]), Some(HOUR));
    assert_eq!(max(far, &[("state_ttl", "30 min")]), Some(HOUR));
    // a ttl that was said nearer by is not cut short from farther away
    assert_eq!(max(far, &[("state_ttl", "2 h")]), None);
    assert_eq!(max(far, &[("state_ttl.o", "2 h")]), None);
    assert_eq!(max(far, &[("state_ttl.o", "never")]), None);
    assert_eq!(max(far, &[("state_ttl_max.o", "never")]), None);
    assert_eq!(max(far, &[("state_ttl_max.o", "2 min")]), Some(120 * SECOND));
}

#[test]
fn a_longer_figure_that_is_shorter_or_alone_is_an_error_that_names_it() {
    let shorter: &[(Pairs, Pairs, &str)] = &[
        (&[], &[("state_ttl", "12 s"), ("state_ttl_max", "6 s")], "state_ttl_max = '6 s' is shorter than the ttl, '12 s' (view)"),
        (
            &[],
            &[("state_ttl.o", "12 s"), ("state_ttl_max.o", "6 s")],
            "state_ttl_max.o = '6 s' is shorter than the ttl, '12 s' (view option state_ttl.o)",
        ),
        (&[("state_ttl", "12 s")], &[("state_ttl_max", "6 s")], "state_ttl_max = '6 s' is shorter than the ttl, '12 s' (session)"),
        (
            &[("state_ttl", "12 s"), ("state_ttl_max", "6 s")],
            &[],
            "state_ttl_max = '6 s' (session) is shorter than the ttl, '12 s' (session)",
        ),
        (&[], &[("state_ttl_max", "6 s")], "state_ttl_max = '6 s' has no ttl beside it"),
        (&[], &[("state_ttl_max.o", "6 s")], "state_ttl_max.o = '6 s' has no ttl beside it"),
        (&[], &[("state_ttl", "never"), ("state_ttl_max", "6 s")], "state_ttl_max = '6 s' has no ttl beside it"),
    ];
    for (settings, options, part) in shorter {
        let message = refusal(settings, options, THREE);
        assert!(message.contains(part), "{settings:?} {options:?}: {message}");
    }
}

#[test]
fn values_that_mean_nothing_are_errors_with_the_name_that_they_were_given_for() {
    let cases = [
        ("state_ttl", "three days", "state_ttl: 'three days' is not a duration"),
        ("state_ttl.o", "soon", "state_ttl.o: 'soon' is not a duration"),
        ("state_ttl_max.o", "-3 s", "state_ttl_max.o: duration '-3 s' is negative"),
        ("on_expiry", "drop", "on_expiry is one of forget, keep, retract, not 'drop'"),
        ("on_expiry.o", "drop", "on_expiry.o is one of forget, keep, retract, not 'drop'"),
        ("ttl_refresh", "read", "ttl_refresh is one of write, create, not 'read'"),
        ("state_tll", "1 s", "there is no option 'state_tll'; did you mean 'state_ttl'?"),
        ("state_tll.o", "1 s", "there is no option 'state_tll.o'; did you mean 'state_ttl'?"),
        ("retention", "1 s", "there is no option 'retention' (there is "),
        ("state_ttl.", "1 s", "state_ttl.: '' is not the name of an input"),
        ("state_ttl.o+", "1 s", "state_ttl.o+: 'o+' is not the name of an input"),
    ];
    for (name, value, part) in cases {
        let message = refusal(&[], &[(name, value)], THREE);
        assert!(message.contains(part), "{name} = '{value}': {message}");
    }
    let hint = THREE.replace("SELECT", "SELECT /*+ STATE_TTL('o' = 'soon') */");
    assert!(refusal(&[], &[], &hint).starts_with("hint STATE_TTL('o'): 'soon' is not a duration"));
}

#[test]
fn a_setting_is_shown_in_one_spelling_and_reset_to_nothing_said() {
    let mut defaults = session(&[("table.exec.state.ttl", "60S"), ("state_ttl_max", "48 hours"), ("on_expiry", "KEEP")]);
    let shown = |defaults: &Defaults| OPTIONS.map(|name| defaults.value(name));
    assert_eq!(shown(&defaults), ["1 min", "2 days", "keep", "write"]);
    assert_eq!(defaults.value(FLINK_STATE_TTL), "1 min");
    [FLINK_STATE_TTL, "state_ttl_max", "on_expiry", "ttl_refresh"].iter().for_each(|name| defaults.reset(name));
    assert_eq!(defaults, Defaults::default());
    assert_eq!(shown(&defaults), ["never", "never", "forget", "write"]);
    assert!(defaults.set("state_tll", "1 s").unwrap_err().to_string().contains("state_ttl"));
}

#[test]
fn joined_names_are_the_same_in_any_order_and_case() {
    for written in ["state_ttl.o+l", "state_ttl.l+o", "STATE_TTL.L + O"] {
        let said = said(&[], &[(written, "2 days")], THREE);
        for asked in ["o+l", "l+o", "O+L"] {
            assert_eq!(said.of(Some(asked)).ttl, Some(2 * DAY), "{written} for {asked}");
        }
        assert_eq!((said.of(Some("o")).ttl, said.of(Some("o+l+c")).ttl), (None, None), "{written}");
        assert_eq!(said.check_all_used(), Ok(()), "{written}");
    }
}

#[test]
fn one_input_is_given_an_option_once_whatever_its_spelling() {
    let twice = refusal(&[], &[("state_ttl.o+l", "1 s"), ("state_ttl.L+o", "2 s")], THREE);
    assert!(twice.contains("option 'state_ttl.L+o' is given twice"), "{twice}");
    let option = |name: &str, value: &str| SqlOption { name: name.into(), value: value.into() };
    let had = [option("state_ttl.o+l", "1 s"), option("state_ttl", "2 s"), option("on_expiry", "keep")];
    let after = altered(&had, &[option("state_ttl.l+o", "3 s"), option("on_expiry.o", "retract")]);
    let expected =
        [option("state_ttl", "2 s"), option("on_expiry", "keep"), option("state_ttl.l+o", "3 s"), option("on_expiry.o", "retract")];
    assert_eq!(after, expected);
}

#[test]
fn a_name_that_no_operator_asked_for_is_an_error_with_those_that_were() {
    let unknown = |options: Pairs, sql: &str, asked: &[&str]| {
        let said = said(&[], options, sql);
        asked.iter().for_each(|name| drop(said.of(Some(name))));
        said.check_all_used().expect_err("a name that nothing has").to_string()
    };
    let two = "SELECT o.id FROM o JOIN l ON o.id = l.id";
    let message = unknown(&[("state_ttl.x", "1 s")], two, &["o", "l", "o"]);
    assert_eq!(message, "state_ttl.x: nothing that this query remembers is called 'x'; there is o, l");
    let hint = two.replace("SELECT", "SELECT /*+ STATE_TTL('o' = '1d', 'x' = '3d') */");
    let message = unknown(&[], &hint, &["o", "l"]);
    assert_eq!(message, "hint STATE_TTL('x'): nothing that this query remembers is called 'x'; there is o, l");
    // the nearest is offered
    let message = unknown(&[("on_expiry.ordesr", "keep")], two, &["orders", "l"]);
    assert!(message.starts_with("on_expiry.ordesr: ") && message.ends_with("; did you mean 'orders'?"), "{message}");
    // a table with an alias is only known by that
    let message = unknown(&[("state_ttl.orders", "1 s")], THREE, &["o", "l", "o+l", "c"]);
    assert!(message.contains("'orders'; there is o, l, o+l, c; FROM calls it 'o'"), "{message}");
    let message = unknown(&[("state_ttl.o", "1 s")], "SELECT id FROM o", &[]);
    assert!(message.contains("it remembers nothing that has a name"), "{message}");
}

#[test]
fn a_name_is_ambiguous_where_it_stands_twice_anywhere_in_the_query() {
    for sql in [
        "SELECT * FROM o JOIN l ON o.k = l.k WHERE EXISTS (SELECT 1 FROM o WHERE o.k = l.k)",
        "SELECT k FROM o JOIN l ON o.k = l.k UNION ALL SELECT k FROM o",
        "WITH w AS (SELECT k FROM o) SELECT * FROM w JOIN o ON w.k = o.k JOIN l ON o.k = l.k",
        "SELECT (SELECT MAX(k) FROM O) FROM (SELECT * FROM o) AS l",
        "SELECT * FROM (SELECT * FROM t AS o) AS l JOIN u AS `O` ON l.k = `O`.k",
    ] {
        for named in ["state_ttl.o", "state_ttl.l+o", "on_expiry.O"] {
            let value = if named.starts_with("on") { "keep" } else { "1 s" };
            let message = refusal(&[], &[(named, value)], sql);
            assert!(message.starts_with(&format!("{named}: 'o' is ambiguous, it stands 2 times")), "{sql}: {message}");
            assert!(message.contains("(there is ") && message.contains("alias"), "{sql}: {message}");
        }
        assert!(refusal(&[], &[], &hinted(sql)).starts_with("hint STATE_TTL('o'): 'o' is ambiguous"), "{sql}");
        // nobody is confused by a name that nobody says
        assert!(view(&[], &[("state_ttl.l", "1 s")], sql).is_ok(), "{sql}");
    }
    // aliases tell them apart, and hide the table's name
    let apart = "SELECT * FROM t AS o JOIN t AS l ON o.k = l.k";
    assert_eq!(said(&[], &[("state_ttl.o", "1 s")], apart).of(Some("o")).ttl, Some(SECOND));
}

#[test]
fn hints_that_say_different_things_of_one_input_are_refused() {
    let sql = "SELECT /*+ STATE_TTL('o' = '1h') */ * FROM o JOIN /*+ OPTIONS('state.ttl.left' = '2h') */ l ON o.k = l.k";
    let message = refusal(&[], &[], sql);
    assert_eq!(message, "hints STATE_TTL('o') and OPTIONS('state.ttl.left') say different things of 'o': keep one of them");
    assert_eq!(said(&[], &[], &sql.replace("2h", "60 min")).of(Some("o")).ttl, Some(HOUR));
}

/// The inputs of which the hints of a query say something, with their ttls.
fn hinted_inputs(sql: &str) -> Vec<(String, Option<u64>)> {
    said(&[], &[], sql).inputs.into_iter().map(|input| (input.name, input.memory.ttl.map(|ttl| ttl / SECOND))).collect()
}

#[test]
fn a_join_hint_is_about_the_names_on_the_two_sides_of_its_join() {
    let sides = "/*+ OPTIONS('state.ttl.left' = '1s', 'state.ttl.right' = '2s') */";
    let cases = [
        ("SELECT * FROM a JOIN HINT b ON x", "a", "b"),
        ("SELECT * FROM A LEFT JOIN HINT `B` AS \"R\" ON x", "a", "R"),
        ("SELECT * FROM a JOIN b ON x JOIN HINT c AS d ON y", "a+b", "d"),
        ("SELECT * FROM a, b CROSS JOIN HINT c, d", "b", "c"),
        ("SELECT * FROM z, a JOIN b ON x LEFT JOIN c ON x JOIN HINT d ON y", "a+b+c", "d"),
        // what is in FROM's parentheses is written after the keyword before it
        ("SELECT * FROM a JOIN HINT (SELECT * FROM b JOIN c ON x JOIN d ON y) AS s ON z", "a", "s"),
        ("SELECT * FROM a JOIN (SELECT * FROM b JOIN c ON x JOIN HINT d ON y) AS s ON z JOIN e ON z", "b+c", "d"),
        ("SELECT * FROM a JOIN (SELECT * FROM b JOIN c ON x JOIN d ON y) AS s ON z JOIN HINT e ON z", "a+s", "e"),
        ("SELECT * FROM (SELECT * FROM b JOIN c ON x) AS s JOIN HINT a ON z", "s", "a"),
        ("SELECT * FROM a JOIN HINT (b JOIN c ON x) ON y", "a", "b+c"),
        ("SELECT * FROM a JOIN (b JOIN HINT c ON x) ON y JOIN d ON z", "b", "c"),
        ("SELECT * FROM (a JOIN b ON x) JOIN HINT c ON y", "a+b", "c"),
        ("SELECT * FROM (a JOIN b ON x) AS s JOIN HINT c ON y", "s", "c"),
        // before FROM and after it, CTEs and set operations
        ("SELECT (SELECT MAX(k) FROM p JOIN q ON x) AS m FROM a JOIN HINT b ON x", "a", "b"),
        ("SELECT (SELECT MAX(k) FROM p JOIN HINT q ON x) AS m FROM a JOIN b ON x", "p", "q"),
        ("SELECT * FROM a JOIN b ON EXISTS (SELECT 1 FROM p JOIN HINT q ON x) JOIN c ON y", "p", "q"),
        ("SELECT * FROM a JOIN b ON EXISTS (SELECT 1 FROM p JOIN q ON x) JOIN HINT c ON y", "a+b", "c"),
        ("SELECT * FROM a JOIN b ON x WHERE k IN (SELECT k FROM p JOIN q ON x JOIN HINT r ON x)", "p+q", "r"),
        ("WITH w AS (SELECT * FROM p JOIN HINT q ON x) SELECT * FROM w JOIN a ON x", "p", "q"),
        ("WITH w AS (SELECT * FROM p JOIN q ON x) SELECT * FROM w JOIN HINT a ON x", "w", "a"),
        ("SELECT * FROM a JOIN b ON x UNION ALL SELECT * FROM c JOIN HINT d ON x EXCEPT SELECT * FROM e JOIN f ON x", "c", "d"),
        ("SELECT * FROM a JOIN b ON x UNION ALL (SELECT * FROM c JOIN d ON x) EXCEPT SELECT * FROM e JOIN HINT f ON x", "e", "f"),
    ];
    for (sql, left, right) in cases {
        assert_eq!(hinted_inputs(&sql.replace("HINT", sides)), [(left.into(), Some(1)), (right.into(), Some(2))], "{sql}");
    }
}

#[test]
fn an_alias_with_a_plus_in_it_is_an_input_unless_a_join_is_called_the_same() {
    let options: Pairs = &[("state_ttl.a+b", "1 h")];
    let alone = said(&[], options, "SELECT * FROM x AS `a+b` JOIN c ON y");
    assert_eq!((alone.of(Some("a+b")).ttl, alone.of(Some("c")).ttl), (Some(HOUR), None));
    let join = said(&[], options, "SELECT * FROM a JOIN b ON y JOIN c ON z");
    assert_eq!(join.of(Some("a+b")).ttl, Some(HOUR));
    let both = "SELECT * FROM a JOIN b ON y JOIN x AS `a+b` ON z";
    let twice = "SELECT * FROM x AS `a+b` JOIN x AS `b+a` ON z";
    for sql in [both, twice] {
        let message = refusal(&[], options, sql);
        assert!(message.starts_with("state_ttl.a+b: 'a+b' is ambiguous"), "{message}");
    }
}

#[test]
fn a_side_that_is_left_out_of_a_join_hint_takes_what_else_is_said() {
    let sql = "SELECT * FROM a JOIN /*+ OPTIONS('state.ttl.right' = '120S') */ b ON x JOIN /*+ OPTIONS('STATE.TTL.LEFT' = '60S') */ c ON y";
    let said = said(&[("state_ttl", "10 s")], &[("state_ttl.c", "5 s")], sql);
    let ttls = ["a", "b", "a+b", "c"].map(|name| said.of(Some(name)).ttl.map(|ttl| ttl / SECOND));
    assert_eq!(ttls, [Some(10), Some(120), Some(60), Some(5)]);
    assert_eq!(said.of(Some("b")).origin.to_string(), "hint OPTIONS('state.ttl.right')");
    assert_eq!(said.check_all_used(), Ok(()));
}

#[test]
fn a_join_hint_that_cannot_be_honoured_is_an_error() {
    let hint = |option: &str| format!("SELECT * FROM a JOIN /*+ OPTIONS('{option}' = '1s') */ b ON x");
    let message = refusal(&[], &[], &hint("state.ttl.middle"));
    assert!(message.contains("'state.ttl.middle'") && message.contains("(there is state.ttl.right, state.ttl.left)"), "{message}");
    for sql in [
        "SELECT * FROM a JOIN /*+ OPTIONS('state.ttl.right' = '1s') */ (SELECT * FROM b) ON x",
        "SELECT * FROM (SELECT * FROM b) JOIN c ON x JOIN /*+ OPTIONS('state.ttl.left' = '1s') */ a ON x",
        "SELECT * FROM a JOIN /*+ OPTIONS('state.ttl.right' = '1s') */ (b JOIN (SELECT 1) ON x) ON x",
    ] {
        let message = refusal(&[], &[], sql);
        assert!(message.contains("a side without a name") && message.contains("alias"), "{sql}: {message}");
    }
    // the other side has a name
    assert!(view(&[], &[], "SELECT * FROM a JOIN /*+ OPTIONS('state.ttl.left' = '1s') */ (SELECT * FROM b) ON x").is_ok());
}

#[test]
fn a_query_says_that_it_is_bounded_if_any_figure_in_it_is_finite() {
    assert!(!Retentions::none().is_bounded());
    assert_eq!(Retentions::none().of(Some("o")), Memory::default());
    assert!(!said(&[], &[("state_ttl", "never"), ("on_expiry", "keep"), ("state_ttl.o", "never")], THREE).is_bounded());
    assert!(said(&[("state_ttl", "1 s")], &[], THREE).is_bounded());
    assert!(!said(&[("state_ttl", "1 s")], &[("state_ttl", "never")], THREE).is_bounded());
    assert!(said(&[], &[("state_ttl.o", "1 s")], THREE).is_bounded());
    assert!(said(&[], &[], &hinted(THREE)).is_bounded());
}
