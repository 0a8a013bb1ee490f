//! Notices, which bypass the mailbox.

use crate::common::*;

/// Notifies itself repeatedly until `is_enough`.
struct Restless {
    is_enough: Arc<AtomicBool>,
    went_on: Arc<AtomicU64>,
}

impl Restless {
    fn go_on(&mut self, cx: &mut Context<Self>) {
        self.went_on.fetch_add(1, Ordering::SeqCst);
        if !self.is_enough.load(Ordering::SeqCst) {
            cx.waker_fn(Self::go_on)();
        }
    }
}

impl Actor for Restless {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.go_on(cx);
    }
}

#[test]
fn an_actor_that_notifies_itself_leaves_others_their_turn() {
    // A second thread would take over the queue behind a run that does not end.
    let system = system_within(1, 1);
    let (is_enough, went_on) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    system.spawn(Restless {
        is_enough: is_enough.clone(),
        went_on: went_on.clone(),
    });
    let (quiet, _) = probe(&system);
    // Far more than fit in one run.
    eventually("it goes on", || went_on.load(Ordering::SeqCst) >= 10_000);
    for number in 0..100 {
        assert_eq!(quiet.ask(number).timeout(LIMIT).wait(), Ok(number));
    }
    is_enough.store(true, Ordering::SeqCst);
}
