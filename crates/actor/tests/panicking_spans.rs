//! A subscriber that panics when spans are entered, left or closed: no message is lost, and no actor fails for it.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(all(not(loom), feature = "spans"))]

#[path = "it/common.rs"]
mod common;

use common::*;

use tracing::{Event, Metadata, Subscriber, span};

const ENTER: u8 = 1;
const EXIT: u8 = 2;
const CLOSE: u8 = 3;

/// In which of these calls it panics.
static MODE: AtomicU8 = AtomicU8::new(0);

struct Panics;

fn panic_in(mode: u8) {
    if MODE.load(Ordering::SeqCst) == mode {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == "freeboard_actor"
    }
    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}
    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &span::Id) {
        panic_in(ENTER);
    }
    fn exit(&self, _span: &span::Id) {
        panic_in(EXIT);
    }
    fn try_close(&self, _span: span::Id) -> bool {
        panic_in(CLOSE);
        true
    }
}

fn check(mode: u8, is_async: bool) {
    MODE.store(mode, Ordering::SeqCst);
    let (system, ledger) = (system_of(2), Ledger::default());
    let actor = probe(&system).0;
    let scripted = probe(&system).0;
    let token = ledger.token();
    let reply = if is_async {
        let script = Await(Box::new(move |_| Box::pin(async move { drop(token) })));
        let reply = scripted.ask(script).timeout(LIMIT).wait();
        reply.map_err(|it| it.to_string())
    } else {
        let reply = actor.ask(token).timeout(LIMIT).wait();
        reply.map_err(|it| it.to_string())
    };
    MODE.store(0, Ordering::SeqCst);
    assert_eq!(reply, Ok(()), "mode {mode}, async {is_async}");
    ledger.settle(1);
    assert!(actor.is_alive() && scripted.is_alive());
}

// One test: the subscriber and its mode are the process's.
#[test]
fn no_message_is_lost_and_no_actor_fails() {
    tracing::subscriber::set_global_default(Panics).expect("the first one");
    for mode in [ENTER, EXIT, CLOSE] {
        check(mode, false);
        check(mode, true);
    }
    // Beside a handler's own panic.
    MODE.store(EXIT, Ordering::SeqCst);
    let system = system_of(2);
    let scripted = probe(&system).0;
    act(&scripted, |_| panic!("on purpose"));
    ended(&scripted);
    MODE.store(0, Ordering::SeqCst);
}
