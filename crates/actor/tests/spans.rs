//! The spans around handlers, as a subscriber sees them.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(feature = "spans")]

#[path = "it/common.rs"]
mod common;

use common::*;

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context as LayerContext, SubscriberExt as _},
    registry::LookupSpan,
};

/// One span as the subscriber recorded it.
#[derive(Clone, Debug, Default)]
struct Seen {
    id: u64,
    parent: Option<u64>,
    fields: HashMap<String, String>,
    level: Option<Level>,
    enters: usize,
    exits: usize,
    /// Events that came while it was entered.
    events: Vec<String>,
    is_closed: bool,
}

/// Every span `handle` of this process by its number, in the order of their making.
type Log = Arc<Mutex<Vec<(u64, Seen)>>>;

struct Watcher(Log);

impl Watcher {
    fn change(&self, id: &Id, change: impl FnOnce(&mut Seen)) {
        let mut log = lock(&self.0);
        // The last, for numbers are used again.
        let seen = log
            .iter_mut()
            .rev()
            .find(|(known, _)| *known == id.into_u64());
        if let Some((_, seen)) = seen {
            change(seen);
        }
    }
}

struct Fields<'a>(&'a mut HashMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Watcher {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        if attributes.metadata().name() == "handle" {
            let parent = context.span(id).and_then(|span| span.parent());
            let mut seen = Seen {
                id: id.into_u64(),
                parent: parent.map(|parent| parent.id().into_u64()),
                level: Some(*attributes.metadata().level()),
                ..Seen::default()
            };
            attributes.record(&mut Fields(&mut seen.fields));
            lock(&self.0).push((id.into_u64(), seen));
        }
    }

    fn on_enter(&self, id: &Id, _: LayerContext<'_, S>) {
        self.change(id, |seen| seen.enters += 1);
    }

    fn on_exit(&self, id: &Id, _: LayerContext<'_, S>) {
        self.change(id, |seen| seen.exits += 1);
    }

    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        let mut fields = HashMap::new();
        event.record(&mut Fields(&mut fields));
        let message = fields.remove("message").unwrap_or_default();
        if let Some(span) = context.lookup_current() {
            self.change(&span.id(), |seen| seen.events.push(message));
        }
    }

    fn on_close(&self, id: Id, _: LayerContext<'_, S>) {
        self.change(&id, |seen| seen.is_closed = true);
    }
}

/// The recorded spans of one actor; the subscriber is the process's own.
fn seen(actor: u64) -> Vec<Seen> {
    let actor = actor.to_string();
    let log = lock(log());
    let spans = log.iter().filter(|(_, it)| it.fields["actor"] == actor);
    spans.map(|(_, seen)| seen.clone()).collect()
}

fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let subscriber = Registry::default().with(Watcher(log.clone()));
        tracing::subscriber::set_global_default(subscriber).expect("the only one");
        log
    })
}

#[derive(Default)]
struct Speaker;

