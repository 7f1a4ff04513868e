//! The queries by hand, in differential dataflow over typed tuples.

use differential_dataflow::input::Input;
use differential_dataflow::operators::CountTotal;
use timely::dataflow::operators::Probe;
use timely::dataflow::operators::probe::Handle;

use super::Size;
use super::through_sql::mix;

/// `SELECT k, COUNT(*) FROM t GROUP BY k`.
pub fn count(size: Size) -> u64 {
    timely::execute_directly(move |worker| {
        let probe = Handle::new();
        let mut input = worker.dataflow::<u64, _, _>(|scope| {
            let (input, rows) = scope.new_collection::<u64, i64>();
            rows.count_total().inner.probe_with(&probe);
            input
        });
        for tick in 0..size.updates / size.tick {
            for row in tick * size.tick..(tick + 1) * size.tick {
                input.update(mix(row as u64) % size.keys, 1);
            }
            input.advance_to(tick as u64 + 1);
            input.flush();
            worker.step_while(|| probe.less_than(input.time()));
        }
        size.updates as u64
    })
}

/// `SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k`, half of the updates to each side.
pub fn join(size: Size) -> u64 {
    timely::execute_directly(move |worker| {
        let probe = Handle::new();
        let (mut left, mut right) = worker.dataflow::<u64, _, _>(|scope| {
            let (left, left_rows) = scope.new_collection::<(u64, u64), i64>();
            let (right, right_rows) = scope.new_collection::<(u64, u64), i64>();
            left_rows.join_map(right_rows, |k, v, w| (*k, *v, *w)).inner.probe_with(&probe);
            (left, right)
        });
        for tick in 0..size.updates / size.tick {
            for row in tick * size.tick..(tick + 1) * size.tick {
                let (key, value) = (mix(row as u64) % size.keys, row as u64);
                if row % 2 == 0 { left.update((key, value), 1) } else { right.update((key, value), 1) }
            }
            left.advance_to(tick as u64 + 1);
            right.advance_to(tick as u64 + 1);
            left.flush();
            right.flush();
            worker.step_while(|| probe.less_than(left.time()));
        }
        size.updates as u64
    })
}
