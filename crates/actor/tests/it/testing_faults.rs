//! The faults of the test kit.

use freeboard_actor::testing::{self, Probe, TestSystem, each_seed};

use crate::common::{Duration, at_once, shed};
use freeboard_actor::*;
use freeboard_flow::{LaneConfig, Overload};

const MS: Duration = Duration::from_millis(1);

struct Counter(u64);

#[derive(Debug, PartialEq)]
struct Add(u64);
#[derive(Debug, PartialEq)]
struct Get;

impl Actor for Counter {}

impl Handler<Add> for Counter {
    type Reply = u64;
    fn handle(&mut self, msg: Add, _cx: &mut Context<Self>) -> u64 {
        self.0 += msg.0;
        self.0
    }
}

impl Handler<Get> for Counter {
    type Reply = u64;
    fn handle(&mut self, _msg: Get, _cx: &mut Context<Self>) -> u64 {
        self.0
    }
}

fn spawn(system: &System, options: SpawnOptions) -> ActorRef<Counter> {
    let counter = system.spawn_with(options, || Counter(0));
    counter.expect("valid options")
}

fn restarting() -> SpawnOptions {
    SpawnOptions::new().supervision(at_once().limit(10, Duration::from_secs(60)))
}

#[test]
fn the_nth_message_panics() {
    each_seed(0..10, |system| {
        let counter = spawn(system, restarting());
        system
            .faults(&counter)
            .panic_on(3)
            .panic_on_message::<Get>(2);
        assert_eq!(counter.ask(Add(1)).wait(), Ok(1));
        assert_eq!(counter.ask(Get).wait(), Ok(1));
        assert!(matches!(counter.ask(Add(1)).wait(), Err(AskError::NoReply)));
        assert_eq!(counter.ask(Add(5)).wait(), Ok(5));
        assert!(matches!(counter.ask(Get).wait(), Err(AskError::NoReply)));
        assert_eq!(counter.ask(Get).wait(), Ok(0));
        assert_eq!(shed(&counter, "handler_panicked"), 2);
        assert_eq!(counter.snapshot().restarts, 2);
        testing::expect_counts(system);
    });
}

#[test]
fn a_slow_handler_misses_deadlines_in_virtual_time() {
    each_seed(0..20, |system| {
        let slow = spawn(system, SpawnOptions::new());
        system.faults(&slow).slow(10 * MS);
        let reply = slow.ask(Add(1)).timeout(5 * MS).wait();
        assert!(matches!(reply, Err(AskError::Expired)));
        assert_eq!(slow.ask(Add(1)).timeout(30 * MS).wait(), Ok(2));
        // The second of these expires in the mailbox.
        slow.tell(Get).expect("alive");
        let reply = slow.ask(Add(1)).timeout(9 * MS).wait();
        assert!(matches!(reply, Err(AskError::Expired)));
        system.faults(&slow).clear();
        // The slow call is not over yet.
        system.advance(MS);
        let before = system.now();
        assert_eq!(slow.ask(Get).wait(), Ok(2));
        assert_eq!(system.now(), before);
        assert_eq!(shed(&slow, "expired"), 1);
        testing::expect_counts(system);
    });
}

#[test]
fn others_run_while_a_handler_is_slow() {
    let system = TestSystem::new(3);
    let slow = spawn(&system, SpawnOptions::new());
    system.faults(&slow).slow(10 * MS);
    let probe = Probe::<u64>::spawn(&system);
    slow.tell(Add(1)).expect("alive");
    let asked = probe.actor().ask(1);
    // Whichever runs first: the probe is not behind the slow one.
    assert!(asked.timeout(5 * MS).wait().is_ok());
}

#[test]
fn a_full_lane_sheds_or_makes_wait() {
    each_seed(0..10, |system| {
        let refusing = LaneConfig::bounded(9).overload(Overload::Reject);
        let refusing = spawn(system, SpawnOptions::new().lane(refusing));
        refusing.tell(Add(1)).expect("it is not full");
        system.faults(&refusing).full_lane(0);
        assert!(matches!(refusing.tell(Add(1)), Err(TellError::Full(_))));
        // What is queued is handled.
        system.run_until_idle();
        system.faults(&refusing).free_lane(0);
        assert_eq!(refusing.ask(Add(1)).wait(), Ok(2));

        let waiting = spawn(system, SpawnOptions::new());
        system.faults(&waiting).full_lane(0);
        let reply = waiting.ask(Add(1)).timeout(5 * MS).wait();
        assert!(matches!(reply, Err(AskError::Full(_))));
        system.faults(&waiting).free_lane(0);
        assert_eq!(waiting.ask(Add(1)).timeout(5 * MS).wait(), Ok(1));
        testing::expect_counts(system);
    });
}

#[test]
fn a_wake_up_may_be_late() {
    each_seed(0..10, |system| {
        let late = spawn(system, SpawnOptions::new());
        system.run_until_idle();
        system.faults(&late).delay_wakeups(7 * MS);
        assert_eq!(late.ask(Add(1)).wait(), Ok(1));
        assert_eq!(system.now(), 7 * MS);
        system.faults(&late).delay_wakeups(Duration::ZERO);
        assert_eq!(late.ask(Add(1)).wait(), Ok(2));
        assert_eq!(system.now(), 7 * MS);
    });
}
