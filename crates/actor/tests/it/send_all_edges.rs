//! Edge cases of `Context::send_all`: iterators of terminating actors, the smallest lane, the bound of the outbox.

use crate::common::{Ledger, Notes, Puppet, act, ended, eventually, finish, held_noter, system};
use freeboard_actor::SpawnOptions;
use freeboard_flow::LaneConfig;

fn bounded(messages: usize) -> SpawnOptions {
    SpawnOptions::new().lane(LaneConfig::bounded(messages))
}

#[test]
fn an_iterator_of_stopped_that_panics_leaves_what_was_told_after_it() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(2));
    let to = noter.clone();
    let sender = system.spawn(Puppet {
        on_stopped: Some(Box::new(move |cx| {
            let items = (0..10_u64).inspect(|number| assert!(*number != 5, "on purpose"));
            cx.send_all(&to, items).expect("accepted");
            to.tell(100).expect("accepted");
        })),
        ..Puppet::default()
    });
    sender.ask(1_u64).wait().expect("a reply");
    sender.stop();
    ended(&sender);
    gate.open();
    eventually("what was told after it comes", || {
        notes.all().contains(&100)
    });
    finish(&system);
}

#[test]
fn an_endless_iterator_of_stopped_is_dropped() {
    let system = system();
    let (noter, gate, _) = held_noter(&system, bounded(2));
    let ledger = Ledger::default();
    let (to, token) = (noter.clone(), ledger.token());
    let sender = system.spawn(Puppet {
        on_stopped: Some(Box::new(move |cx| {
            let items = (0..u64::MAX).inspect(move |_| {
                let _held = &token;
            });
            cx.send_all(&to, items).expect("accepted");
        })),
        ..Puppet::default()
    });
    sender.ask(1_u64).wait().expect("a reply");
    sender.stop();
    ended(&sender);
    gate.open();
    ledger.settle(1);
    finish(&system);
}

#[test]
fn an_endless_iterator_into_a_lane_of_one_lets_others_in() {
    let system = system();
    let (noter, gate, notes) = held_noter(&system, bounded(1));
    let sender = system.spawn(Puppet::default());
    let to = noter.clone();
    act(&sender, move |cx| {
        cx.send_all(&to, std::iter::repeat(0_u64))
            .expect("accepted");
    });
    eventually("it waits", || sender.snapshot().state == "suspended");
    gate.open();
    for number in 1..=100 {
        noter.tell(number).expect("alive");
    }
    eventually("all are noted", || {
        notes.all().into_iter().filter(|it| *it > 0).eq(1..=100)
    });
    sender.stop();
    ended(&sender);
    finish(&system);
}

#[test]
fn what_an_iterator_tells_keeps_the_bound_of_the_outbox() {
    let system = system();
    let (noter, gate, _) = held_noter(&system, bounded(1_000));
    let (stuck, stuck_gate, _) = held_noter(&system, bounded(1));
    let refused = Notes::default();
    let noted = refused.clone();
    let sender = system
        .spawn_with(SpawnOptions::new().outbox(10), Puppet::default)
        .expect("valid options");
    let to = noter.clone();
    act(&sender, move |cx| {
        let items = (0..100_u64).inspect(move |_| noted.push(stuck.tell(7_u64).is_err()));
        cx.send_all(&to, items).expect("accepted");
    });
    let refused = refused.wait_len(100);
    let accepted = refused.into_iter().filter(|it| !it).count();
    assert!(
        accepted <= 11,
        "{accepted} in an outbox of 10 and a lane of 1"
    );
    gate.open();
    stuck_gate.open();
    finish(&system);
}
