//! Everything that moves threads at once, from a seed: blocking handlers, announced calls, workers
//! that come and go, actors that are spawned and stopped. Every message is accounted for.
//!
//! `FREEBOARD_CHURN_SEED` runs that seed.

use crate::common::*;

const RUNS_FOR: Duration = Duration::from_secs(2);
const MEMBERS: u64 = 32;

#[derive(Default)]
struct World {
    accepted: AtomicU64,
    handled: AtomicU64,
    /// All that ever lived.
    members: Notes<ActorRef<Member>>,
    /// Those that live now.
    slots: [Mutex<Option<ActorRef<Member>>>; MEMBERS as usize],
    ledger: Ledger,
}

struct Member(Arc<World>);

enum Work {
    Nothing,
    /// Blocks the thread for so many microseconds, and says so or not.
    Block {
        micros: u64,
        is_announced: bool,
    },
    /// Tells another one.
    Pass(u64),
}

struct Order(Work, #[expect(dead_code, reason = "only dropped")] Token);

/// Blocks in the kernel.
fn block(micros: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(Duration::from_micros(micros));
}

impl World {
    fn slot(&self, index: u64) -> Option<ActorRef<Member>> {
        lock(&self.slots[(index % MEMBERS) as usize]).clone()
    }

    fn tell(&self, index: u64, work: Work) {
        let Some(to) = self.slot(index) else { return };
        match to.tell(Order(work, self.ledger.token())) {
            Ok(()) => {
                self.accepted.fetch_add(1, Ordering::SeqCst);
            }
            // What a handler tells a full lane beyond its outbox comes back, as from one that ended.
            Err(TellError::Closed(_) | TellError::Full(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn put(&self, index: u64, member: ActorRef<Member>) {
        self.members.push(member.clone());
        let slot = &self.slots[(index % MEMBERS) as usize];
        if let Some(old) = lock(slot).replace(member) {
            old.stop();
        }
    }
}

impl Actor for Member {}

impl Handler<Order> for Member {
    type Reply = ();
    fn handle(&mut self, order: Order, cx: &mut Context<Self>) {
        self.0.handled.fetch_add(1, Ordering::SeqCst);
        match order.0 {
            Work::Nothing => {}
            Work::Block {
                micros,
                is_announced: true,
            } => cx.blocking(|| block(micros)),
            Work::Block { micros, .. } => block(micros),
            Work::Pass(to) => self.0.tell(to, Work::Nothing),
        }
    }
}

fn drive(world: &Arc<World>, system: &System, mut random: Random, until: Instant) {
    while Instant::now() < until {
        let to = random.below(MEMBERS);
        match random.below(400) {
            0 | 1 => world.put(to, system.spawn(Member(world.clone()))),
            2 => {
                if let Some(member) = world.slot(to) {
                    member.stop_gracefully();
                }
            }
            3..=6 => world.tell(
                to,
                Work::Block {
                    micros: random.below(6_000),
                    is_announced: false,
                },
            ),
            7..=16 => world.tell(
                to,
                Work::Block {
                    micros: random.below(2_000),
                    is_announced: true,
                },
            ),
            17..=216 => world.tell(to, Work::Pass(random.below(MEMBERS))),
            _ => world.tell(to, Work::Nothing),
        }
    }
}

/// Runs it. How many collapses it counted.
fn run(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let workers = 1 + random.below(4) as usize;
    let dead = Arc::new(AtomicU64::new(0));
    let counted = dead.clone();
    let system = System::builder()
        .workers(workers)
        .threads_max(workers + random.below(30) as usize)
        .on_dead_letter(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .expect("valid settings");
    let world = Arc::new(World::default());
    for index in 0..MEMBERS {
        world.put(index, system.spawn(Member(world.clone())));
    }
    let until = Instant::now() + RUNS_FOR;
    thread::scope(|scope| {
        for driver in 0..3 {
            let (world, system) = (&world, &system);
            let random = Random::new(seed ^ (driver + 1) << 48);
            scope.spawn(move || drive(world, system, random, until));
        }
        while Instant::now() < until {
            let online = 1 + random.below(workers as u64) as usize;
            system.set_workers_online(online).expect("in range");
            let seen = system.scheduler_snapshot();
            assert!(seen.threads <= seen.threads_max, "seed {seed}: {seen:?}");
            block(random.below(20_000));
        }
    });
    all_back(&system);
    let collapses = system.scheduler_snapshot().collapses;
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "seed {seed}: {report:?}");
    let mut handled = 0;
    for member in world.members.all() {
        let lanes = member.snapshot().lanes;
        handled += lanes.iter().map(|lane| lane.handled).sum::<u64>();
    }
    let accepted = world.accepted.load(Ordering::SeqCst);
    let dead = dead.load(Ordering::SeqCst);
    assert_eq!(handled, world.handled.load(Ordering::SeqCst), "seed {seed}");
    assert_eq!(accepted, handled + dead, "seed {seed}: {dead} dead letters");
    let made = world.ledger.made();
    for slot in &world.slots {
        lock(slot).take();
    }
    world.ledger.settle(made);
    collapses
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "a run that hangs must have said its seed"
)]
fn threads_come_and_go_and_nothing_is_lost() {
    let given = std::env::var("FREEBOARD_CHURN_SEED").ok();
    let seed = given.map_or(0xc4u64, |seed| seed.parse().expect("a number"));
    eprintln!("seed {seed}");
    check_no_collapse(|| run(seed));
}
