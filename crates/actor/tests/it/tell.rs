//! Telling: from threads, from tokio, from an executor of one's own, and through every kind of
//! reference; each message arrives once, and those of one sender in their order.

use crate::common::*;

/// One sender's number and its running count.
fn label(sender: u64, count: u64) -> u64 {
    sender << 32 | count
}

#[track_caller]
fn check_each_once_in_order(mut notes: Vec<u64>, senders: u64, per_sender: u64) {
    for sender in 0..senders {
        let counts: Vec<u64> = notes
            .iter()
            .filter(|note| **note >> 32 == sender)
            .map(|note| note & 0xffff_ffff)
            .collect();
        assert!(counts.iter().copied().eq(0..per_sender), "sender {sender}");
    }
    notes.sort_unstable();
    assert_eq!(notes.len() as u64, senders * per_sender);
}

#[test]
fn many_threads_tell_one_actor() {
    // The lane's bound, the threads, the messages of each.
    for (bound, senders, per_sender) in [(65_536, 8, 5_000), (3, 8, 500), (1, 4, 200)] {
        let system = system();
        let (actor, notes) = probe_with(&system, bounded(bound));
        thread::scope(|scope| {
            for sender in 0..senders {
                let actor = &actor;
                let labels = label(sender, 0)..label(sender, per_sender);
                scope.spawn(move || tell_all(actor, labels));
            }
        });
        finish(&system);
        check_each_once_in_order(notes.all(), senders, per_sender);
        let lane = lane(&actor, 0);
        assert_eq!(lane.accepted, senders * per_sender);
        assert_eq!(lane.handled, lane.accepted);
        assert!(lane.high_water <= bound as u64, "{lane:?}");
    }
}

