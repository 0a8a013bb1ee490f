//! The shared state of all actors of a seed, and how they are spawned.

use crate::common::*;
use crate::{
    member::{Fast, Member, Slow, Wide},
    record::{Record, Records},
};

/// Messages after which handlers make no further ones.
const MESSAGES_MAX: u64 = 12_000;
const CHILDREN_MAX: usize = 40;

/// The permitted actions of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Anything; it blocks for another of its kind only with a deadline.
    Mesh,
    /// Nothing that waits for others, so that others may wait for it for ever.
    Server,
}

/// A member, and what `Ok` means on each of its lanes.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) actor: ActorRef<Member>,
    pub(crate) role: Role,
    /// Whether a message that was told with `Ok` was accepted: not where the policy sheds new ones.
    certain: Arc<[bool]>,
}

impl Target {
    /// A lane; seldom one that there is not.
    pub(crate) fn lane(&self, random: &mut Random) -> usize {
        let lanes = self.certain.len() as u64;
        let beyond = u64::from(random.below(50) == 0);
        random.below(lanes + beyond) as usize
    }

    pub(crate) fn is_certain(&self, lane: usize) -> bool {
        self.certain.get(lane) == Some(&true)
    }
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) records: Arc<Records>,
    pub(crate) targets: OnceLock<Vec<Target>>,
    children: Mutex<Vec<Target>>,
    /// One message in so many panics, and one in so many stops somebody.
    pub(crate) panic_in: u64,
    pub(crate) stop_in: u64,
    /// Lanes may stay paused: senders that wait for them are released only at the end.
    pub(crate) may_pause_for_ever: bool,
    /// All lanes make their senders wait.
    pub(crate) only_waits: bool,
    /// Nobody panics or stops for now.
    pub(crate) is_calm: AtomicBool,
    made: AtomicU64,
    gone: AtomicU64,
}

impl World {
    pub(crate) fn new(seed: u64, random: &mut Random) -> Self {
        Self {
            seed,
            may_pause_for_ever: false,
            only_waits: false,
            is_calm: AtomicBool::new(false),
            records: Arc::default(),
            targets: OnceLock::new(),
            children: Mutex::default(),
            panic_in: 30 << random.below(6),
            stop_in: 200 << random.below(6),
            made: AtomicU64::new(0),
            gone: AtomicU64::new(0),
        }
    }

    /// A new value of a member, the first or after a restart.
    pub(crate) fn member(self: &Arc<Self>, role: Role, lanes: usize) -> Member {
        let life = self.made.fetch_add(1, Ordering::SeqCst);
        let random = Random::new(self.seed ^ (life + 1) << 32);
        Member::new(self.clone(), random, role, lanes)
    }

    pub(crate) fn member_gone(&self) {
        self.gone.fetch_add(1, Ordering::SeqCst);
    }

    /// Values of members that have not been dropped.
    pub(crate) fn members_live(&self) -> u64 {
        self.made.load(Ordering::SeqCst) - self.gone.load(Ordering::SeqCst)
    }

    /// One of so many times, but for calm times.
    pub(crate) fn strikes(&self, random: &mut Random, one_in: u64) -> bool {
        random.below(one_in) == 0 && !self.is_calm.load(Ordering::SeqCst)
    }

    pub(crate) fn may_send(&self) -> bool {
        self.records.len() < MESSAGES_MAX
    }

    /// Any member.
    pub(crate) fn any(&self, random: &mut Random) -> Target {
        self.any_of(|_| true, random)
    }

    /// Any server; they come first.
    pub(crate) fn any_server(&self, random: &mut Random) -> Target {
        self.any_of(|target| target.role == Role::Server, random)
    }

