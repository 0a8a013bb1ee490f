//! Circles of asks: the log names them. Long pipelines of asks are none.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use std::{
    collections::VecDeque,
    fmt::Debug,
    future::{Future, IntoFuture},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use common::{Act, Await, LIMIT, Notes, Puppet, eventually, finish, lock, system};
use freeboard_actor::{ActorRef, SpawnOptions, System};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};

/// Circles that were logged in this process.
type Log = Arc<Mutex<Vec<String>>>;

struct Capture(Log);

struct CircleField<'a>(&'a Log);

impl Visit for CircleField<'_> {
    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "circle" {
            lock(self.0).push(value.to_owned());
        }
    }
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _cx: Context<'_, S>) {
        event.record(&mut CircleField(&self.0));
    }
}

fn log() -> Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    let install = || {
        let log = Log::default();
        let subscriber = tracing_subscriber::registry().with(Capture(log.clone()));
        tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");
        log
    };
    LOG.get_or_init(install).clone()
}

/// Circles with an actor of this name.
fn logged(name: &str) -> Vec<String> {
    let name = format!("\"{name}-");
    let mut logged = lock(&log()).clone();
    logged.retain(|circle| circle.contains(&name));
    logged
}

/// Actors with names of this beginning.
fn spawn(system: &System, name: &str, count: usize) -> Vec<ActorRef<Puppet>> {
    log();
    let spawn = |index| {
        let options = SpawnOptions::new().name(format!("{name}-{index}"));
        system.spawn_once(options, Puppet::default()).expect("free")
    };
    (0..count).map(spawn).collect()
}

/// Asks the first of them, which asks the next one, in async handlers.
fn ask_on(mut rest: VecDeque<ActorRef<Puppet>>) -> Await {
    Await(Box::new(move |_| {
        Box::pin(async move {
            if let Some(next) = rest.pop_front() {
                let _ = next.ask(ask_on(rest)).await;
            }
        })
    }))
}

/// The same in handlers that block.
fn wait_on(mut rest: VecDeque<ActorRef<Puppet>>) -> Act {
    Act(Box::new(move |_| {
        if let Some(next) = rest.pop_front() {
            let _ = next.ask(wait_on(rest)).wait();
        }
    }))
}

/// A circle of so many is logged once, with all its names.
#[track_caller]
fn check_circle(name: &str, count: usize) {
    let system = system();
    let actors = spawn(&system, name, count);
    let mut rest: VecDeque<_> = actors[1..].iter().cloned().collect();
    rest.push_back(actors[0].clone());
    actors[0].tell(ask_on(rest)).expect("alive");
    eventually("the circle is logged", || !logged(name).is_empty());
    let circle = &logged(name)[0];
    for index in 0..count {
        assert!(circle.contains(&format!("\"{name}-{index}\"")), "{circle}");
    }
    assert_eq!(circle.matches(" -> ").count(), count, "{circle}");
    // Two more checks of the monitor, observed by another circle.
    let other = format!("after-{name}");
    let others = spawn(&system, &other, 1);
    let itself = others[0].clone();
    others[0].tell(ask_on([itself].into())).expect("alive");
    eventually("the other one is logged", || !logged(&other).is_empty());
    assert_eq!(
        logged(name)
            .iter()
            .filter(|it| !it.contains("after"))
            .count(),
        1
    );
    for actor in actors.iter().chain(&others) {
        actor.stop();
    }
    let report = system.shutdown(LIMIT / 10);
    assert!(report.unfinished.is_empty(), "{report:?}");
}

#[test]
fn an_actor_that_asks_itself_is_named() {
    check_circle("alone", 1);
}

#[test]
fn two_that_ask_each_other_are_named() {
    check_circle("two", 2);
}

#[test]
fn three_that_ask_each_other_are_named() {
    check_circle("three", 3);
}

/// A blocked handler is not stopped: only the end of its system releases it.
fn check_blocking_circle(name: &str, count: usize) {
    let system = system();
    let actors = spawn(&system, name, count);
    let mut rest: VecDeque<_> = actors[1..].iter().cloned().collect();
    rest.push_back(actors[0].clone());
    actors[0].tell(wait_on(rest)).expect("alive");
    eventually("the circle is logged", || !logged(name).is_empty());
    let circle = &logged(name)[0];
    for index in 0..count {
        assert!(circle.contains(&format!("\"{name}-{index}\"")), "{circle}");
    }
    drop(system);
}

#[test]
fn blocking_handlers_that_ask_each_other_are_named() {
    check_blocking_circle("blocked-two", 2);
    check_blocking_circle("blocked-three", 3);
}

