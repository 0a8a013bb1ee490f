//! [`Policy::Lazy`] counts messages and nothing else.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use freeboard_actor::{Actor, Context, Handler, SpawnOptions, System};
use freeboard_net::{
    http::{HttpServer, Limits},
    poller::{Policy, Poller},
    tcp::ListenerOptions,
};

use crate::common::{LONG, any, connect, echo, eventually, read_answer};

/// Messages of a budget.
const BUDGET: u32 = 8;
/// Longer than a tick of the monitor, after which workers poll and the monitor does under the other policies.
const PIECE: Duration = Duration::from_millis(2);
/// Each needs at least one poll. A worker that polled after each run would exceed the bound of the test many times.
const REQUESTS: u64 = 20;
/// More runs than the server's actors need for the test.
const SERVER_RUNS_MAX: u64 = 200;

/// Shared by an actor that only computes and the test.
#[derive(Default)]
struct Computing {
    messages: AtomicU64,
    is_over: AtomicBool,
}

struct Busy(Arc<Computing>);

struct Compute;

impl Actor for Busy {}

impl Handler<Compute> for Busy {
    type Reply = ();

    fn handle(&mut self, _: Compute, cx: &mut Context<Self>) {
        self.0.messages.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        while begun.elapsed() < PIECE {
            std::hint::spin_loop();
        }
        if !self.0.is_over.load(Ordering::SeqCst) {
            cx.actor_ref().tell(Compute).unwrap();
        }
    }
}

#[test]
fn a_busy_worker_polls_after_twice_its_budget_of_messages_and_nobody_else_does() {
    let poller = Poller::new(1, Policy::Lazy).unwrap();
    let system = System::builder()
        .workers(1)
        .budget_messages(BUDGET)
        .driver(poller.driver())
        .build()
        .unwrap();
    let (options, limits) = (ListenerOptions::default(), Limits::default());
    let server = HttpServer::bind(&system, &poller, any(), options, limits, echo()).unwrap();
    let computing = Arc::new(Computing::default());
    let busy = system.spawn_once(SpawnOptions::new(), Busy(computing.clone()));
    busy.unwrap().tell(Compute).unwrap();
    let messages = || computing.messages.load(Ordering::SeqCst);
    eventually("it computes", || messages() > 0);
    let mut peer = connect(server.address());
    for number in 0..REQUESTS {
        write!(peer, "GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut peer).1, format!("GET /{number} "));
    }
    let polls = poller.snapshot();
    let made = polls.polls().nonwait;
    // A poll while the worker is busy follows sixteen messages, however long they take.
    let counted = messages() + SERVER_RUNS_MAX;
    let text = format!("{made} polls, {} messages", messages());
    assert!(made * u64::from(2 * BUDGET) <= counted, "{text}");
    assert_eq!(polls.monitor.attempts, 0, "{polls:?}");
    computing.is_over.store(true, Ordering::SeqCst);
    assert_eq!(server.drain(LONG), 0);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn no_text_chooses_it() {
    for text in ["lazy", "Lazy", "lazy:200", "lazy:200:64"] {
        assert!(text.parse::<Policy>().is_err(), "{text}");
    }
}
