use std::cell::Cell;
use std::collections::BTreeMap;

use timely::dataflow::operators::Probe;
use timely::dataflow::operators::core::Input as _;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, TimeUnit};

use super::*;
use crate::dataflow::arrange::flatten;
use crate::dataflow::join::map_containers;
use crate::plan::{Closes, Column, Refresh, RowType, Scope};
use crate::row::{Diff, Updates, UpdatesBuilder, instant_bytes};

fn ttl(ttl: u64) -> Retention {
    Retention { scope: Scope::Group, ttl: Some(ttl), ttl_max: None, refresh: Refresh::Write, closes: None, history: 0 }
}

#[test]
fn a_ttl_that_changes_in_the_midst_of_a_storm_is_that_of_what_has_not_expired() {
    timely::execute_directly(|worker| {
        let scopes = 2 * Round::<Updates>::FUEL as u64 + 7;
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (arranged, keeper) =
                arrange_retained(stream, Deadlines::new(ttl(10), &RowType::new([])), Writes::Updates, "Arrange", &mut States::default());
            (input, arranged.stream.probe().0, keeper)
        });
        let mut updates = Updates::default();
        (0..scopes).for_each(|key| updates.push(&key.to_be_bytes(), b"value", time::at(1, 1), 1));
        input.send_batch(&mut updates);
        input.advance_to(time::at(2, 1));
        worker.step_while(|| probe.less_than(&time::at(2, 1)));
        assert_eq!(keeper.borrow().account().live_scopes, scopes);

        // All are due at 11. Once some have expired, the ttl becomes longer.
        input.advance_to(time::at(12, 1));
        while keeper.borrow().account().expired == 0 {
            worker.step();
        }
        let expired = keeper.borrow().account().expired;
        assert!(expired < scopes);
        keeper.borrow_mut().retune(ttl(100), false);
        worker.step_while(|| probe.less_than(&time::at(12, 1)));
        let account = keeper.borrow().account();
        assert_eq!((account.expired, account.live_scopes, account.next_deadline), (expired, scopes - expired, Some(101)));

        input.advance_to(time::at(102, 1));
        worker.step_while(|| probe.less_than(&time::at(102, 1)));
        let account = keeper.borrow().account();
        assert_eq!((account.expired, account.live_scopes), (scopes, 0));
    });
}

#[test]
fn what_was_written_without_a_new_deadline_goes_too_when_the_ttl_becomes_shorter() {
    timely::execute_directly(|worker| {
        let left = Rc::new(Cell::new(0));
        let of_rows = Rc::clone(&left);
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let retention = Retention { ttl_max: Some(100), ..ttl(10) };
            let (arranged, keeper) =
                arrange_retained(stream, Deadlines::new(retention, &RowType::new([])), Writes::Updates, "Arrange", &mut States::default());
            let rows = map_containers(flatten(arranged, "Rows", 0), move |rows| {
                of_rows.set(of_rows.get() + (0..rows.len()).map(|row| rows.diff(row)).sum::<Diff>());
                rows
            });
            (input, rows.probe().0, keeper)
        });
        // The first row lives until 101, and so does what comes at 50 and is gone at 51.
        for (value, instant, diff) in [(b"1", 1, 1), (b"2", 50, 1), (b"1", 51, -1)] {
            let mut updates = Updates::default();
            updates.push(b"key", value, time::at(instant, 1), diff);
            input.send_batch(&mut updates);
            input.advance_to(time::at(instant, 2));
            worker.step_while(|| probe.less_than(&time::at(instant, 2)));
        }
        // By the new figure alone it was due at 11; but it lives for 10 from its last write on.
        keeper.borrow_mut().retune(ttl(10), false);
        for (instant, expected) in [(60, (0, 1, 1)), (61, (1, 0, 0))] {
            input.advance_to(time::at(instant, 1));
            worker.step_while(|| probe.less_than(&time::at(instant, 1)));
            let account = keeper.borrow().account();
            assert_eq!((account.expired, account.live_scopes, left.get()), expected);
        }
    });
}

/// Versions, of keys that are numbers, that are due five milliseconds after their times.
fn versions() -> (Retention, RowType) {
    let sort = SortOptions { descending: true, nulls_first: true };
    let time = Column { sort, ..Column::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false) };
    let closes = Some(Closes { column: 1, after: 5 });
    let retention = Retention { scope: Scope::Version, ttl: None, ttl_max: None, refresh: Refresh::Create, closes, history: 0 };
    (retention, RowType::new([Column::new("k", DataType::UInt64, false), time]))
}

fn encoded_key(key: u64) -> Vec<u8> {
    [&[1][..], &key.to_be_bytes()].concat()
}

/// The version of an instant.
fn version(at: i64) -> Vec<u8> {
    let mut bytes = instant_bytes(at).to_vec();
    bytes[1..].iter_mut().for_each(|byte| *byte = !*byte);
    bytes
}

/// A version of a key that comes (or goes) at an instant.
type Change = (u64, u8, i64, Diff);

/// What comes of it: when, under which key, of which version, and how many.
type Said = (Time, u8, i64, Diff);