#[test]
fn a_circle_with_a_deadline_ends_by_it() {
    let system = system();
    let actors = spawn(&system, "deadline", 2);
    let (there, back) = (actors[1].clone(), actors[0].clone());
    let replies = Notes::default();
    let noted = replies.clone();
    let first = Await(Box::new(move |_| {
        Box::pin(async move {
            let second = Await(Box::new(move |_| {
                Box::pin(async move { drop(back.ask(1_u64).timeout(LIMIT).await) })
            }));
            let asking = there.ask(second).timeout(Duration::from_secs(4));
            noted.push(asking.await.is_err());
        })
    }));
    actors[0].tell(first).expect("alive");
    assert_eq!(replies.wait_len(1), [true]);
    finish(&system);
}

#[test]
fn a_pipeline_of_asks_under_load_is_no_circle() {
    let system = system();
    let actors = spawn(&system, "pipe", 10);
    let until = Instant::now() + Duration::from_secs(5);
    let mut rounds = 0;
    while Instant::now() < until {
        let asks: Vec<_> = (0..20)
            .map(|_| {
                let first = actors[0].clone();
                let rest: VecDeque<_> = actors[1..].iter().cloned().collect();
                let asking = first.ask(ask_on(rest)).timeout(LIMIT);
                std::future::IntoFuture::into_future(asking)
            })
            .collect();
        for asking in asks {
            common::block_on(asking).expect("a reply");
        }
        rounds += 1;
    }
    assert!(rounds > 0);
    assert_eq!(logged("pipe"), Vec::<String>::new());
    finish(&system);
}

#[test]
fn two_that_ask_each_other_in_turns_are_no_circle() {
    let system = system();
    let actors = spawn(&system, "turns", 2);
    let until = Instant::now() + Duration::from_secs(5);
    let mut round = 0;
    while Instant::now() < until {
        let (from, to) = (&actors[round % 2], actors[(round + 1) % 2].clone());
        from.ask(ask_on([to].into())).wait().expect("a reply");
        round += 1;
    }
    assert_eq!(logged("turns"), Vec::<String>::new());
    finish(&system);
}

#[test]
fn a_circle_beside_an_ask_that_was_given_up_is_named() {
    let system = system();
    let actors = spawn(&system, "beside", 3);
    let (second, third, back) = (actors[1].clone(), actors[2].clone(), actors[0].clone());
    third
        .tell(Await(Box::new(|_| Box::pin(std::future::pending()))))
        .expect("alive");
    let script = Await(Box::new(move |_| {
        Box::pin(async move {
            let mut given_up = Box::pin(third.ask(1_u64).into_future());
            let mut asking = Box::pin(second.ask(ask_on([back].into())).into_future());
            // Both are polled once, one is given up, the other one is waited for.
            std::future::poll_fn(|cx| {
                let _ = given_up.as_mut().poll(cx);
                let _ = asking.as_mut().poll(cx);
                std::task::Poll::Ready(())
            })
            .await;
            drop(given_up);
            let _ = asking.await;
        })
    }));
    actors[0].tell(script).expect("alive");
    eventually("the circle is logged", || !logged("beside").is_empty());
    actors.iter().for_each(ActorRef::stop);
    let report = system.shutdown(LIMIT / 10);
    assert!(report.unfinished.is_empty(), "{report:?}");
}

/// An ask that is begun in a handler and dropped elsewhere leaves no note.
#[test]
fn an_ask_that_was_dropped_on_another_thread_makes_no_circle() {
    let system = system();
    let actors = spawn(&system, "moved", 2);
    let asks = Notes::default();
    let (to, kept) = (actors[1].clone(), asks.clone());
    to.tell(Await(Box::new(|_| {
        Box::pin(async { tokio::task::yield_now().await })
    })))
    .expect("alive");
    let begun = Await(Box::new(move |_| {
        Box::pin(async move {
            // Its reply does not come at once.
            let slow = Await(Box::new(|_| {
                Box::pin(async { tokio::task::yield_now().await })
            }));
            let mut asking = to.ask(slow).into_future();
            std::future::poll_fn(|cx| {
                assert!(std::pin::Pin::new(&mut asking).poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            kept.push(Arc::new(Mutex::new(Some(asking))));
        })
    }));
    actors[0].tell(begun).expect("alive");
    let asking = asks.wait_len(1).remove(0);
    drop(lock(&asking).take());
    drop(asks);
    // The second asks the first, which takes its time and asks no actor.
    let (first, until) = (actors[0].clone(), Instant::now() + Duration::from_secs(5));
    let slow = Await(Box::new(move |_| {
        Box::pin(std::future::poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if Instant::now() < until {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(())
            }
        }))
    }));
    let asks_first = Await(Box::new(move |_| {
        Box::pin(async move { drop(first.ask(slow).await) })
    }));
    actors[1].ask(asks_first).wait().expect("a reply");
    assert_eq!(logged("moved"), Vec::<String>::new());
    finish(&system);
}
