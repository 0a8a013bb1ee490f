//! Streams whose items become messages, and actors as sinks.

use super::common::*;

use freeboard_actor::{Attached, MessageSink, StreamMessage};
use futures_util::{SinkExt, Stream, StreamExt, stream};

/// The other end of a stream: what it will yield, and what was pulled.
#[derive(Clone, Default)]
struct Feed(Arc<Mutex<FeedState>>);

#[derive(Default)]
struct FeedState {
    items: VecDeque<u64>,
    is_closed: bool,
    is_dropped: bool,
    pulled: u64,
    waker: Option<Waker>,
}

impl Feed {
    fn change(&self, change: impl FnOnce(&mut FeedState)) {
        let waker = {
            let mut state = lock(&self.0);
            change(&mut state);
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn push(&self, items: Range<u64>) {
        self.change(|state| state.items.extend(items));
    }

    fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    fn pulled(&self) -> u64 {
        lock(&self.0).pulled
    }

    fn is_dropped(&self) -> bool {
        lock(&self.0).is_dropped
    }

    /// An item of `u64::MAX` panics.
    fn stream(&self) -> FeedStream {
        FeedStream(self.clone())
    }
}

struct FeedStream(Feed);

impl Stream for FeedStream {
    type Item = u64;

    fn poll_next(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<u64>> {
        let mut state = lock(&self.0.0);
        if let Some(item) = state.items.pop_front() {
            assert_ne!(item, u64::MAX, "as told");
            state.pulled += 1;
            return Poll::Ready(Some(item));
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for FeedStream {
    fn drop(&mut self) {
        lock(&self.0.0).is_dropped = true;
    }
}

/// Whether a lane sheds no accepted message by its age.
fn sheds_only_if_full(policy: &Overload) -> bool {
    !matches!(policy, Overload::CoDel { .. } | Overload::MaxAge(_))
}

/// Attaches a feed to a probe.
fn attach(probe: &ActorRef<Probe>, feed: &Feed) -> Attached {
    let stream = feed.stream();
    within(probe, move |cx| cx.attach(stream, |item: u64| item))
}

#[test]
fn items_come_in_order_between_the_start_and_the_end() {
    let system = system_of(1);
    let (probe, notes) = probe_with(&system, bounded(2));
    let feed = Feed::default();
    let stream = feed.stream();
    let attached = within(&probe, move |cx| {
        cx.attach_events(0, stream, |event| match event {
            StreamMessage::Started => Some(1_000),
            StreamMessage::Next(5) => None,
            StreamMessage::Next(item) => Some(item),
            StreamMessage::Finished => Some(2_000),
        })
    });
    notes.wait_len(1);
    feed.push(0..500);
    notes.wait_len(500);
    assert!(attached.is_attached() && !feed.is_dropped());
    feed.push(500..501);
    feed.close();
    let all = notes.wait_len(502);
    let items = (0..=500).filter(|it| *it != 5);
    let wanted: Vec<_> = std::iter::once(1_000).chain(items).chain([2_000]).collect();
    assert_eq!(all, wanted);
    eventually("it has ended", || !attached.is_attached());
    assert!(feed.is_dropped());
}

#[test]
fn a_lane_of_any_policy_bounds_what_is_pulled_and_sheds_nothing() {
    let system = system_of(2);
    for policy in POLICIES.into_iter().filter(sheds_only_if_full) {
        let lane_of_four = LaneConfig::bounded(4).overload(policy);
        let (probe, notes) = probe_with(&system, SpawnOptions::new().lane(lane_of_four));
        let feed = Feed::default();
        feed.push(1..2_000);
        attach(&probe, &feed);
        // Another sender takes slots meanwhile. Under these policies it would remove items.
        let may_tell = !matches!(policy, Overload::DropOldest | Overload::Coalesce);
        while notes.nonzero().len() < 1_999 {
            let (pulled, handled) = (feed.pulled(), notes.nonzero().len() as u64);
            // Read in this order, `handled` may only be too high.
            assert!(
                pulled <= handled + 4 + 1,
                "{policy:?}: {pulled} of {handled}"
            );
            if may_tell {
                let _ = probe.try_tell(0);
            }
        }
        assert_eq!(
            notes.nonzero(),
            (1..2_000).collect::<Vec<_>>(),
            "{policy:?}"
        );
    }
}

#[test]
fn a_paused_lane_pulls_nothing_and_a_resumed_one_continues() {
    let system = system_of(1);
    let (probe, notes) = probe_with(
        &system,
        SpawnOptions::new().lanes([LaneConfig::bounded(8); 2]),
    );
    let feed = Feed::default();
    let stream = feed.stream();
    within(&probe, move |cx| {
        cx.pause_lane(1);
        cx.attach_events(1, stream, |event| match event {
            StreamMessage::Next(item) => Some(item),
            _ => None,
        });
    });
    feed.push(1..5);
    assert_eq!(probe.ask(9).wait(), Ok(9));
    assert_eq!(probe.ask(9).wait(), Ok(9));
    assert_eq!(feed.pulled(), 0);
    act(&probe, |cx| cx.resume_lane(1));
    assert_eq!(notes.wait_len(6), [9, 9, 1, 2, 3, 4]);
    assert_eq!(lane(&probe, 1).handled, 4);
}

#[test]
fn a_panic_of_the_stream_fails_the_actor_and_a_restart_drops_the_stream() {
    let failures = Notes::default();
    let seen = failures.clone();
    let builder = System::builder().workers(1);
    let system = build(builder.on_failure(move |failure| seen.push(failure.to_string())));
    let (probe, notes) = probe_with(&system, SpawnOptions::new().supervision(at_once()));
    let (first, second) = (Feed::default(), Feed::default());
    let attached = [attach(&probe, &first), attach(&probe, &second)];
    first.push(1..3);
    notes.wait_len(2);
    first.push(u64::MAX..u64::MAX);
    first.change(|state| state.items.push_back(u64::MAX));
    eventually("it has failed", || failures.len() == 1);
    eventually("both are dropped", || {
        first.is_dropped() && second.is_dropped()
    });
    assert!(!attached.iter().any(Attached::is_attached));
    // A late wake-up does nothing, and the restarted actor attaches anew.
    second.push(3..4);
    let third = Feed::default();
    attach(&probe, &third);
    third.push(4..5);
    assert_eq!(notes.wait_len(3), [1, 2, 4]);

    let (feed, stream) = (Feed::default(), third.stream());
    drop(stream);
    let stream = feed.stream();
    within(&probe, move |cx| {
        cx.attach(stream, |_| -> u64 { panic!("as told") });
    });
    feed.push(5..6);
    eventually("it has failed", || failures.len() == 2);
    assert!(failures.all().iter().all(|it| it.contains("as told")));
    assert_eq!(probe.ask(6).wait(), Ok(6));
}

#[test]
fn detaching_and_terminating_drop_the_stream() {
    let system = system_of(1);
    let (probe, notes) = probe(&system);
    let (idle, busy) = (Feed::default(), Feed::default());
    let attached = attach(&probe, &idle);
    attach(&probe, &busy);
    attached.detach();
    attached.detach();
    assert!(idle.is_dropped() && !attached.is_attached());
    idle.push(1..2);
    busy.push(2..3);
    assert_eq!(notes.wait_len(1), [2]);
    probe.stop();
    ended(&probe);
    assert!(busy.is_dropped());
    busy.push(3..4);
    assert_eq!(busy.pulled(), 1);
}

#[test]
fn an_item_that_finds_no_capacity_before_the_stop_is_a_dead_letter() {
    let letters = Notes::default();
    let seen = letters.clone();
    let builder = System::builder().workers(1);
    let system = build(builder.on_dead_letter(move |letter| seen.push(letter.reason)));
    let (probe, notes) = probe_with(&system, bounded(1));
    let feed = Feed::default();
    let (stream, me) = (feed.stream(), probe.clone());
    let gate = Gate::default();
    let (held, done) = (gate.clone(), gate.clone());
    within(&probe, move |cx| {
        cx.attach(stream, move |item: u64| {
            // Another sender takes the slot after the item was pulled, and stops the actor.
            let _ = me.try_tell(held.clone());
            me.stop();
            item
        });
    });
    feed.push(1..9);
    ended(&probe);
    done.open();
    eventually("both are dead letters", || letters.len() == 2);
    let reasons = [ShedReason::Stopped, ShedReason::SenderStopped];
    assert!(
        reasons.iter().all(|it| letters.all().contains(it)),
        "{:?}",
        letters.all()
    );
    assert_eq!((feed.pulled(), notes.len()), (1, 0));
}

#[test]
fn a_graceful_stop_and_a_shutdown_do_not_wait_for_a_stream() {
    let system = system_of(1);
    let (draining, notes) = probe(&system);
    let feed = Feed::default();
    attach(&draining, &feed);
    feed.push(1..3);
    notes.wait_len(2);
    draining.stop_gracefully();
    ended(&draining);
    assert!(feed.is_dropped());
    let (open, endless) = (probe_with(&system, bounded(4)).0, Feed::default());
    attach(&open, &endless);
    let numbers = within(&open, |cx| {
        cx.attach(stream::iter(1..), |number: u64| number)
    });
    finish(&system);
    assert!(endless.is_dropped() && !numbers.is_attached());
}

#[cfg(feature = "tokio")]
#[test]
fn a_stream_may_use_the_attached_runtime() {
    let runtime = tokio_runtime();
    let system = build(System::builder().workers(1).tokio(runtime.handle().clone()));
    let (probe, notes) = probe(&system);
    let ticks = stream::unfold(1, |tick| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (tick <= 3).then_some((tick, tick + 1))
    });
    within(&probe, move |cx| {
        cx.attach(ticks, |tick: u64| tick);
    });
    assert_eq!(notes.wait_len(3), [1, 2, 3]);
}

fn is_ready(sink: &mut MessageSink<u64>) -> bool {
    poll_once(
        &mut poll_fn(|cx| sink.poll_ready_unpin(cx)),
        &Arc::default(),
    )
    .is_ready()
}

#[test]
fn a_sink_waits_at_a_full_lane_of_any_policy() {
    let system = system_of(2);
    for policy in POLICIES.into_iter().filter(sheds_only_if_full) {
        let options = [
            LaneConfig::bounded(8),
            LaneConfig::bounded(2).overload(policy),
        ];
        let (probe, notes) = probe_with(&system, SpawnOptions::new().lanes(options));
        let numbers = stream::iter((1..1_000_u64).map(Ok));
        let sent = block_on(numbers.forward(probe.sink::<u64>().lane(1)));
        assert_eq!(sent, Ok(()), "{policy:?}");
        assert_eq!(
            notes.wait_len(999),
            (1..1_000).collect::<Vec<_>>(),
            "{policy:?}"
        );
        assert_eq!(
            lane(&probe, 1).shed.iter().map(|it| it.count).sum::<u64>(),
            0
        );
    }
}

#[test]
fn a_ready_sink_holds_capacity_until_it_sends_or_is_dropped() {
    let letters = Notes::default();
    let seen = letters.clone();
    let builder = System::builder().workers(1);
    let system = build(builder.on_dead_letter(move |letter| seen.push(letter.reason)));
    let (probe, gate, notes) = held(&system, bounded(1));
    let (mut first, mut second) = (probe.recipient::<u64>().sink(), probe.sink::<u64>());
    assert!(is_ready(&mut first) && !is_ready(&mut second));
    drop(second);
    // A tell takes the slot: the sink keeps the message and is not ready.
    probe.try_tell(1).expect("the bound is not reached");
    first.start_send_unpin(2).expect("it waits");
    assert!(!is_ready(&mut first));
    gate.open();
    assert_eq!(block_on(first.flush()), Ok(()));
    assert_eq!(notes.wait_len(2), [1, 2]);

    let gate = hold(&probe);
    assert!(is_ready(&mut first));
    probe.try_tell(3).expect("the bound is not reached");
    first.start_send_unpin(4).expect("it waits");
    drop(first);
    assert_eq!(letters.all(), [ShedReason::SenderStopped]);
    gate.open();
    assert_eq!(notes.wait_len(3), [1, 2, 3]);
}

#[test]
fn a_sink_to_a_terminated_actor_returns_the_message() {
    let system = system_of(1);
    let (probe, gate, _) = full(&system, bounded(1));
    let mut sink = probe.sink::<u64>();
    assert_eq!(
        block_on(probe.sink().lane(1).send(5_u64)),
        Err(TellError::NoLane(5))
    );
    assert!(!is_ready(&mut sink));
    probe.stop();
    gate.open();
    assert_eq!(block_on(sink.send(6)), Err(TellError::Closed(6)));
    assert_eq!(block_on(sink.close()), Ok(()));
}

#[test]
fn a_topic_is_a_stream_with_a_bounded_buffer() {
    let system = system_of(1);
    let topic = system.topic::<u64>(TopicOptions::new());
    let mut stream = topic
        .stream(&system, 2, SlowSubscriber::Shed)
        .expect("a subscriber");
    let wakes = Arc::default();
    assert!(poll_once(&mut stream.next(), &wakes).is_pending());
    topic.publish(1);
    eventually("the reader is woken", || wakes.count() > 0);
    assert_eq!(block_on(stream.next()), Some(1));
    // One message for the reader, two in the buffer; at most one of these is not in the lane any more.
    let published = (2..20_u64)
        .map(|number| topic.publish(number).delivered)
        .sum::<u64>();
    assert!((2..=4).contains(&published), "{published}");
    assert_eq!(stream.shed(), Some(18 - published));
    // The buffer is read after the last handle is gone.
    drop(topic);
    let rest: Vec<_> = block_on(stream.by_ref().collect());
    assert_eq!(stream.shed(), None);
    assert_eq!(rest.len() as u64, published, "{rest:?}");
    assert!(rest.is_sorted() && rest[0] == 2);
}

#[test]
fn a_dropped_stream_unsubscribes_and_a_slow_one_may_be_unsubscribed() {
    let system = system_of(1);
    let topic = system.topic::<u64>(TopicOptions::new());
    let stream = topic
        .stream(&system, 1, SlowSubscriber::Wait)
        .expect("a subscriber");
    assert_eq!(topic.subscribers(), 1);
    drop(stream);
    eventually("it is unsubscribed", || topic.subscribers() == 0);
    let slow = topic
        .stream(&system, 1, SlowSubscriber::Unsubscribe)
        .expect("a subscriber");
    while topic.subscribers() > 0 {
        topic.publish(7);
    }
    let read: Vec<_> = block_on(slow.collect());
    assert!((1..=2).contains(&read.len()), "{read:?}");
    finish(&system);
    let late = topic.stream(&system, 1, SlowSubscriber::Wait);
    assert!(late.is_err() || block_on(late.expect("checked").next()).is_none());
}