/// What an arrangement of versions gives up to each of these frontiers, and how many scopes it has then.
fn given(changes: &[Change], frontiers: &[u64]) -> Vec<(Vec<Said>, u64)> {
    let (changes, frontiers) = (changes.to_vec(), frontiers.to_vec());
    timely::execute_directly(move |worker| {
        let (retention, row) = versions();
        let rows: Rc<RefCell<Vec<Said>>> = Rc::default();
        let into = Rc::clone(&rows);
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (arranged, keeper) =
                arrange_retained(stream, Deadlines::new(retention, &row), Writes::Updates, "Arrange", &mut States::default());
            let rows = map_containers(flatten(arranged, "Flatten", 0), move |updates| {
                for index in 0..updates.len() {
                    let row = (0..100).find(|at| version(*at) == *updates.value(index)).expect("a version that came");
                    into.borrow_mut().push((updates.time(index), updates.key(index)[8], row, updates.diff(index)));
                }
                updates
            });
            (input, rows.probe().0, keeper)
        });
        let mut from = 0;
        let advance = |frontier: u64| {
            let mut updates = Updates::default();
            for (at, key, row, diff) in changes.iter().filter(|(at, ..)| (from..frontier).contains(at)) {
                updates.push(&encoded_key(u64::from(*key)), &version(*row), time::at(*at as i64, 1), *diff);
            }
            input.send_batch(&mut updates);
            input.advance_to(time::at(frontier as i64, 1));
            worker.step_while(|| probe.less_than(&time::at(frontier as i64, 1)));
            from = frontier;
            (rows.take(), keeper.borrow().account().live_scopes)
        };
        frontiers.into_iter().map(advance).collect()
    })
}

/// What expires, with its instant, of versions of one key that come (or go) at instants; and how many are left.
fn expired(changes: &[(u64, i64, Diff)], frontiers: &[u64]) -> (Vec<(i64, i64)>, u64) {
    let changes: Vec<Change> = changes.iter().map(|(at, row, diff)| (*at, 7, *row, *diff)).collect();
    let given = given(&changes, frontiers);
    let left = given.last().map_or(0, |(_, left)| *left);
    let expiries = given.into_iter().flat_map(|(rows, _)| rows).filter(|(time, ..)| time::step(*time) == 0);
    (expiries.map(|(time, _, row, _)| (time::ms(time), row)).collect(), left)
}

#[test]
fn a_version_goes_when_the_next_one_is_due_and_the_last_one_stays() {
    let three = [(10, 10, 1), (20, 20, 1), (30, 30, 1)];
    assert_eq!(expired(&three, &[15, 24, 26, 33, 36, 90, 99]), (vec![(25, 10), (35, 20)], 1));
    // Two go between the same frontiers, and one that comes out of order goes when the one that came before it is due.
    assert_eq!(expired(&three, &[21, 31, 90, 99]), (vec![(25, 10), (35, 20)], 1));
    assert_eq!(expired(&[(20, 20, 1), (22, 10, 1)], &[21, 23, 90]), (vec![(25, 10)], 1));
    // What comes and is due between the same frontiers takes the others' place at the first instant after that.
    assert_eq!(expired(&three, &[90, 91]), (vec![(91, 20), (91, 10)], 1));
}

#[test]
fn a_version_that_has_been_taken_away_takes_nothings_place() {
    assert_eq!(expired(&[(10, 10, 1), (20, 20, 1), (22, 20, -1), (30, 30, 1)], &[21, 23, 28, 31, 90, 99]), (vec![(35, 10)], 1));
    assert_eq!(expired(&[(10, 10, 1), (20, 20, 1), (22, 20, -1)], &[21, 23, 90, 99]), (vec![], 1));
}

#[test]
fn whether_a_version_is_taken_away_before_its_deadline_does_not_depend_on_batches() {
    // The second version goes at 22, and is due at 25; the third is due at 35.
    let changes = [(10, 10, 1), (20, 20, 1), (22, 20, -1), (30, 30, 1)];
    for frontiers in [&[21, 23, 31, 90, 99][..], &[21, 31, 90, 99], &[21, 29, 31, 90, 99]] {
        assert_eq!(expired(&changes, frontiers), (vec![(35, 10)], 1), "{frontiers:?}");
        assert_eq!(expired(&changes[..3], frontiers), (vec![], 1), "{frontiers:?}");
    }
    // Taken away between the frontiers of the third one's deadline: the first goes when that is due, not the second.
    let changes = [(10, 10, 1), (20, 20, 1), (21, 30, 1), (22, 20, -1)];
    assert_eq!(expired(&changes, &[22, 90, 99]), (vec![(35, 10)], 1));
    // After its deadline it has taken the first one's place.
    let changes = [(10, 10, 1), (20, 20, 1), (27, 20, -1)];
    for frontiers in [&[21, 26, 28, 90, 99][..], &[21, 90, 99], &[21, 26, 90, 99]] {
        assert_eq!(expired(&changes, frontiers), (vec![(25, 10)], 0), "{frontiers:?}");
    }
}

