//! Deferred replies and forwarded messages: each ask gets exactly one outcome, and at once if there will be no reply.

use crate::common::*;

const SHORT: Duration = Duration::from_millis(20);

/// Runs the functions that it is asked with, and keeps the replies that they leave.
#[derive(Default)]
struct Desk(Vec<Deferred<u64>>);

type DeskScript = Box<dyn FnOnce(&mut Desk, Deferred<u64>, &mut Context<Desk>) + Send>;

struct Defer(DeskScript);

/// Answers every kept reply, and replies with their number.
struct Release(u64);

impl Actor for Desk {}

impl DeferredHandler<Defer> for Desk {
    type Reply = u64;
    fn handle(&mut self, defer: Defer, reply: Deferred<u64>, cx: &mut Context<Self>) {
        defer.0(self, reply, cx);
    }
}

impl Handler<Release> for Desk {
    type Reply = usize;
    fn handle(&mut self, release: Release, _cx: &mut Context<Self>) -> usize {
        let count = self.0.len();
        self.0.drain(..).for_each(|reply| reply.reply(release.0));
        count
    }
}

impl Handler<Gate> for Desk {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

fn defer(
    script: impl FnOnce(&mut Desk, Deferred<u64>, &mut Context<Desk>) + Send + 'static,
) -> Defer {
    Defer(Box::new(script))
}

/// Asks, and waits until the desk keeps the reply.
#[track_caller]
fn kept(desk: &ActorRef<Desk>) -> AskFuture<Desk, Defer, u64> {
    let (returned, handled) = mpsc::channel();
    let ask = desk.ask(defer(move |desk, reply, _| {
        desk.0.push(reply);
        returned.send(()).expect("awaited");
    }));
    let mut asking = ask.into_future();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    handled.recv_timeout(LIMIT).expect("handled");
    asking
}

#[track_caller]
fn check_no_reply<M, R: fmt::Debug>(reply: Result<R, AskError<M>>) {
    assert!(matches!(reply, Err(AskError::NoReply)), "{reply:?}");
}

#[test]
fn a_reply_comes_from_anywhere() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let at_once = desk.ask(defer(|_, reply, _| reply.reply(1)));
    assert_eq!(at_once.timeout(LIMIT).wait().ok(), Some(1));

    let by_thread = desk.ask(defer(|_, reply, _| {
        thread::spawn(move || reply.reply(2));
    }));
    assert_eq!(by_thread.timeout(LIMIT).wait().ok(), Some(2));

    let other = system.spawn(Desk::default());
    let by_other = desk.ask(defer(move |_, reply, _| {
        let told = other.tell(defer(|_, _, _| reply.reply(3)));
        told.expect("accepted");
    }));
    assert_eq!(by_other.timeout(LIMIT).wait().ok(), Some(3));

    let asking = kept(&desk);
    let handled = || lane(&desk, 0).handled == lane(&desk, 0).accepted;
    eventually("it counts as handled", handled);
    assert_eq!(desk.ask(Release(4)).wait().ok(), Some(1));
    assert_eq!(block_on(asking).ok(), Some(4));
    finish(&system);
    check_balance(&lane(&desk, 0));
}

#[test]
fn a_dropped_reply_fails_the_ask_at_once() {
    let system = system();
    let desk = system.spawn(Desk::default());
    check_no_reply(
        desk.ask(defer(|_, reply, _| drop(reply)))
            .timeout(LIMIT)
            .wait(),
    );
    check_no_reply(block_on(
        desk.ask(defer(|_, reply, _| drop(reply))).into_future(),
    ));
}

#[test]
fn a_panic_fails_the_asks_without_a_reply() {
    let system = system();
    let options = SpawnOptions::new().supervision(at_once());
    let desk = system.spawn_with(options, Desk::default).expect("valid");
    let panic = || std::panic::resume_unwind(Box::new(()));
    let earlier = kept(&desk);
    check_no_reply(desk.ask(defer(move |_, _reply, _| panic())).wait());
    // The restart has dropped the state.
    check_no_reply(block_on(earlier));
    let answered = desk.ask(defer(move |_, reply, _| {
        reply.reply(1);
        panic();
    }));
    assert_eq!(answered.wait().ok(), Some(1));
    finish(&system);
    assert_eq!(shed(&desk, "handler_panicked"), 2);
    check_balance(&lane(&desk, 0));
}

#[test]
fn an_actor_that_stops_fails_the_asks_that_it_holds() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let (by_await, by_drop) = (kept(&desk), kept(&desk));
    drop(by_drop);
    desk.stop();
    check_no_reply(block_on(by_await));
}

#[test]
fn a_reply_outlives_its_system() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let (sender, replies) = mpsc::channel();
    let mut asking = desk
        .ask(defer(move |_, reply, _| sender.send(reply).expect("kept")))
        .into_future();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    let reply = replies.recv_timeout(LIMIT).expect("handled");
    finish(&system);
    assert!(reply.is_wanted());
    reply.reply(1);
    assert_eq!(block_on(asking).ok(), Some(1));
}

#[test]
fn a_reply_knows_whether_it_is_wanted() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let (sender, replies) = mpsc::channel();
    let send = || {
        let sender = sender.clone();
        defer(move |_, reply, _| sender.send(reply).expect("kept"))
    };
    let next = || replies.recv_timeout(LIMIT).expect("handled");

    let mut asking = desk.ask(send()).into_future();
    assert!(poll_once(&mut asking, &Arc::default()).is_pending());
    let reply = next();
    assert!(reply.is_wanted() && reply.deadline().is_none());
    drop(asking);
    assert!(!reply.is_wanted());
    reply.reply(1);

    // A told message wants no reply, with and without a deadline.
    desk.tell(send()).expect("accepted");
    desk.ask(send()).deadline(soon()).tell().expect("accepted");
    for has_deadline in [false, true] {
        let reply = next();
        assert_eq!(
            (reply.is_wanted(), reply.deadline().is_some()),
            (false, has_deadline)
        );
        reply.reply(3);
    }
}