/// Says this.
struct Say(&'static str);
/// Says this, then waits so many polls, then says it again.
struct SayTwice(&'static str, usize);
struct Watch(ActorRef<Speaker>);

impl Actor for Speaker {}

impl Handler<Say> for Speaker {
    type Reply = ();
    fn handle(&mut self, msg: Say, _cx: &mut Context<Self>) {
        tracing::info!("{}", msg.0);
        assert!(msg.0 != "panic", "as told");
    }
}

impl AsyncHandler<SayTwice> for Speaker {
    type Reply = ();
    async fn handle(&mut self, msg: SayTwice, _cx: &mut Context<Self>) {
        tracing::info!("{}", msg.0);
        let mut left = msg.1;
        poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        tracing::info!("{}", msg.0);
    }
}

impl Handler<Watch> for Speaker {
    type Reply = ();
    fn handle(&mut self, msg: Watch, cx: &mut Context<Self>) {
        cx.watch(&msg.0);
    }
}

impl Handler<Terminated> for Speaker {
    type Reply = ();
    fn handle(&mut self, _msg: Terminated, _cx: &mut Context<Self>) {
        tracing::info!("it has ended");
    }
}

/// Each span was left as often as it was entered, and is over.
fn check_over(spans: &[Seen]) {
    for seen in spans {
        assert!(seen.is_closed && seen.enters == seen.exits, "{seen:?}");
    }
}

#[test]
fn a_handler_runs_within_a_span_that_says_whose_it_is() {
    log();
    let system = system_of(1);
    let options = SpawnOptions::new()
        .name("speaker")
        .lanes([Default::default(); 2]);
    let speaker = system
        .spawn_with(options, || Speaker)
        .expect("valid options");
    speaker.tell_lane(1, Say("first")).expect("capacity");
    eventually("it is handled", || seen(speaker.id().get()).len() == 1);
    speaker.ask(Say("second")).wait().expect("a reply");
    finish(&system);
    let spans = seen(speaker.id().get());
    check_over(&spans);
    let [first, second] = &spans[..] else {
        panic!("two messages: {spans:?}");
    };
    assert_eq!(first.level, Some(Level::DEBUG));
    assert_eq!(
        (first.enters, &first.events[..]),
        (1, &["first".to_owned()][..])
    );
    assert_eq!(first.fields["name"], "speaker");
    assert_eq!(first.fields["actor_type"], type_name::<Speaker>());
    assert_eq!(first.fields["message_type"], type_name::<Say>());
    assert_eq!(first.fields["lane"], "1");
    assert_eq!(second.fields["lane"], "0");
    assert_eq!(second.events, ["second"]);
}

#[test]
fn an_async_handler_is_within_its_span_for_each_poll_and_no_other() {
    log();
    let system = system_of(1);
    let speakers: Vec<_> = (0..3).map(|_| system.spawn(Speaker)).collect();
    for speaker in &speakers {
        speaker.tell(SayTwice("twice", 4)).expect("capacity");
        speaker.tell(Say("after")).expect("capacity");
    }
    finish(&system);
    for speaker in &speakers {
        let spans = seen(speaker.id().get());
        check_over(&spans);
        let [held, after] = &spans[..] else {
            panic!("two messages: {spans:?}");
        };
        assert_eq!(held.events, ["twice", "twice"]);
        // Once to make the future, and once for each of its polls.
        assert_eq!(held.enters, 1 + 5);
        assert_eq!(after.events, ["after"]);
        assert!(!after.fields.contains_key("name"), "{after:?}");
    }
}

#[test]
fn a_panic_leaves_the_span() {
    log();
    let system = system_of(1);
    let speaker = system.spawn(Speaker);
    speaker.tell(Say("panic")).expect("capacity");
    ended(&speaker);
    let other = system.spawn(Speaker);
    other.ask(Say("other")).wait().expect("a reply");
    finish(&system);
    let spans = seen(speaker.id().get());
    check_over(&spans);
    assert_eq!(spans[0].events, ["panic"]);
    let spans = seen(other.id().get());
    assert_eq!(
        (spans.len(), &spans[0].events[..]),
        (1, &["other".to_owned()][..])
    );
}

#[test]
fn a_future_that_is_dropped_closes_its_span() {
    log();
    let system = system_of(1);
    let speaker = system.spawn(Speaker);
    speaker
        .tell(SayTwice("never", usize::MAX))
        .expect("capacity");
    let has_spoken = |seen: Vec<Seen>| seen.iter().any(|it| !it.events.is_empty());
    eventually("it is held", || has_spoken(seen(speaker.id().get())));
    speaker.stop();
    ended(&speaker);
    finish(&system);
    let spans = seen(speaker.id().get());
    check_over(&spans);
    assert_eq!(spans[0].events, ["never"]);
}

#[test]
fn a_notice_has_a_span_without_a_lane() {
    log();
    let system = system_of(1);
    let (watcher, watched) = (system.spawn(Speaker), system.spawn(Speaker));
    watcher.ask(Watch(watched.clone())).wait().expect("a reply");
    watched.stop();
    eventually("it is told", || seen(watcher.id().get()).len() == 2);
    finish(&system);
    let spans = seen(watcher.id().get());
    check_over(&spans);
    assert_eq!(spans[1].events, ["it has ended"]);
    assert!(!spans[1].fields.contains_key("lane"), "{:?}", spans[1]);
}

#[test]
fn nothing_outside_of_a_handler_is_within_its_span() {
    log();
    let system = system_of(2);
    let speaker = system.spawn(Speaker);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    speaker.tell(Say("inside")).expect("capacity");
                    tracing::info!("outside");
                }
            });
        }
    });
    finish(&system);
    let spans = seen(speaker.id().get());
    check_over(&spans);
    assert_eq!(spans.len(), 400);
    for seen in spans {
        assert_eq!(seen.events, ["inside"]);
    }
}

