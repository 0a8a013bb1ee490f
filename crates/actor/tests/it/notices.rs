//! Notices past the mailbox.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use freeboard_actor::{Actor, Context, Handler, System};

/// Far beyond what any of it takes.
const LONG: Duration = Duration::from_secs(60);

/// Notifies itself, over and over, until it is enough.
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
    // Another thread would take over what waits behind a run that does not end.
    let system = System::builder().workers(1).threads_max(1).build().unwrap();
    let is_enough = Arc::new(AtomicBool::new(false));
    let went_on = Arc::new(AtomicUsize::new(0));
    let _restless = system.spawn(Restless {
        is_enough: is_enough.clone(),
        went_on: went_on.clone(),
    });
    let quiet = system.spawn(Quiet);
    // Far more than fit in one run.
    let deadline = Instant::now() + LONG;
    while went_on.load(Ordering::SeqCst) < 10_000 {
        assert!(Instant::now() < deadline, "it does not go on");
        std::thread::yield_now();
    }
    for number in 0..100 {
        assert_eq!(quiet.ask(number).timeout(LONG).wait().unwrap(), number);
    }
    is_enough.store(true, Ordering::SeqCst);
    assert!(system.shutdown(LONG).is_clean());
}
