use std::cell::Cell;

use timely::dataflow::operators::Probe;
use timely::dataflow::operators::core::Input as _;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, TimeUnit};

use super::*;
use crate::dataflow::arrange::flatten;
use crate::dataflow::join::map_containers;
use crate::plan::{Closes, Column, Refresh, RowType};
use crate::row::{Updates, UpdatesBuilder, instant_bytes};

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

/// Versions that are due five milliseconds after their times.
fn versions() -> (Retention, RowType) {
    let sort = SortOptions { descending: true, nulls_first: true };
    let time = Column { sort, ..Column::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false) };
    let closes = Some(Closes { column: 0, after: 5 });
    let retention = Retention { scope: Scope::Version, ttl: None, ttl_max: None, refresh: Refresh::Create, closes, history: 0 };
    (retention, RowType::new([time]))
}

/// The version of an instant.
fn version(at: i64) -> Vec<u8> {
    let mut bytes = instant_bytes(at).to_vec();
    bytes[1..].iter_mut().for_each(|byte| *byte = !*byte);
    bytes
}

/// What expires, with its instant, of versions that come (or go) at instants, five milliseconds after the next one's time; the
/// frontier moves to these instants, one after the other. And how many versions are left.
fn expired(changes: &[(u64, i64, Diff)], frontiers: &[u64]) -> (Vec<(i64, i64)>, u64) {
    let (changes, frontiers) = (changes.to_vec(), frontiers.to_vec());
    timely::execute_directly(move |worker| {
        let (retention, row) = versions();
        let deadlines = Deadlines::new(retention, &row);
        let gone: Rc<RefCell<Vec<(i64, i64)>>> = Rc::default();
        let into = Rc::clone(&gone);
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (arranged, keeper) = arrange_retained(stream, deadlines, Writes::Updates, "Arrange", &mut States::default());
            let rows = map_containers(flatten(arranged, "Flatten", 0), move |updates| {
                for index in (0..updates.len()).filter(|index| time::step(updates.time(*index)) == 0) {
                    let row = (0..100).find(|at| version(*at)[..] == *updates.value(index)).expect("a version that came");
                    into.borrow_mut().push((time::ms(updates.time(index)), row));
                }
                updates
            });
            (input, rows.probe().0, keeper)
        });
        let mut from = 0;
        for frontier in frontiers {
            let mut updates = Updates::default();
            for (at, row, diff) in changes.iter().filter(|(at, ..)| (from..frontier).contains(at)) {
                updates.push(&[], &version(*row), time::at(*at as i64, 1), *diff);
            }
            input.send_batch(&mut updates);
            input.advance_to(time::at(frontier as i64, 1));
            worker.step_while(|| probe.less_than(&time::at(frontier as i64, 1)));
            from = frontier;
        }
        let left = keeper.borrow().account().live_scopes;
        (gone.take(), left)
    })
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
            let row = RowType::new([Column::new("k", DataType::UInt64, false), row.columns[0].clone()]);
            let retention = Retention { closes: Some(Closes { column: 1, after: 5 }), ..retention };
            let (arranged, keeper) =
                arrange_retained(stream, Deadlines::new(retention, &row), Writes::Updates, "Arrange", &mut States::default());
            (input, arranged.stream.probe().0, keeper)
        });
        let second = if taken_away { (12, 10, -1) } else { (12, 11, 1) };
        for (now, at, diff) in [(11, 10, 1), second] {
            let mut updates = Updates::default();
            let key = |key: u64| [&[1][..], &key.to_be_bytes()].concat();
            (0..keys).for_each(|number| updates.push(&key(number), &version(at), time::at(now, 1), diff));
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
