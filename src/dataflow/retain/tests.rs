use timely::dataflow::operators::Probe;
use timely::dataflow::operators::core::Input as _;

use super::*;
use crate::plan::{Refresh, RowType};
use crate::row::{Updates, UpdatesBuilder};

fn ttl(ttl: u64) -> Retention {
    Retention { scope: Scope::Group, ttl: Some(ttl), ttl_max: None, refresh: Refresh::Write, closes: None }
}

#[test]
fn a_ttl_that_changes_in_the_midst_of_a_storm_is_that_of_what_has_not_expired() {
    timely::execute_directly(|worker| {
        let scopes = 2 * Round::<Updates>::FUEL as u64 + 7;
        let (mut input, probe, keeper) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (arranged, keeper) = arrange_retained(stream, Deadlines::new(ttl(10), &RowType::new([])), Writes::Updates, "Arrange");
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
        keeper.borrow_mut().retune(ttl(100));
        worker.step_while(|| probe.less_than(&time::at(12, 1)));
        let account = keeper.borrow().account();
        assert_eq!((account.expired, account.live_scopes, account.next_deadline), (expired, scopes - expired, Some(101)));

        input.advance_to(time::at(102, 1));
        worker.step_while(|| probe.less_than(&time::at(102, 1)));
        let account = keeper.borrow().account();
        assert_eq!((account.expired, account.live_scopes), (scopes, 0));
    });
}