#[test]
fn a_version_that_is_taken_away_after_its_deadline_is_not_kept_in_mind() {
    assert_eq!(expired(&[(10, 10, 1), (20, 10, -1)], &[11, 16, 21, 90]), (vec![], 0));
    // What comes again is, and goes in its turn.
    let again = [(10, 10, 1), (20, 10, -1), (21, 10, 1), (30, 30, 1)];
    assert_eq!(expired(&again, &[11, 16, 21, 22, 31, 90]), (vec![(35, 10)], 1));
    assert_eq!(expired(&again, &[11, 16, 31, 90]), (vec![(35, 10)], 1));
}

/// In how many pieces the scopes of so many keys go that are due at one instant, and the most that go at once: a version a
/// key that has been taken away, or one in whose place another has come.
fn pieces(keys: u64, taken_away: bool) -> (usize, u64) {
    timely::execute_directly(move |worker| {
        let (retention, row) = versions();
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (arranged, keeper) =
                arrange_retained(stream, Deadlines::new(retention, &row), Writes::Updates, "Arrange", &mut States::default());
            (input, arranged.stream.probe().0, keeper)
        });
        let second = if taken_away { (12, 10, -1) } else { (12, 11, 1) };
        for (now, at, diff) in [(11, 10, 1), second] {
            let mut updates = Updates::default();
            (0..keys).for_each(|key| updates.push(&encoded_key(key), &version(at), time::at(now, 1), diff));
            input.send_batch(&mut updates);
            input.advance_to(time::at(now + 1, 1));
            worker.step_while(|| probe.less_than(&time::at(now + 1, 1)));
        }
        let (mut pieces, mut most) = (0, 0);
        input.advance_to(time::at(20, 1));
        while probe.less_than(&time::at(20, 1)) {
            let before = keeper.borrow().account().live_scopes;
            worker.step();
            let went = before - keeper.borrow().account().live_scopes;
            (pieces, most) = (pieces + usize::from(went > 0), most.max(went));
        }
        let left = if taken_away { 0 } else { keys };
        assert_eq!(keeper.borrow().account().live_scopes, left);
        (pieces, most)
    })
}

#[test]
fn a_storm_of_superseded_versions_is_worked_off_in_turns() {
    let fuel = Round::<Updates>::FUEL as u64;
    assert_eq!(pieces(2 * fuel + 7, true), (3, fuel));
    assert_eq!(pieces(2 * fuel + 7, false), (3, fuel));
}

/// Versions that come a few instants after their times, or at them, and go again before they are due.
fn in_time(rng: &mut StdRng) -> Vec<Change> {
    let (mut there, mut changes): (Vec<(u8, i64)>, Vec<Change>) = (vec![], vec![]);
    for at in 5..80 {
        for _ in 0..rng.random_range(0..3) {
            let due_later: Vec<usize> = (0..there.len()).filter(|index| there[*index].1 + 5 > at as i64).collect();
            if !due_later.is_empty() && rng.random_bool(0.4) {
                let (key, row) = there.swap_remove(due_later[rng.random_range(0..due_later.len())]);
                changes.push((at, key, row, -1));
            } else {
                let version = (rng.random_range(0..3), at as i64 - rng.random_range(0..5));
                there.push(version);
                changes.push((at, version.0, version.1, 1));
            }
        }
    }
    changes
}

#[test]
fn what_can_still_be_asked_for_is_kept_and_nothing_else_in_the_end_however_versions_come_and_go_in_time() {
    for seed in 0..45 {
        let mut rng = StdRng::seed_from_u64(seed);
        let changes = in_time(&mut rng);
        let longest = [2, 10, 60][seed as usize % 3];
        let mut frontiers = vec![6];
        while frontiers[frontiers.len() - 1] < 80 {
            frontiers.push(90.min(frontiers[frontiers.len() - 1] + rng.random_range(1..longest)));
        }
        frontiers.extend([98, 99]);
        let mut kept: BTreeMap<(u8, i64), Diff> = BTreeMap::new();
        let given = given(&changes, &frontiers);
        for (frontier, (rows, scopes)) in frontiers.iter().zip(&given) {
            rows.iter().for_each(|(_, key, row, diff)| *kept.entry((*key, *row)).or_default() += diff);
            kept.retain(|_, count| *count != 0);
            let mut all: BTreeMap<(u8, i64), Diff> = BTreeMap::new();
            changes.iter().filter(|(at, ..)| at < frontier).for_each(|(_, key, row, diff)| *all.entry((*key, *row)).or_default() += diff);
            all.retain(|_, count| *count != 0);
            for key in 0..3 {
                for asked in *frontier as i64 - 5..100 {
                    let valid =
                        |rows: &BTreeMap<(u8, i64), Diff>| rows.range((key, 0)..=(key, asked)).next_back().map(|(row, n)| (*row, *n));
                    assert_eq!(valid(&kept), valid(&all), "seed {seed}, key {key} as of {asked}, at {frontier}");
                }
            }
            if *frontier == 99 {
                assert!((0..3).all(|key| kept.range((key, 0)..(key + 1, 0)).count() <= 1), "seed {seed}: {kept:?}");
                assert_eq!(*scopes, kept.len() as u64, "seed {seed}");
            }
        }
    }
}
