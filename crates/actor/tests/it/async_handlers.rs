//! Async handlers hold their mailbox while they wait; piping does not.

use crate::common::*;
use tokio::sync::oneshot;

/// Waits for the channel, then tells the actor itself the number and a thousand, notes the number, and answers.
struct Echo(u64, oneshot::Receiver<()>);

impl AsyncHandler<Echo> for Probe {
    type Reply = u64;
    async fn handle(&mut self, msg: Echo, cx: &mut Context<Self>) -> u64 {
        let id = cx.id();
        let _ = msg.1.await;
        assert_eq!(cx.id(), id, "the context is there after the await");
        cx.actor_ref().try_tell(msg.0 + 1_000).expect("capacity");
        self.notes.push(msg.0);
        msg.0
    }
}

/// Sleeps on tokio's clock, then notes the number and answers.
struct Nap(u64);

impl AsyncHandler<Nap> for Probe {
    type Reply = u64;
    async fn handle(&mut self, nap: Nap, _cx: &mut Context<Self>) -> u64 {
        let duration = Duration::from_millis(1);
        let napped = tokio::time::timeout(duration, pending::<()>()).await;
        assert!(napped.is_err());
        self.notes.push(nap.0);
        nap.0
    }
}

/// Pipes the channel's value.
fn pipe(actor: &ActorRef<Probe>) -> (Result<(), NoRuntime>, oneshot::Sender<u64>) {
    let (sender, receiver) = oneshot::channel();
    let piped = within(actor, |cx| {
        cx.pipe(receiver, |value| value.expect("a value"))
    });
    (piped, sender)
}

fn attached(runtime: &tokio::runtime::Runtime) -> TestSystem {
    let builder = System::builder().workers(2);
    build(builder.tokio(runtime.handle().clone()))
}

#[test]
fn no_message_overtakes_a_waiting_handler() {
    let system = system();
    let (actor, notes) = probe(&system);
    let (sender, receiver) = oneshot::channel();
    actor.tell(1_u64).expect("alive");
    actor.tell(Echo(2, receiver)).expect("alive");
    actor.tell(3_u64).expect("alive");
    suspended(&actor);
    assert_eq!(notes.all(), [1]);
    sender.send(()).expect("it waits");
    assert_eq!(notes.wait_len(4), [1, 2, 3, 1_002]);
    finish(&system);
    check_balance(&lane(&actor, 0));
    assert_eq!(lane(&actor, 0).handled, 4);
}

#[test]
fn an_async_handler_answers() {
    let system = system();
    let (actor, _) = probe(&system);
    for number in 0..200 {
        let (sender, receiver) = oneshot::channel();
        let asked = actor.clone();
        let asking = thread::spawn(move || asked.ask(Echo(number, receiver)).timeout(LIMIT).wait());
        let _ = sender.send(());
        assert!(matches!(asking.join().expect("no panic"), Ok(it) if it == number));
    }
    finish(&system);
    check_balance(&lane(&actor, 0));
}

#[test]
fn a_stop_drops_the_waiting_future() {
    let system = system();
    let (actor, notes) = probe(&system);
    let (sender, receiver) = oneshot::channel();
    let asked = actor.clone();
    let asking = thread::spawn(move || asked.ask(Echo(1, receiver)).wait());
    suspended(&actor);
    actor.tell(2_u64).expect("alive");
    actor.stop();
    assert_eq!(ended(&actor).reason, ExitReason::Stopped);
    let reply = asking.join().expect("no panic");
    assert!(matches!(reply, Err(AskError::NoReply)));
    assert!(sender.send(()).is_err(), "its receiver was dropped");
    assert_eq!(notes.len(), 0);
    check_balance(&lane(&actor, 0));
}

#[test]
fn draining_waits_for_the_future() {
    let runtime = tokio_runtime();
    let system = attached(&runtime);
    let (actor, notes) = probe(&system);
    actor.tell(Nap(1)).expect("alive");
    actor.tell(Nap(2)).expect("alive");
    actor.stop_gracefully();
    assert_eq!(ended(&actor).reason, ExitReason::Drained);
    assert_eq!(notes.all(), [1, 2]);
}

#[test]
fn tokios_clock_works_in_an_attached_system_and_in_one_built_inside_a_runtime() {
    let runtime = tokio_runtime();
    let inside = runtime.block_on(async { system() });
    for system in [attached(&runtime), inside] {
        let (actor, notes) = probe(&system);
        for number in 0..10 {
            let reply = actor.ask(Nap(number)).wait();
            assert_eq!(reply.expect("the clock is there"), number);
        }
        assert!(notes.all().into_iter().eq(0..10));
    }
}