    /// One of the first that are wanted, or a child.
    fn any_of(&self, is_wanted: fn(&Target) -> bool, random: &mut Random) -> Target {
        let targets = self.targets.get().expect("set before the first message");
        let children = lock(&self.children);
        let first = targets.iter().take_while(|it| is_wanted(it)).count();
        let index = random.below((first + children.len()) as u64) as usize;
        let wanted = &targets[..first];
        let target = wanted.get(index);
        target.unwrap_or_else(|| &children[index - first]).clone()
    }

    /// All members that there ever were.
    pub(crate) fn everybody(&self) -> Vec<Target> {
        let targets = self.targets.get().into_iter().flatten();
        targets.chain(&*lock(&self.children)).cloned().collect()
    }

    pub(crate) fn adopt(&self, child: Target) {
        lock(&self.children).push(child);
    }

    pub(crate) fn may_spawn(&self) -> bool {
        lock(&self.children).len() < CHILDREN_MAX
    }

    pub(crate) fn fast(&self, to: &Target, lane: usize, fuel: u64) -> (Fast, Arc<Record>) {
        let token = self.records.token(to.actor.id(), lane);
        let record = token.record.clone();
        (Fast { fuel, token }, record)
    }

    pub(crate) fn slow(&self, to: &Target, lane: usize, fuel: u64) -> (Slow, Arc<Record>) {
        let (fast, record) = self.fast(to, lane, fuel);
        (Slow(fast), record)
    }

    pub(crate) fn wide(&self, to: &Target, lane: usize, fuel: u64) -> (Wide, Arc<Record>) {
        let (fast, record) = self.fast(to, lane, fuel);
        (Wide(fast, [fuel; 8]), record)
    }

    fn lane(&self, random: &mut Random) -> LaneConfig {
        let policy = match random.below(12) {
            _ if self.only_waits => Overload::Wait,
            0 => Overload::Reject,
            1 => Overload::DropNewest,
            2 => Overload::DropOldest,
            3 => Overload::Coalesce,
            4 => Overload::Sample {
                one_in: NonZeroU32::new(3).expect("not zero"),
            },
            5 => Overload::CoDel {
                target: Duration::from_micros(10),
                interval: Duration::from_micros(100),
            },
            6 => Overload::MaxAge(Duration::from_micros(20)),
            _ => Overload::Wait,
        };
        LaneConfig::bounded(1 + random.below(20) as usize).overload(policy)
    }

    /// Spawns with options that it draws. `spawn` is the system's or a context's.
    pub(crate) fn spawn<E>(
        self: &Arc<Self>,
        random: &mut Random,
        role: Role,
        is_child: bool,
        spawn: impl FnOnce(
            SpawnOptions,
            Box<dyn FnMut() -> Member + Send>,
        ) -> Result<ActorRef<Member>, E>,
    ) -> Result<Target, E> {
        let lanes: Vec<_> = (0..1 + random.below(3))
            .map(|_| self.lane(random))
            .collect();
        let is_certain = |lane: &LaneConfig| {
            let policy = lane.overload_policy();
            !matches!(policy, Overload::DropNewest | Overload::Sample { .. })
        };
        let lane_count = lanes.len();
        let certain = lanes.iter().map(is_certain).collect();
        let mut options = SpawnOptions::new()
            .lanes(lanes)
            .outbox(random.below(64) as usize)
            .supervision(supervision(random, is_child));
        if role == Role::Server && !is_child && random.below(4) == 0 {
            options = options.dispatcher(Dispatcher::pinned(Blocking::default()));
        }
        let world = self.clone();
        let factory = Box::new(move || world.member(role, lane_count));
        Ok(Target {
            actor: spawn(options, factory)?,
            role,
            certain,
        })
    }
}

fn supervision(random: &mut Random, is_child: bool) -> Supervision {
    match random.below(6) {
        0 => Supervision::stop(),
        1 if is_child => Supervision::escalate(),
        _ => Supervision::restart()
            .backoff(Duration::ZERO, Duration::from_micros(random.below(500)))
            .limit(1 + random.below(400) as u32, Duration::from_secs(3_600)),
    }
}
