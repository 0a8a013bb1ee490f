//! Notices, which bypass the mailbox.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use freeboard_actor::{Actor, Context, Handler, System};

use crate::common::{LIMIT, eventually};

/// Notifies itself repeatedly until `is_enough`.
struct Restless {
    is_enough: Arc<AtomicBool>,
    went_on: Arc<AtomicUsize>,
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

struct Quiet;

impl Actor for Quiet {}

impl Handler<u32> for Quiet {
    type Reply = u32;

    fn handle(&mut self, number: u32, _: &mut Context<Self>) -> u32 {
        number
    }
}

#[test]
fn who_notifies_itself_leaves_others_their_turn() {
    // A second thread would take over the queue behind a run that does not end.
    let system = System::builder().workers(1).threads_max(1).build().unwrap();
    let is_enough = Arc::new(AtomicBool::new(false));
    let went_on = Arc::new(AtomicUsize::new(0));
    let _restless = system.spawn(Restless {
        is_enough: is_enough.clone(),
        went_on: went_on.clone(),
    });
    let quiet = system.spawn(Quiet);
    // Far more than fit in one run.
    eventually("it goes on", || went_on.load(Ordering::SeqCst) >= 10_000);
    for number in 0..100 {
        assert_eq!(quiet.ask(number).timeout(LIMIT).wait().unwrap(), number);
    }
    is_enough.store(true, Ordering::SeqCst);
    assert!(system.shutdown(LIMIT).is_clean());
}