/// The span of the only message of this type that the actor has handled.
fn only(actor: &ActorRef<Probe>, message_type: &str) -> Seen {
    let spans = seen(actor.id().get());
    let mut spans = spans
        .into_iter()
        .filter(|it| it.fields["message_type"] == message_type);
    let first = spans.next().expect("it was handled");
    assert!(spans.next().is_none(), "{message_type}");
    first
}

#[test]
fn the_sender_s_span_is_the_parent_of_the_handler_s() {
    log();
    let runtime = tokio_runtime();
    let system = build(System::builder().workers(1).tokio(runtime.handle().clone()));
    let [first, second] = [probe(&system), probe(&system)];
    let (told, numbers) = second;
    let (second, target) = (first.1, told.clone());
    let first = first.0;
    let root = tracing::info_span!("root");
    root.in_scope(|| {
        act(&first, move |cx| {
            target.tell(1_u64).expect("capacity");
            cx.send_all(&target, [2_u64, 3]).expect("capacity");
            let me = cx.actor_ref();
            cx.send_after(Duration::ZERO, 4_u64).expect("a timer");
            cx.pipe(async move { me.id().get() }, |_| 5_u64)
                .expect("a runtime");
        });
        assert_eq!(first.ask(6_u64).wait(), Ok(6));
    });
    numbers.wait_len(3);
    second.wait_len(3);
    // Neither the root nor the asks of this span are in a span of this thread any more.
    told.ask(7).wait().expect("a reply");
    finish(&system);

    let acted = only(&first, type_name::<Act>());
    assert_eq!(acted.parent, root.id().map(|id| id.into_u64()));
    let number = type_name::<u64>();
    let of = |actor: &ActorRef<Probe>, parent: Option<u64>| {
        let spans = seen(actor.id().get()).into_iter();
        let is_of = |it: &Seen| it.fields["message_type"] == number && it.parent == parent;
        spans.filter(is_of).count()
    };
    let (root, acted) = (acted.parent, Some(acted.id));
    assert_eq!((of(&told, acted), of(&told, None)), (3, 1));
    assert_eq!((of(&first, acted), of(&first, root)), (2, 1));
}

#[test]
fn the_span_that_asks_or_attaches_is_the_parent_of_what_comes_back() {
    log();
    let system = system_of(1);
    let [(asker, outcomes), (asked, _), (silent, _)] = [(); 3].map(|()| probe(&system));
    act_async(&silent, |_| Box::pin(pending()));
    let (to, nobody) = (asked.clone(), silent.clone());
    act(&asker, move |cx| {
        cx.ask(&to, 1_u64, |_| 2_u64).expect("accepted");
        let ask = nobody.ask(3_u64).timeout(Duration::from_millis(1));
        cx.ask_with(ask, |_| 4_u64).expect("accepted");
        cx.attach(futures_util::stream::iter([5_u64]), |number| number);
    });
    outcomes.wait_len(3);
    silent.stop();
    finish(&system);
    let acted = Some(only(&asker, type_name::<Act>()).id);
    // Besides the notices that wake a stream and look for expired asks.
    let back = seen(asker.id().get()).into_iter();
    let back = back.filter(|it| it.fields["message_type"] == type_name::<u64>());
    let parents: Vec<_> = back.map(|it| it.parent).collect();
    assert_eq!(parents, [acted; 3]);
    assert_eq!(only(&asked, type_name::<u64>()).parent, acted);
}

#[test]
fn an_async_handler_passes_its_span_on() {
    log();
    let system = system_of(1);
    let ((asker, _), (asked, _)) = (probe(&system), probe(&system));
    let to = asked.clone();
    act_async(&asker, move |_cx| {
        Box::pin(async move {
            poll_fn(|_| Poll::Ready(())).await;
            to.ask(1_u64).await.expect("a reply");
        })
    });
    eventually("it is handled", || !seen(asked.id().get()).is_empty());
    finish(&system);
    let parent = only(&asker, type_name::<Await>());
    assert_eq!(only(&asked, type_name::<u64>()).parent, Some(parent.id));
    assert_eq!(parent.parent, None);
}
