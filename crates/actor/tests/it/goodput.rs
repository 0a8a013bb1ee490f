//! A service at up to ten times its capacity, in virtual time: lanes that shed by age and adaptive limits keep its
//! goodput, and the wait of what it handles short. The laboratory's scene `goodput` measures the same in real time.

use freeboard_actor::testing::TestSystem;
use freeboard_meter::clock;

use crate::common::*;

const MS: u64 = 1_000_000;
/// What a request takes.
const SERVICE: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_millis(500);
/// The part of the time that is not measured at the beginning.
const WARM_UP_NS: u64 = 2_000 * MS;
const END_NS: u64 = 4_000 * MS;

struct Request {
    sent_ns: u64,
    is_urgent: bool,
}

/// Records of each request when it was sent, how long it took, and whether it was urgent.
#[derive(Clone, Default)]
struct Service(Notes<(u64, u64, bool)>);

impl Actor for Service {}

impl Handler<Request> for Service {
    type Reply = ();
    fn handle(&mut self, request: Request, _cx: &mut Context<Self>) {
        let took_ns = clock::now_ns() - request.sent_ns;
        self.0.push((request.sent_ns, took_ns, request.is_urgent));
    }
}

/// Sends a request at each tick; each tenth is urgent.
struct Source {
    group: Group<Service>,
    sent: u64,
}

#[derive(Clone)]
struct Tick;

impl Actor for Source {}

impl Handler<Tick> for Source {
    type Reply = ();
    fn handle(&mut self, _tick: Tick, _cx: &mut Context<Self>) {
        let request = Request {
            sent_ns: clock::now_ns(),
            is_urgent: self.sent.is_multiple_of(10),
        };
        self.sent += 1;
        let lane = usize::from(!request.is_urgent);
        // A refused one is lost, as that of a client that goes away.
        let _ = self.group.any().tell_lane(lane, request);
    }
}

/// Loads a group of one with these lanes by `factor` times its capacity.
#[track_caller]
fn check(factor: u32, lane_config: LaneConfig, limit: Option<AdaptiveLimit>) {
    let system = TestSystem::new(1);
    let lanes = vec![lane_config.batch(u32::MAX), lane_config.batch(1)];
    let mut options = GroupOptions::new(1).member(SpawnOptions::new().lanes(lanes));
    if let Some(limit) = limit {
        options = options.adaptive(limit);
    }
    let service = Service::default();
    let made = service.clone();
    let group = system.spawn_group(options, move |_| made.clone());
    let group = group.expect("valid options");
    let member = group.members()[0].clone();
    system.faults(&member).slow(SERVICE);
    let source = system.spawn(Source { group, sent: 0 });
    let ticks = SERVICE / factor;
    source.tell(Begin(ticks)).expect("alive");
    system.run_until(|| clock::now_ns() >= END_NS);
    let deadline_ns = DEADLINE.as_nanos() as u64;
    let handled = service.0.all();
    let measured = handled
        .iter()
        .filter(|(sent_ns, took_ns, _)| sent_ns + took_ns > WARM_UP_NS);
    let mut took: Vec<u64> = measured.map(|(_, took_ns, _)| *took_ns).collect();
    took.sort_unstable();
    let in_time = took.iter().filter(|it| **it <= deadline_ns).count();
    let capacity = (END_NS - WARM_UP_NS) / SERVICE.as_nanos() as u64;
    let what = format!("{factor} x, {limit:?}, {in_time} in time of {capacity}");
    assert!(in_time as u64 * 100 >= capacity * 95, "{what}");
    let p99 = took[took.len() * 99 / 100];
    assert!(p99 * 100 <= deadline_ns * 74, "{what}: p99 {p99} ns");
    // Each tenth of the load is urgent: at ten times the capacity it is as much as the service can do.
    let sent_urgent = (END_NS - WARM_UP_NS) / (10 * ticks.as_nanos() as u64);
    let is_measured = |sent_ns: u64| sent_ns >= WARM_UP_NS - deadline_ns;
    let urgent = handled.iter().filter(|(sent_ns, took_ns, is_urgent)| {
        *is_urgent && is_measured(*sent_ns) && *took_ns <= deadline_ns
    });
    assert!(urgent.count() as u64 * 100 >= sent_urgent * 99, "{what}");
    // A message that is being handled is in no count.
    source.stop();
    system.faults(&member).clear();
    system.advance(SERVICE);
    for lane in member.snapshot().lanes {
        check_balance(&lane);
        assert!(lane.high_water <= lane.bound, "{lane:?}");
    }
}

struct Begin(Duration);

impl Handler<Begin> for Source {
    type Reply = ();
    fn handle(&mut self, begin: Begin, cx: &mut Context<Self>) {
        cx.every(begin.0, Tick).expect("a timer");
    }
}

#[test]
fn lanes_that_shed_by_age_keep_the_goodput() {
    let overload = Overload::CoDel {
        target: DEADLINE / 5,
        interval: DEADLINE,
    };
    let lane_config = LaneConfig::bounded(1_000).overload(overload);
    for factor in [1, 2, 10] {
        check(factor, lane_config, None);
        check(factor, lane_config.lifo_when_overloaded(), None);
    }
}

#[test]
fn an_adaptive_limit_keeps_the_goodput() {
    let lane_config = LaneConfig::bounded(1_000).overload(Overload::Reject);
    let limit = AdaptiveLimit {
        window: Duration::from_millis(100),
        ..AdaptiveLimit::default()
    };
    for factor in [1, 2, 10] {
        check(factor, lane_config, Some(limit));
    }
}
