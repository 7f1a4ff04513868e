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

/// What expires, with its instant, of versions that come (or go) at instants, five milliseconds after the next one's time; the
/// frontier moves to these instants, one after the other. And how many versions are left.
fn expired(changes: &[(u64, i64, Diff)], frontiers: &[u64]) -> (Vec<(i64, i64)>, u64) {
    let (changes, frontiers) = (changes.to_vec(), frontiers.to_vec());
    timely::execute_directly(move |worker| {
        let sort = SortOptions { descending: true, nulls_first: true };
        let time = Column { sort, ..Column::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false) };
        let closes = Some(Closes { column: 0, after: 5 });
        let retention = Retention { scope: Scope::Version, ttl: None, ttl_max: None, refresh: Refresh::Create, closes, history: 0 };
        let deadlines = Deadlines::new(retention, &RowType::new([time]));
        let encoded = |at: i64| {
            let mut bytes = instant_bytes(at);
            bytes[1..].iter_mut().for_each(|byte| *byte = !*byte);
            bytes
        };
        let gone: Rc<RefCell<Vec<(i64, i64)>>> = Rc::default();
        let into = Rc::clone(&gone);
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (arranged, keeper) = arrange_retained(stream, deadlines, Writes::Updates, "Arrange", &mut States::default());
            let rows = map_containers(flatten(arranged, "Flatten", 0), move |updates| {
                for index in (0..updates.len()).filter(|index| time::step(updates.time(*index)) == 0) {
                    let row = (0..100).find(|at| encoded(*at)[..] == *updates.value(index)).expect("a version that came");
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
                updates.push(&[], &encoded(*row), time::at(*at as i64, 1), *diff);
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