#[test]
fn a_plain_handler_is_in_the_runtime_on_each_kind_of_thread() {
    let runtime = tokio_runtime();
    let system = attached(&runtime);
    let pinned = SpawnOptions::new().dispatcher(Dispatcher::pinned(Blocking::default()));
    for options in [SpawnOptions::new(), pinned] {
        let (actor, _) = probe_with(&system, options);
        let spawned = within(&actor, |_| tokio::spawn(async { 7 }));
        assert_eq!(runtime.block_on(spawned).expect("it ends"), 7);
    }
}

#[test]
fn a_pipe_needs_a_runtime() {
    let system = system();
    let (piped, _sender) = pipe(&probe(&system).0);
    assert_eq!(piped, Err(NoRuntime));
}

#[test]
fn messages_are_handled_while_a_pipe_waits() {
    let runtime = tokio_runtime();
    let system = attached(&runtime);
    let (actor, notes) = probe(&system);
    let (piped, sender) = pipe(&actor);
    piped.expect("a runtime");
    actor.ask(1_u64).wait().expect("a reply");
    sender.send(2).expect("it waits");
    assert_eq!(notes.wait_len(2), [1, 2]);
    finish(&system);
    assert_eq!(lane(&actor, 0).handled, 3);
}

#[test]
fn a_pipe_waits_for_capacity() {
    let runtime = tokio_runtime();
    let system = attached(&runtime);
    let (actor, notes) = probe_with(&system, bounded(1));
    let pipes: Vec<_> = (0..50).map(|_| pipe(&actor)).collect();
    for (number, (piped, sender)) in (0..).zip(pipes) {
        piped.expect("a runtime");
        sender.send(number).expect("it waits");
    }
    let mut numbers = notes.wait_len(50);
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..50));
}

#[test]
fn a_pipe_into_a_terminated_actor_is_a_dead_letter() {
    let runtime = tokio_runtime();
    let system = attached(&runtime);
    let (actor, _) = probe(&system);
    let (piped, sender) = pipe(&actor);
    piped.expect("a runtime");
    actor.stop();
    ended(&actor);
    sender.send(2).expect("it waits");
    eventually("a dead letter", || {
        count_of(&system.dead_letters(), "stopped") == 1
    });
}

#[test]
fn a_piped_future_that_panics_is_a_dead_letter() {
    let runtime = tokio_runtime();
    let system = attached(&runtime);
    let (actor, notes) = probe(&system);
    let piped = within(&actor, |cx| {
        cx.pipe(async { panic!("on purpose") }, |number: u64| number)
    });
    piped.expect("a runtime");
    eventually("a dead letter", || {
        count_of(&system.dead_letters(), "handler_panicked") == 1
    });
    actor.ask(1_u64).wait().expect("it lives");
    assert_eq!(notes.all(), [1]);
}

#[test]
fn a_send_does_not_overtake_a_tell_of_the_same_actor() {
    let system = system();
    let (actor, gate, notes) = held(&system, bounded(1));
    let (speaker, _) = probe(&system);
    act_async(&speaker, move |_| {
        Box::pin(async move {
            for round in 0..200 {
                actor.tell(2 * round).expect("alive");
                actor.send(2 * round + 1).await.expect("alive");
            }
        })
    });
    suspended(&speaker);
    gate.open();
    let told = notes.wait_len(400);
    assert!(told.iter().copied().eq(0..400), "{told:?}");
}

/// How a future is woken that is not ready at its first poll.
#[derive(Clone, Copy, Debug)]
enum Woken {
    InItsPoll,
    ByAnotherThread,
}

/// A first poll is made where the message is handled. It is not repeated without a wake-up, and no wake-up is lost.
#[test]
fn a_future_is_polled_once_and_again_after_each_wake_up() {
    let system = system();
    let (actor, _) = probe(&system);
    let polls_of = |woken: Option<Woken>| {
        let (polls, counted) = mpsc::channel();
        let (wakers, has_waker) = mpsc::channel();
        act_async(&actor, move |_| {
            let mut is_first = true;
            let future = poll_fn(move |cx| {
                polls.send(()).expect("the test waits");
                match (std::mem::take(&mut is_first), woken) {
                    (true, Some(Woken::InItsPoll)) => cx.waker().wake_by_ref(),
                    (true, Some(Woken::ByAnotherThread)) => {
                        wakers.send(cx.waker().clone()).expect("the test waits");
                    }
                    _ => return Poll::Ready(()),
                }
                Poll::Pending
            });
            Box::pin(future)
        });
        if let Some(Woken::ByAnotherThread) = woken {
            let waker = has_waker.recv_timeout(LIMIT).expect("it waits");
            waker.wake();
        }
        // Ends when the future is dropped.
        counted.iter().count()
    };
    for _ in 0..100 {
        assert_eq!(polls_of(None), 1);
        assert_eq!(polls_of(Some(Woken::InItsPoll)), 2);
        assert_eq!(polls_of(Some(Woken::ByAnotherThread)), 2);
    }
    finish(&system);
    assert_eq!(lane(&actor, 0).handled, 300);
}
