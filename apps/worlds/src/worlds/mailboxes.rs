//! Senders flood a receiver through lanes with each policy and through a dam, while it fails, is slow and wakes late.
//!
//! It holds: order per sender and lane; a lane that makes senders wait loses nothing but what a panic had in hand; a dam
//! lets through no more than its credit; a cancelled timer does not fire; each lane's counters add up.

use std::time::Duration;

use freeboard::{
    prelude::*,
    sim::{FaultRates, World},
    testing::expect_counts,
};

use crate::record::{Mistakes, Record, Sequences};

/// The lanes of a receiver: their policies.
const LANES: [Overload; 5] = [
    Overload::Wait,
    Overload::DropOldest,
    Overload::Reject,
    Overload::DropNewest,
    Overload::Wait,
];

/// The lane behind which the dam is.
const DAM_LANE: usize = 4;
const DAM_CREDIT: u64 = 6;
const LANE_BOUND: usize = 8;
const RUN_TIME: Duration = Duration::from_secs(10);
const SETTLE_TIME: Duration = Duration::from_secs(120);

/// A numbered message of a sender.
#[derive(Clone)]
struct Numbered {
    sender: usize,
    lane: usize,
    number: u64,
}

/// What came, by the receiver's own account, which outlives its restarts.
type Account = Record<Sequences>;

struct Receiver {
    account: Account,
    mistakes: Mistakes,
}

impl Actor for Receiver {}

impl Handler<Numbered> for Receiver {
    type Reply = ();

    fn handle(&mut self, msg: Numbered, _: &mut Context<Self>) {
        let came = self.account.lock().came(msg.sender, msg.lane, msg.number);
        if let Err(text) = came {
            self.mistakes.note(text);
        }
    }
}

struct Sender {
    id: usize,
    receiver: ActorRef<Receiver>,
    dam: Recipient<Numbered>,
    /// Of each lane.
    numbers: [u64; LANES.len()],
    /// Messages to lane 0, of all senders.
    told: Record<u64>,
    mistakes: Mistakes,
    bursts: u64,
    burst: u64,
    period: Duration,
    timer: Option<freeboard::TimerKey>,
    /// A timer that was set to be cancelled, and its number.
    unwanted: Option<(freeboard::TimerKey, u64)>,
    cancelled: u64,
}

#[derive(Clone)]
struct Burst;
struct Unwanted(u64);

impl Actor for Sender {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.timer = Some(cx.every(self.period, Burst).expect("a timer"));
    }
}

impl Handler<Burst> for Sender {
    type Reply = ();

    fn handle(&mut self, _: Burst, cx: &mut Context<Self>) {
        if let Some((timer, number)) = self.unwanted.take()
            && cx.cancel(timer)
        {
            self.cancelled = number;
        }
        if self.bursts == 0 {
            self.timer.take().map(|timer| cx.cancel(timer));
            return;
        }
        self.bursts -= 1;
        for lane in 0..LANES.len() {
            for _ in 0..self.burst {
                self.send(lane);
            }
        }
        // It is due with the next burst, which cancels it if it comes first.
        let unwanted = Unwanted(self.bursts + 1);
        let timer = cx.send_after(self.period, unwanted).expect("a timer");
        self.unwanted = Some((timer, self.bursts + 1));
    }
}

impl Handler<Unwanted> for Sender {
    type Reply = ();

    fn handle(&mut self, Unwanted(number): Unwanted, _: &mut Context<Self>) {
        if self.cancelled == number {
            let text = format!("sender {}: a cancelled timer fired", self.id);
            self.mistakes.note(text);
        }
    }
}

impl Sender {
    fn send(&mut self, lane: usize) {
        self.numbers[lane] += 1;
        let msg = Numbered {
            sender: self.id,
            lane,
            number: self.numbers[lane],
        };
        let told = match lane {
            DAM_LANE => self.dam.tell(msg),
            lane => self.receiver.tell_lane(lane, msg),
        };
        // The lane counts a refusal.
        if lane == 0 && told.is_ok() {
            *self.told.lock() += 1;
        }
    }
}

pub(crate) fn run(world: &mut World) {
    let (account, mistakes) = (Account::default(), Mistakes::watched(world));
    let senders = world.size("senders", 1..=4);
    let burst = world.size("burst", 1..=12) as u64;
    let bursts = world.size("bursts", 1..=6) as u64;
    let period = Duration::from_millis(world.size("period_ms", 1..=400) as u64);
    let told = Record::<u64>::default();
    let (to, noted, counted) = (account.clone(), mistakes.clone(), told.clone());
    let node = world.node("app", move |machine| {
        let system = &machine.system;
        let lanes = LANES.map(|policy| LaneConfig::bounded(LANE_BOUND).overload(policy));
        let options = SpawnOptions::new()
            .lanes(lanes.to_vec())
            .supervision(Supervision::restart());
        let (account, mistakes) = (to.clone(), noted.clone());
        let receiver = system.spawn_with(options, move || Receiver {
            account: account.clone(),
            mistakes: mistakes.clone(),
        });
        let receiver = receiver.expect("valid options");
        let dam = Dam::credit(DAM_CREDIT).lane(DAM_LANE);
        let dam = dam
            .in_front_of(receiver.recipient())
            .expect("valid settings");
        let dam = system.spawn(dam);
        for id in 0..senders {
            system.spawn(Sender {
                id,
                receiver: receiver.clone(),
                dam: dam.recipient(),
                numbers: [0; LANES.len()],
                told: counted.clone(),
                mistakes: noted.clone(),
                bursts,
                burst,
                period,
                timer: None,
                unwanted: None,
                cancelled: 0,
            });
        }
        receiver
    });
    let receiver = node.state().expect("it is up");
    let dammed = receiver.clone();
    world.invariant("a dam lets through no more than its credit", move || {
        let depth = dammed.snapshot().lanes[DAM_LANE].depth;
        match depth <= DAM_CREDIT {
            true => Ok(()),
            false => Err(format!(
                "{depth} messages in a lane behind a dam of {DAM_CREDIT}"
            )),
        }
    });
    let rates = FaultRates {
        pauses: 6.0,
        panics: 6.0,
        slow_actors: 6.0,
        late_wakeups: 12.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    world.advance(SETTLE_TIME);

    let snapshot = receiver.snapshot();
    for lane in &snapshot.lanes {
        assert_eq!(lane.depth, 0, "all is handled at the end: {lane:?}");
    }
    let system = node.system().expect("it is up");
    expect_counts(&system);
    let (told, accepted) = (*told.lock(), snapshot.lanes[0].accepted);
    assert_eq!(accepted, told, "what senders were told is accepted arrives");
    // What was accepted in the first lane came, except what a panic had in hand.
    let panicked = snapshot.lanes[0].shed.iter();
    let panicked = panicked.filter(|it| it.reason == "handler_panicked");
    let panicked: u64 = panicked.map(|it| it.count).sum();
    let missed = account.lock().missed(0);
    assert!(
        missed <= panicked,
        "{missed} messages are missing, {panicked} handlers panicked"
    );
}