#[test]
fn tokio_tasks_send() {
    let system = system();
    let (actor, notes) = probe_with(&system, bounded(3));
    tokio_runtime().block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|sender| {
                let actor = actor.clone();
                tokio::spawn(async move {
                    for count in 0..500 {
                        actor.send(label(sender, count)).await.expect("alive");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    finish(&system);
    check_each_once_in_order(notes.all(), 8, 500);
}

#[test]
fn a_plain_executor_sends_and_asks() {
    let system = system();
    let actor = probe(&system).0;
    let answers = block_on(async {
        let mut answers = Vec::new();
        for number in 0..100_u64 {
            actor.send(Ping).await.expect("alive");
            answers.push(actor.ask(number).await.expect("an answer"));
        }
        answers
    });
    assert!(answers.into_iter().eq(0..100));
    finish(&system);
    assert_eq!(lane(&actor, 0).handled, 200);
}

/// Sums its messages, each type in its own way.
#[derive(Default)]
struct Many {
    total: u64,
    texts: Vec<String>,
}

struct Total;

/// As large a payload as travels inline, and the first that does not.
struct Inline([u8; INLINE_BYTES]);
struct Boxed([u8; INLINE_BYTES + 1]);
struct Huge([u64; 4_096]);

#[repr(align(64))]
struct Aligned(u8);

impl Actor for Many {}

macro_rules! handles {
    ($($message:ty: $value:expr),* $(,)?) => {$(
        impl Handler<$message> for Many {
            type Reply = ();
            fn handle(&mut self, msg: $message, _cx: &mut Context<Self>) {
                let value: fn($message) -> u64 = $value;
                self.total += value(msg);
            }
        }
    )*};
}

handles! {
    (): |()| 1,
    u8: u64::from,
    u64: |it| it,
    Inline: |it| it.0.iter().map(|byte| u64::from(*byte)).sum(),
    Boxed: |it| it.0.iter().map(|byte| u64::from(*byte)).sum(),
    Huge: |it| it.0.iter().sum(),
    Aligned: |it| {
        assert_eq!(std::ptr::from_ref(&it).addr() % 64, 0);
        u64::from(it.0)
    },
    Box<dyn FnOnce() -> u64 + Send>: |it| it(),
}

impl Handler<String> for Many {
    type Reply = usize;
    fn handle(&mut self, text: String, _cx: &mut Context<Self>) -> usize {
        self.texts.push(text);
        self.texts.len()
    }
}

impl Handler<Total> for Many {
    type Reply = (u64, Vec<String>);
    fn handle(&mut self, _total: Total, _cx: &mut Context<Self>) -> (u64, Vec<String>) {
        (self.total, self.texts.clone())
    }
}

#[test]
fn an_actor_takes_many_types_of_any_size() {
    let system = system();
    let many = system.spawn(Many::default());
    many.tell(()).expect("alive");
    many.tell(2_u8).expect("alive");
    many.tell(3_u64).expect("alive");
    many.tell(Inline([1; INLINE_BYTES])).expect("alive");
    many.tell(Boxed([1; INLINE_BYTES + 1])).expect("alive");
    many.tell(Huge([2; 4_096])).expect("alive");
    many.tell(Aligned(5)).expect("alive");
    let call: Box<dyn FnOnce() -> u64 + Send> = Box::new(|| 7);
    many.tell(call).expect("alive");
    assert_eq!(many.ask("a".repeat(100)).wait().expect("an answer"), 1);
    assert_eq!(many.ask(String::new()).wait().expect("an answer"), 2);
    let (total, texts) = many.ask(Total).wait().expect("an answer");
    let inline = INLINE_BYTES as u64;
    assert_eq!(total, 1 + 2 + 3 + inline + inline + 1 + 2 * 4_096 + 5 + 7);
    assert_eq!(texts, ["a".repeat(100), String::new()]);
}

#[test]
fn a_recipient_stands_for_any_actor_of_a_message_type() {
    let system = system();
    let actor = probe(&system).0;
    let many = system.spawn(Many::default());
    let recipients: Vec<Recipient<u64>> = vec![actor.recipient(), many.recipient()];
    for recipient in &recipients {
        recipient.tell(1).expect("alive");
        recipient.clone().try_tell(2).expect("alive");
        block_on(recipient.send(3)).expect("alive");
        assert_eq!(recipient.tell_lane(1, 4), Err(TellError::NoLane(4)));
        assert!(recipient.is_alive());
    }
    assert_eq!(recipients[0].id(), actor.id());
    finish(&system);
    assert_eq!(lane(&actor, 0).handled, 3);
    assert_eq!(lane(&many, 0).handled, 3);
    for recipient in &recipients {
        assert!(!recipient.is_alive());
        assert_eq!(recipient.tell(9), Err(TellError::Closed(9)));
    }
}

#[test]
fn a_weak_reference_keeps_no_ended_actor() {
    let system = system();
    let actor = probe(&system).0;
    let weak = actor.downgrade();
    let again = weak.upgrade().expect("it is alive");
    assert_eq!(again, actor);
    again.tell(1).expect("alive");
    drop((actor, again));
    let actor = weak.upgrade().expect("an actor needs no reference to live");
    actor.stop();
    ended(&actor);
    drop(actor);
    eventually("the cell is freed", || weak.upgrade().is_none());
}

#[test]
fn an_ended_actor_gives_messages_back() {
    let system = system();
    let actor = probe(&system).0;
    actor.stop();
    ended(&actor);
    let Err(TellError::Closed(number)) = actor.tell(7_u64) else {
        panic!("an ended actor took a message");
    };
    assert_eq!(number, 7);
    assert_eq!(actor.try_tell(8_u64), Err(TellError::Closed(8)));
    assert_eq!(block_on(actor.send(9_u64)), Err(TellError::Closed(9)));
    assert_eq!(TellError::Closed(9).into_inner(), 9);
    check_balance(&lane(&actor, 0));
}

#[test]
fn actors_tell_each_other_in_order() {
    let system = system();
    let (actor, notes) = probe(&system);
    let (relay, _) = probe(&system);
    for number in 0..10_000 {
        act_tell(&relay, &actor, number..number + 1);
    }
    finish(&system);
    assert!(notes.all().into_iter().eq(0..10_000));
}

#[test]
fn depth_is_what_is_queued() {
    let system = system();
    let (actor, gate, _) = held(&system, SpawnOptions::new());
    let before = actor.depth();
    assert!(before <= 1, "at most the message that is being handled");
    tell_all(&actor, 0..10);
    let recipient: Recipient<u64> = actor.recipient();
    assert_eq!(actor.depth(), before + 10);
    assert_eq!(recipient.depth(), before + 10);
    gate.open();
    eventually("all is handled", || actor.depth() == 0);
}

#[test]
fn an_actor_sees_what_is_queued_behind_the_present_message() {
    let (system, depths) = (system(), Notes::default());
    let (actor, gate, _) = held(&system, SpawnOptions::new());
    for _ in 0..10 {
        let depths = depths.clone();
        act(&actor, move |cx| depths.push(cx.depth()));
    }
    gate.open();
    finish(&system);
    let depths = depths.all();
    assert!(depths.iter().copied().eq((0..10).rev()), "{depths:?}");
}
