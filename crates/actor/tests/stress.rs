//! Everything at once, from a seed: actors tell, ask, send, stop, panic and restart at random
//! through small mailboxes; at the end every message is accounted for.
//!
//! `FREEBOARD_STRESS_SEEDS` runs that many seeds (default 8), `FREEBOARD_STRESS_SEED` one of them.
#![cfg(not(loom))]

mod common;

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use common::{LIMIT, Ledger, Random, Token, block_on, poll_once, system_of};
use freeboard_actor::{
    Actor, ActorRef, AskError, AsyncHandler, Context, Handler, SpawnOptions, Supervision, TellError,
};
use freeboard_flow::{LaneConfig, Overload};

/// What became of messages, as those who sent and handled them saw it.
#[derive(Default)]
struct Books {
    /// Told, sent or asked, whatever came of it.
    offered: AtomicU64,
    /// Came back because the actor had ended, or the sender gave up before it was accepted.
    came_back: AtomicU64,
    handled: AtomicU64,
    panicked: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

/// What all members share.
struct World {
    books: Books,
    ledger: Ledger,
    members: common::Notes<ActorRef<Member>>,
}

/// One actor: each order may make it give further ones to others.
struct Member {
    world: Arc<World>,
    random: Random,
}

/// An order with fuel for further ones. An async one waits a turn in the middle.
struct Order(u64, #[expect(dead_code, reason = "only dropped")] Token);
struct SlowOrder(Order);

impl World {
    fn order(&self, fuel: u64) -> Order {
        count(&self.books.offered);
        Order(fuel, self.ledger.token())
    }

    fn told<M>(&self, outcome: Result<(), TellError<M>>) {
        if matches!(outcome, Err(TellError::Closed(_))) {
            count(&self.books.came_back);
        }
    }
}

impl Actor for Member {}

impl Member {
    fn obey(&mut self, order: &Order, cx: &mut Context<Self>) {
        let world = self.world.clone();
        if self.random.below(100) == 0 {
            count(&world.books.panicked);
            panic!("on purpose");
        }
        count(&world.books.handled);
        let members = world.members.all();
        let further = if order.0 == 0 {
            0
        } else {
            1 + self.random.below(2)
        };
        for _ in 0..further {
            let to = &members[self.random.below(members.len() as u64) as usize];
            let lane = self.random.below(2) as usize;
            let next = world.order(order.0 - 1);
            match self.random.below(3) {
                0 => world.told(to.try_tell(next)),
                1 => world.told(to.tell_lane(lane, next)),
                _ => world.told(to.tell_lane(lane, SlowOrder(next))),
            }
        }
        if self.random.below(2_000) == 0 {
            cx.stop();
        }
    }
}

impl Handler<Order> for Member {
    type Reply = ();
    fn handle(&mut self, order: Order, cx: &mut Context<Self>) {
        self.obey(&order, cx);
    }

    fn coalesce_key(order: &Order) -> Option<u64> {
        Some(order.0)
    }
}

impl AsyncHandler<SlowOrder> for Member {
    type Reply = ();
    async fn handle(&mut self, order: SlowOrder, cx: &mut Context<Self>) {
        let mut turns = self.random.below(3);
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            if turns == 0 {
                return std::task::Poll::Ready(());
            }
            turns -= 1;
            std::task::Poll::Pending
        })
        .await;
        self.obey(&order.0, cx);
    }
}

fn policy(random: &mut Random) -> Overload {
    match random.below(8) {
        0 => Overload::Reject,
        1 => Overload::DropNewest,
        2 => Overload::DropOldest,
        3 => Overload::Coalesce,
        4 => Overload::Sample {
            one_in: NonZeroU32::new(3).expect("not zero"),
        },
        _ => Overload::Wait,
    }
}

