//! Circles of asks: the log names them. Long pipelines of asks are none.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(not(loom))]

#[path = "it/common.rs"]
mod common;

use common::*;

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt as _},
};

/// Notes the circles that are logged in this process.
#[derive(Clone, Default)]
struct Circles(Notes<String>);

impl Visit for Circles {
    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "circle" {
            self.0.push(value.to_owned());
        }
    }
}

impl<S: Subscriber> Layer<S> for Circles {
    fn on_event(&self, event: &Event<'_>, _cx: LayerContext<'_, S>) {
        event.record(&mut self.clone());
    }
}

fn circles() -> &'static Notes<String> {
    static CIRCLES: OnceLock<Circles> = OnceLock::new();
    let install = || {
        let circles = Circles::default();
        let subscriber = tracing_subscriber::registry().with(circles.clone());
        tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");
        circles
    };
    &CIRCLES.get_or_init(install).0
}

/// Circles with an actor of this name.
fn logged(name: &str) -> Vec<String> {
    let name = format!("\"{name}-");
    let mut logged = circles().all();
    logged.retain(|circle| circle.contains(&name));
    logged
}

/// Actors with names of this beginning.
fn spawn(system: &System, name: &str, count: usize) -> Vec<ActorRef<Probe>> {
    circles();
    let spawn = |index| {
        let options = SpawnOptions::new().name(format!("{name}-{index}"));
        system.spawn_once(options, Probe::default()).expect("free")
    };
    (0..count).map(spawn).collect()
}

/// Asks the first of them, which asks the next one, in async handlers.
fn ask_on(mut rest: VecDeque<ActorRef<Probe>>) -> Await {
    Await(Box::new(move |_| {
        Box::pin(async move {
            if let Some(next) = rest.pop_front() {
                let _ = next.ask(ask_on(rest)).await;
            }
        })
    }))
}

/// The same in handlers that block.
fn wait_on(mut rest: VecDeque<ActorRef<Probe>>) -> Act {
    Act(Box::new(move |_| {
        if let Some(next) = rest.pop_front() {
            let _ = next.ask(wait_on(rest)).wait();
        }
    }))
}

/// The members ask each other in a circle, which is logged with the names of all.
#[track_caller]
fn check_logged(
    name: &str,
    members: &[ActorRef<Probe>],
    begin: fn(&ActorRef<Probe>, VecDeque<ActorRef<Probe>>),
) {
    let mut rest: VecDeque<_> = members[1..].iter().cloned().collect();
    rest.push_back(members[0].clone());
    begin(&members[0], rest);
    eventually("the circle is logged", || !logged(name).is_empty());
    let circle = &logged(name)[0];
    for index in 0..members.len() {
        assert!(circle.contains(&format!("\"{name}-{index}\"")), "{circle}");
    }
    assert_eq!(circle.matches(" -> ").count(), members.len(), "{circle}");
}

#[test]
fn actors_that_ask_each_other_are_named_once() {
    let asks = |actor: &ActorRef<Probe>, rest| actor.tell(ask_on(rest)).expect("alive");
    for (name, count) in [("alone", 1), ("two", 2), ("three", 3)] {
        let system = system();
        let actors = spawn(&system, name, count);
        check_logged(name, &actors, asks);
        // Two more checks of the monitor, observed by another circle.
        let other = format!("after-{name}");
        let others = spawn(&system, &other, 1);
        check_logged(&other, &others, asks);
        let again = logged(name);
        assert_eq!(again.iter().filter(|it| !it.contains("after")).count(), 1);
        actors.iter().chain(&others).for_each(ActorRef::stop);
        let report = system.shutdown(LIMIT / 10);
        assert!(report.unfinished.is_empty(), "{report:?}");
    }
}

#[test]
fn blocking_handlers_that_ask_each_other_are_named() {
    for (name, count) in [("blocked-two", 2), ("blocked-three", 3)] {
        let system = system();
        check_logged(name, &spawn(&system, name, count), |actor, rest| {
            actor.tell(wait_on(rest)).expect("alive");
        });
        // A blocked handler is not stopped: only the end of its system releases it.
        system.abandon();
    }
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
                IntoFuture::into_future(asking)
            })
            .collect();
        for asking in asks {
            block_on(asking).expect("a reply");
        }
        rounds += 1;
    }
    assert!(rounds > 0);
    assert_eq!(logged("pipe"), Vec::<String>::new());
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
}

#[test]
fn a_circle_beside_an_ask_that_was_given_up_is_named() {
    let system = system();
    let actors = spawn(&system, "beside", 3);
    let (second, third, back) = (actors[1].clone(), actors[2].clone(), actors[0].clone());
    third
        .tell(Await(Box::new(|_| Box::pin(pending()))))
        .expect("alive");
    let script = Await(Box::new(move |_| {
        Box::pin(async move {
            let mut given_up = Box::pin(third.ask(1_u64).into_future());
            let mut asking = Box::pin(second.ask(ask_on([back].into())).into_future());
            // Both are polled once, one is given up, the other one is waited for.
            poll_fn(|cx| {
                let _ = given_up.as_mut().poll(cx);
                let _ = asking.as_mut().poll(cx);
                Poll::Ready(())
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
            poll_fn(|cx| {
                assert!(Pin::new(&mut asking).poll(cx).is_pending());
                Poll::Ready(())
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
        Box::pin(poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if Instant::now() < until {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }))
    }));
    let asks_first = Await(Box::new(move |_| {
        Box::pin(async move { drop(first.ask(slow).await) })
    }));
    actors[1].ask(asks_first).wait().expect("a reply");
    assert_eq!(logged("moved"), Vec::<String>::new());
}