#[test]
fn an_ask_expires_while_its_reply_is_deferred() {
    let system = system();
    let desk = system.spawn(Desk::default());
    // On a machine under load it may expire before it is handled.
    let mut timeout = SHORT;
    let (asking, reply) = loop {
        let (sender, replies) = mpsc::channel();
        let send = defer(move |_, reply, _| sender.send(reply).expect("kept"));
        let mut asking = desk.ask(send).timeout(timeout).into_future();
        let outcome = block_on(&mut asking);
        assert!(matches!(outcome, Err(AskError::Expired)), "{outcome:?}");
        if let Ok(reply) = replies.try_recv() {
            break (asking, reply);
        }
        timeout *= 2;
    };
    assert!(!reply.is_wanted() && reply.deadline().is_some());
    reply.reply(1);
    drop(asking);
}

/// Takes numbers from a dam, and keeps the replies.
struct Slow(Notes<u64>, Vec<Deferred<()>>);

impl Actor for Slow {}

impl DeferredHandler<u64> for Slow {
    type Reply = ();
    fn handle(&mut self, number: u64, reply: Deferred<()>, _cx: &mut Context<Self>) {
        self.0.push(number);
        self.1.push(reply);
    }
}

impl Handler<Ping> for Slow {
    type Reply = ();
    fn handle(&mut self, _ping: Ping, _cx: &mut Context<Self>) {
        self.1.clear();
    }
}

#[test]
fn a_dams_credit_returns_with_the_reply() {
    let system = system();
    let notes = Notes::default();
    let slow = system.spawn(Slow(notes.clone(), Vec::new()));
    let dam = Dam::credit(2).in_front_of(slow.recipient::<u64>());
    let dam = system.spawn(dam.expect("valid"));
    tell_all(&dam, 0..4);
    dam.ask(4).wait().expect("kept");
    // All that it has credit for is handled before the next message.
    slow.ask(1_000).tell().expect("accepted");
    assert_eq!(notes.wait_len(3), [0, 1, 1_000]);
    for count in [5, 6] {
        slow.ask(Ping).wait().expect("alive");
        notes.wait_len(count);
    }
    finish(&system);
    assert_eq!(notes.all(), [0, 1, 1_000, 2, 3, 4]);
}

/// Asks the desk to forward this number.
fn forward(to: &ActorRef<Probe>, number: u64) -> Defer {
    let to = to.clone();
    defer(move |_, reply, cx| cx.forward(&to, number, reply).expect("accepted"))
}

#[test]
fn a_forwarded_message_is_answered_by_the_other_actor() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let (probe, notes) = probe(&system);
    assert_eq!(desk.ask(forward(&probe, 1)).wait().ok(), Some(1));
    desk.tell(forward(&probe, 2)).expect("accepted");
    // Through a second desk.
    let (second, to) = (system.spawn(Desk::default()), probe.clone());
    let twice = defer(move |_, reply, cx| {
        let sent = cx.forward(&second, forward(&to, 3), reply);
        assert!(sent.is_ok());
    });
    assert_eq!(desk.ask(twice).wait().ok(), Some(3));
    finish(&system);
    notes.check_all([1, 2, 3]);
    check_balance(&lane(&probe, 0));
}

#[test]
fn a_refused_forward_returns_the_message_and_fails_the_ask() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let (probe, _) = probe(&system);
    probe.stop();
    ended(&probe);
    let notes = Notes::default();
    let kept = notes.clone();
    let refused = defer(move |_, reply, cx| {
        let refused = cx.forward(&probe, 7, reply).expect_err("closed");
        kept.push(refused.into_inner());
    });
    let reply = desk.ask(refused).timeout(LIMIT).wait();
    assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
    assert_eq!(notes.wait_len(1), [7]);
}

#[test]
fn a_forwarded_message_keeps_its_asker_and_its_deadline() {
    let system = system();
    let desk = system.spawn(Desk::default());
    // The lane is full: they wait in the outbox.
    let (probe, gate, notes) = full(&system, bounded(4));
    let wanted = desk.ask(forward(&probe, 1)).into_future();
    let abandoned = desk.ask(forward(&probe, 2)).into_future();
    let expiring = desk.ask(forward(&probe, 3)).timeout(SHORT).into_future();
    let mut asks = [wanted, abandoned, expiring];
    for ask in &mut asks {
        assert!(poll_once(ask, &Arc::default()).is_pending());
    }
    let [wanted, abandoned, expiring] = asks;
    eventually("the first is forwarded", || lane(&desk, 0).handled >= 1);
    drop(abandoned);
    let expired = block_on(expiring);
    assert!(matches!(expired, Err(AskError::Expired)), "{expired:?}");
    gate.open();
    assert_eq!(block_on(wanted).ok(), Some(1));
    finish(&system);
    assert_eq!(notes.nonzero(), [1]);
    let unwanted = |reason| shed(&probe, reason) + shed(&desk, reason);
    assert_eq!((unwanted("asker_gone"), unwanted("expired")), (1, 1));
    check_balance(&lane(&probe, 0));
    check_balance(&lane(&desk, 0));
}