fn options(random: &mut Random) -> SpawnOptions {
    let mut lane = || LaneConfig::bounded(2 + random.below(20) as usize).overload(policy(random));
    let lanes = [lane(), lane()];
    let supervision = Supervision::restart()
        .backoff(Duration::ZERO, Duration::from_micros(random.below(500)))
        .limit(1_000, Duration::from_secs(3_600));
    SpawnOptions::new()
        .lanes(lanes)
        .outbox(random.below(64) as usize)
        .supervision(supervision)
}

/// What a thread outside does with the members.
fn drive(world: &World, mut random: Random) {
    let members = world.members.all();
    let wakes = Arc::default();
    for _ in 0..400 {
        let to = &members[random.below(members.len() as u64) as usize];
        let lane = random.below(2) as usize;
        let order = world.order(random.below(6));
        match random.below(8) {
            0 | 1 => world.told(to.tell_lane(lane, order)),
            2 => world.told(to.try_tell(SlowOrder(order))),
            3 => world.told(block_on(to.send_lane(lane, order))),
            4 => {
                let mut send = to.send(order);
                match poll_once(&mut send, &wakes) {
                    std::task::Poll::Ready(outcome) => world.told(outcome),
                    std::task::Poll::Pending => count(&world.books.came_back),
                }
            }
            5 => {
                // A thread that gives up at a full lane is counted there as refused.
                let asked = to.ask(order).lane(lane).timeout(LIMIT).wait();
                if matches!(asked, Err(AskError::Closed(_))) {
                    count(&world.books.came_back);
                }
            }
            6 => {
                let asking = to.ask(SlowOrder(order)).timeout(LIMIT).into_future();
                if matches!(block_on(asking), Err(AskError::Closed(_))) {
                    count(&world.books.came_back);
                }
            }
            _ => {
                world.told(to.tell(order));
                if random.below(200) == 0 {
                    to.stop();
                }
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let system = system_of(1 + random.below(3) as usize);
    let world = Arc::new(World {
        books: Books::default(),
        ledger: Ledger::default(),
        members: common::Notes::default(),
    });
    for number in 0..2 + random.below(10) {
        let (made, mut lives) = (world.clone(), 0);
        let member = system.spawn_with(options(&mut random), move || {
            lives += 1;
            Member {
                world: made.clone(),
                random: Random::new(seed ^ (number << 32) ^ lives),
            }
        });
        world.members.push(member.expect("valid options"));
    }
    thread::scope(|scope| {
        for driver in 0..3 {
            let world = world.clone();
            scope.spawn(move || drive(&world, Random::new(seed ^ (driver + 1) << 48)));
        }
    });
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "seed {seed}: {report:?}");
    check_books(seed, &world);
}

/// Every order that was offered was handled, is counted as shed or refused, or came back.
fn check_books(seed: u64, world: &World) {
    let books = &world.books;
    let (mut handled, mut shed) = (0, 0);
    for member in world.members.all() {
        for lane in member.snapshot().lanes {
            assert!(lane.high_water <= lane.bound, "seed {seed}: {lane:?}");
            assert_eq!(lane.depth, 0, "seed {seed}: {lane:?}");
            handled += lane.handled;
            shed += lane.shed.iter().map(|counted| counted.count).sum::<u64>();
        }
    }
    let (offered, came_back) = (read(&books.offered), read(&books.came_back));
    let lanes = || {
        let members = world.members.all();
        members
            .iter()
            .map(|it| it.snapshot().lanes)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        offered,
        handled + shed + came_back,
        "seed {seed}: offered = handled {handled} + shed {shed} + back {came_back}: {:?}",
        lanes()
    );
    // Async orders whose actor was stopped in the middle are handed over, yet do not come to their end.
    assert!(read(&books.handled) <= handled, "seed {seed}");
    world.ledger.settle(offered);
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "a run that hangs must have said its seed"
)]
fn everything_at_once_is_accounted_for() {
    let (first, seeds) = match variable("FREEBOARD_STRESS_SEED") {
        Some(seed) => (seed, 1),
        None => (1, variable("FREEBOARD_STRESS_SEEDS").unwrap_or(8)),
    };
    for seed in first..first + seeds {
        eprintln!("seed {seed}");
        run(seed);
    }
}
