//! Actors during a shutdown: one that tells itself something, one that panics, and one that is stuck beside
//! others that do not depend on it.

use std::{thread, time::Duration};

use crate::common::{
    Gate, Hold, LIMIT, Noter, Notes, Puppet, act, act_async, count_of, ended, eventually, finish,
    lane, system, system_of,
};
use freeboard_actor::{
    Actor, ActorRef, Context, ExitReason, Handler, SpawnOptions, Supervision, TellError,
};
use freeboard_flow::LaneConfig;

/// Tells itself the next number for each one.
struct Ticker;

impl Actor for Ticker {}

impl Handler<u64> for Ticker {
    type Reply = ();
    fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
        cx.actor_ref().tell(number + 1).unwrap();
    }
}

#[test]
fn actors_that_tick_themselves_do_not_panic_at_shutdown() {
    const TICKERS: u64 = 50;
    let system = system();
    let tickers: Vec<_> = (0..TICKERS).map(|_| system.spawn(Ticker)).collect();
    for ticker in &tickers {
        ticker.tell(0).expect("alive");
    }
    eventually("all tick", || {
        tickers.iter().all(|ticker| lane(ticker, 0).handled > 2)
    });
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.panics, report.failures.len()), (0, 0), "{report:?}");
    let dead = system.dead_letters();
    // The last tick of each.
    assert_eq!(count_of(&dead, "stopped"), TICKERS, "{dead:?}");
    for ticker in tickers {
        assert_eq!(ended(&ticker).reason, ExitReason::Drained);
    }
}

#[test]
fn an_actor_that_ticks_itself_through_its_full_lane_ends_too() {
    let system = system();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
    let ticker = system.spawn_once(options, Ticker).expect("valid options");
    ticker.tell(0).expect("alive");
    eventually("it ticks", || lane(&ticker, 0).handled > 2);
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.panics, 0, "{report:?}");
    let dead = system.dead_letters();
    assert_eq!(count_of(&dead, "stopped"), 1, "{dead:?}");
}

#[test]
fn others_get_their_message_back_from_an_actor_that_stops() {
    let system = system();
    let (gate, puppet) = (Gate::default(), system.spawn(Puppet::default()));
    let held = gate.clone();
    act(&puppet, move |_| held.pass());
    gate.wait_arrived(1);
    puppet.stop_gracefully();
    let results = Notes::default();
    let (other, to, noted) = (system.spawn(Puppet::default()), puppet, results.clone());
    act(&other, move |_| {
        noted.push(matches!(to.tell(1_u64), Err(TellError::Closed(1))));
    });
    assert_eq!(results.wait_len(1), [true]);
    gate.open();
    finish(&system);
}

#[test]
fn panics_during_a_shutdown_are_in_its_report() {
    let system = system();
    let early = system.spawn(Puppet::default());
    act(&early, |_| panic!("before the shutdown"));
    ended(&early);
    for number in 0..20 {
        system.spawn(Puppet {
            on_stopped: Some(Box::new(move |_| panic!("in stopped {number}"))),
            ..Puppet::default()
        });
    }
    let report = system.shutdown(LIMIT);
    assert_eq!(
        (report.panics, report.actors_failed),
        (20, 20),
        "{report:?}"
    );
    assert!(!report.is_clean());
    assert_eq!(report.failures.len(), 16, "the first of them");
    for failure in &report.failures {
        assert!(failure.panic.starts_with("in stopped"), "{failure:?}");
    }
}

#[test]
fn a_restart_during_a_shutdown_is_a_panic_and_no_failed_actor() {
    let system = system();
    let supervision = Supervision::restart().backoff(Duration::ZERO, Duration::ZERO);
    let options = SpawnOptions::new().supervision(supervision);
    let puppet = system.spawn_with(options, Puppet::default);
    let puppet = puppet.expect("valid options");
    let gate = Gate::default();
    let held = gate.clone();
    act(&puppet, move |_| {
        held.pass();
        panic!("on purpose");
    });
    puppet.tell(1_u64).expect("alive");
    gate.wait_arrived(1);
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(LIMIT));
    eventually("it is closed", || puppet.try_tell(2_u64).is_err());
    gate.open();
    let report = report.join().expect("no panic");
    assert_eq!((report.panics, report.actors_failed), (1, 0), "{report:?}");
    assert!(report.is_clean(), "{report:?}");
    assert!(
        lane(&puppet, 0).handled > 0,
        "its life after that handles what is queued"
    );
}

