//! Traces over nodes.

use std::sync::{Arc, Mutex, OnceLock};

use freeboard_actor::{Actor, ActorRef, Context, Handler};
use freeboard_remote::{Node, RemoteRef, TraceContext, TraceLayer};
use freeboard_test_servers::LONG;
use tracing_subscriber::{Registry, layer::SubscriberExt};

use crate::actors::{Add, SEEDS, end, real_nodes, two_nodes};

/// All spans of this process have ids from now on.
fn with_traces() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let subscriber = Registry::default().with(TraceLayer);
        tracing::subscriber::set_global_default(subscriber).expect("the only one");
    });
}

type Contexts = Arc<Mutex<Vec<TraceContext>>>;

/// Sends to another node what it is told to.
struct Front(RemoteRef<Add>, Contexts);
struct Back(Contexts);
struct Tell(u64);
#[derive(Debug, PartialEq)]
struct Ask(u64);

impl Actor for Front {}
impl Actor for Back {}

fn note(contexts: &Contexts) {
    let context = TraceContext::current().expect("a handler has a span");
    contexts.lock().expect("no panic").push(context);
}

impl Handler<Tell> for Front {
    type Reply = ();

    fn handle(&mut self, tell: Tell, _: &mut Context<Self>) {
        note(&self.1);
        self.0.tell(Add(tell.0)).expect("accepted");
    }
}

impl Handler<Ask> for Front {
    type Reply = u64;

    fn handle(&mut self, ask: Ask, _: &mut Context<Self>) -> u64 {
        note(&self.1);
        self.0
            .ask(Add(ask.0))
            .timeout(LONG)
            .wait()
            .expect("a reply")
    }
}

impl Handler<Add> for Back {
    type Reply = u64;

    fn handle(&mut self, add: Add, _: &mut Context<Self>) -> u64 {
        note(&self.0);
        add.0
    }
}

fn front_and_back(a: &Node, b: &Node) -> (ActorRef<Front>, Contexts, Contexts) {
    with_traces();
    let (fronts, backs) = (Contexts::default(), Contexts::default());
    let back = a.system().spawn(Back(backs.clone()));
    a.publish::<Add, _>("back", &back).expect("published");
    let to = b.remote::<Add>("back").expect("a valid name");
    let front = b.system().spawn(Front(to, fronts.clone()));
    (front, fronts, backs)
}

/// Each handler of `a` continues the trace of the handler of `b` that sent the message; traces differ.
fn check_traces(fronts: &Contexts, backs: &Contexts) {
    let traces = |of: &Contexts| -> Vec<_> {
        let contexts = of.lock().expect("no panic");
        contexts.iter().map(|it| it.trace_id).collect()
    };
    assert_eq!(traces(fronts), traces(backs));
    let spans = |of: &Contexts| of.lock().expect("no panic")[0].span_id;
    assert_ne!(spans(fronts), spans(backs));
    assert_ne!(traces(fronts)[0], traces(fronts)[1]);
}

#[test]
fn a_handler_of_another_node_continues_the_trace() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (front, fronts, backs) = front_and_back(&a, &b);
        front.tell(Tell(1)).expect("alive");
        world.until(|| backs.lock().expect("no panic").len() == 1);
        assert_eq!(front.ask(Ask(2)).wait(), Ok(2), "seed {seed}");
        check_traces(&fronts, &backs);
    }
}

#[test]
fn a_trace_goes_over_a_real_server() {
    let Some((_server, a, b)) = real_nodes() else {
        return;
    };
    let (front, fronts, backs) = front_and_back(&a, &b);
    front.tell(Tell(1)).expect("alive");
    assert_eq!(front.ask(Ask(2)).timeout(LONG).wait(), Ok(2));
    check_traces(&fronts, &backs);
    end(&[a, b]);
}