/// Awaits for ever.
fn stuck(system: &freeboard_actor::System) -> ActorRef<Puppet> {
    let puppet = system.spawn(Puppet::default());
    act_async(&puppet, |_| Box::pin(std::future::pending()));
    puppet
}

/// Unrelated actors with work terminate by themselves, long before the deadline that the stuck ones use up.
#[track_caller]
fn check_unrelated(stuck_count: usize) {
    const UNRELATED: usize = 81;
    let system = system_of(2);
    let (mut unrelated, mut stuck_ones) = (Vec::new(), Vec::new());
    for index in 0..UNRELATED {
        // All but the first half are spawned before a stuck one, and so are to end after it.
        if index * 2 >= UNRELATED && stuck_ones.len() < stuck_count {
            stuck_ones.push(stuck(&system));
        }
        let puppet = system.spawn(Puppet::default());
        (0..10_u64).for_each(|number| puppet.tell(number).expect("alive"));
        unrelated.push(puppet);
    }
    eventually("they are stuck", || {
        let is_held = |it: &ActorRef<Puppet>| it.snapshot().state == "suspended";
        stuck_ones.iter().all(is_held)
    });
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_secs(4)));
    for puppet in &unrelated {
        assert_eq!(ended(puppet).reason, ExitReason::Drained);
    }
    assert!(
        stuck_ones.iter().all(ActorRef::is_alive),
        "before the deadline"
    );
    let report = report.join().expect("no panic");
    assert_eq!(report.stopped_at_deadline, stuck_count, "{report:?}");
    assert!(report.unfinished.is_empty(), "{report:?}");
    for stuck in stuck_ones {
        assert_eq!(ended(&stuck).reason, ExitReason::Stopped);
    }
    assert_eq!(
        system.dead_letters().iter().map(|it| it.count).sum::<u64>(),
        stuck_count as u64
    );
}

#[test]
fn one_actor_that_awaits_for_ever_does_not_delay_unrelated_ones() {
    check_unrelated(1);
}

#[test]
fn several_actors_that_await_for_ever_do_not_delay_unrelated_ones() {
    check_unrelated(8);
}

#[test]
fn an_actor_that_is_muted_for_ever_does_not_delay_unrelated_ones() {
    let system = system();
    let unrelated: Vec<_> = (0..81).map(|_| system.spawn(Puppet::default())).collect();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
    let receiver = system.spawn_once(options, Puppet::default());
    let receiver = receiver.expect("valid options");
    act_async(&receiver, |_| Box::pin(std::future::pending()));
    eventually("it is stuck", || receiver.snapshot().state == "suspended");
    while receiver.try_tell(0_u64).is_ok() {}
    let muted = system.spawn(Puppet::default());
    let to = receiver.clone();
    act(&muted, move |_| to.tell(1_u64).expect("accepted"));
    eventually("it is muted", || muted.snapshot().state == "suspended");
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_secs(4)));
    for puppet in &unrelated {
        assert_eq!(ended(puppet).reason, ExitReason::Drained);
    }
    assert!(receiver.is_alive(), "before the deadline");
    let report = report.join().expect("no panic");
    assert!(!report.is_clean(), "{report:?}");
    assert!(report.unfinished.is_empty(), "{report:?}");
}

#[test]
fn a_slow_actor_that_goes_on_is_waited_for() {
    let system = system();
    let noter = Noter::default();
    let (gate, notes) = (noter.gate.clone(), noter.notes.clone());
    let receiver = system.spawn(noter);
    receiver.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    let sender = system.spawn(Puppet::default());
    let (to, held) = (receiver.clone(), Gate::default());
    let at = held.clone();
    act(&sender, move |_| {
        at.pass();
        to.tell(7_u64).expect("it is waited for");
    });
    held.wait_arrived(1);
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(LIMIT));
    eventually("the sender is closed", || sender.try_tell(1_u64).is_err());
    held.open();
    gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(notes.all(), [7]);
}
