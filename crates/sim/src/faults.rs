//! Faults: what breaks, when, and for how long.
//!
//! A script calls the methods of [`World`](crate::World) and [`Node`](crate::Node). [`FaultRates`] draw a plan from the
//! seed. Each fault of a plan has a number, and the minimiser leaves out one by one.

use std::{fmt, time::Duration};

use freeboard_stream::storage::simulated::Operation;

use crate::random::Random;

/// A node, by its place among those that were added.
pub(crate) type NodeIndex = usize;

/// What breaks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The process ends as by `kill -9`: what it wrote to files stays, what it held in memory is gone.
    Kill { node: NodeIndex, down: Duration },
    /// The machine loses power: unsynced writes are lost, kept or torn.
    LosePower { node: NodeIndex, down: Duration },
    /// The process stands still, as by SIGSTOP or a pause of its virtual machine.
    Pause { node: NodeIndex, time: Duration },
    /// The time of day is wrong from here on.
    Skew { node: NodeIndex, skew_ns: i64 },
    /// No packet arrives, in one direction or both.
    Partition {
        nodes: [NodeIndex; 2],
        is_one_way: bool,
        time: Duration,
    },
    /// All connections between two nodes are reset.
    Reset { nodes: [NodeIndex; 2] },
    /// All connections between two nodes become half-open.
    Silence { nodes: [NodeIndex; 2] },
    /// The link is slow.
    SlowLink {
        nodes: [NodeIndex; 2],
        delay: Duration,
        time: Duration,
    },
    /// The next call of this kind fails with EIO.
    DiskError {
        node: NodeIndex,
        operation: Operation,
    },
    /// The disk is full for a time.
    DiskFull { node: NodeIndex, time: Duration },
    /// Each call to the disk takes up to this long.
    SlowDisk {
        node: NodeIndex,
        latency: Duration,
        time: Duration,
    },
    /// An actor panics when it handles its next message.
    Panic { node: NodeIndex, pick: u64 },
    /// Each message of an actor takes this long.
    SlowActor {
        node: NodeIndex,
        pick: u64,
        time: Duration,
    },
    /// An actor runs only this long after it was woken.
    LateWakeups {
        node: NodeIndex,
        pick: u64,
        time: Duration,
    },
}

/// How many faults of each kind a minute has, on average. The default has none.
///
/// ```
/// use freeboard_sim::FaultRates;
///
/// let rates = FaultRates { kills: 4.0, resets: 20.0, ..FaultRates::default() };
/// assert_eq!(rates.pauses, 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultRates {
    /// A node's process ends as by `kill -9`, and starts again within 2 s.
    pub kills: f64,
    /// A node loses power, and starts again within 2 s.
    pub power_losses: f64,
    /// A node stands still for up to 5 s.
    pub pauses: f64,
    /// A node's time of day is wrong by up to an hour from here on.
    pub skews: f64,
    /// Two nodes do not reach each other for up to 10 s; in a third of the cases in one direction only.
    pub partitions: f64,
    /// The connections between two nodes are reset.
    pub resets: f64,
    /// The connections between two nodes become half-open.
    pub silences: f64,
    /// A link is slow, by up to 500 ms, for up to 5 s.
    pub slow_links: f64,
    /// A call to a node's disk fails with EIO.
    pub disk_errors: f64,
    /// A node's disk is full for up to 5 s.
    pub full_disks: f64,
    /// Each call to a node's disk takes up to 50 ms, for up to 5 s.
    pub slow_disks: f64,
    /// An actor of a node panics when it handles its next message.
    pub panics: f64,
    /// From here on an actor takes up to 50 ms for each message.
    pub slow_actors: f64,
    /// From here on an actor runs up to 20 ms after it was woken.
    pub late_wakeups: f64,
}

/// The calls that fail.
const OPERATIONS: [Operation; 6] = [
    Operation::Write,
    Operation::Write,
    Operation::Sync,
    Operation::Read,
    Operation::Create,
    Operation::Resize,
];

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl FaultRates {
    fn all(&self) -> [f64; 14] {
        [
            self.kills,
            self.power_losses,
            self.pauses,
            self.skews,
            self.partitions,
            self.resets,
            self.silences,
            self.slow_links,
            self.disk_errors,
            self.full_disks,
            self.slow_disks,
            self.panics,
            self.slow_actors,
            self.late_wakeups,
        ]
    }

    /// Draws the faults of the time `within`, in no order.
    pub(crate) fn plan(
        &self,
        nodes: &[NodeIndex],
        within: Duration,
        random: &mut Random,
    ) -> Vec<(Duration, Fault)> {
        let mut plan = Vec::new();
        for (kind, rate) in self.all().into_iter().enumerate() {
            assert!(
                rate.is_finite() && rate >= 0.0,
                "{rate} is no rate of faults"
            );
            let expected = rate * within.as_secs_f64() / 60.0;
            // The part behind the point is the chance of one more.
            let more = random.below(1_000_000) as f64 / 1e6 < expected.fract();
            for _ in 0..expected as usize + usize::from(more) {
                let (at, drawn) = (random.time(within), draw(kind, nodes, random));
                plan.extend(drawn.map(|fault| (at, fault)));
            }
        }
        plan
    }
}

/// A fault of a kind, by its place in [`FaultRates::all`]; `None` if there are too few nodes.
fn draw(kind: usize, nodes: &[NodeIndex], random: &mut Random) -> Option<Fault> {
    if nodes.is_empty() {
        return None;
    }
    let at = random.below(nodes.len());
    let node = nodes[at];
    let pair = (nodes.len() > 1).then(|| {
        let other = (at + 1 + random.below(nodes.len() - 1)) % nodes.len();
        [node, nodes[other]]
    });
    let pick = random.number();
    let down = random.time(seconds(2));
    Some(match kind {
        0 => Fault::Kill { node, down },
        1 => Fault::LosePower { node, down },
        2 => Fault::Pause {
            node,
            time: random.time(seconds(5)),
        },
        3 => {
            let hour_ns = 3_600_000_000_000;
            let skew_ns = (pick % (2 * hour_ns)).cast_signed() - hour_ns.cast_signed();
            Fault::Skew { node, skew_ns }
        }
        4 => Fault::Partition {
            nodes: pair?,
            is_one_way: random.once_in(3),
            time: random.time(seconds(10)),
        },
        5 => Fault::Reset { nodes: pair? },
        6 => Fault::Silence { nodes: pair? },
        7 => Fault::SlowLink {
            nodes: pair?,
            delay: random.time(Duration::from_millis(500)),
            time: random.time(seconds(5)),
        },
        8 => {
            let operation = *random.choose(&OPERATIONS);
            Fault::DiskError { node, operation }
        }
        9 => Fault::DiskFull {
            node,
            time: random.time(seconds(5)),
        },
        10 => Fault::SlowDisk {
            node,
            latency: random.time(Duration::from_millis(50)),
            time: random.time(seconds(5)),
        },
        11 => Fault::Panic { node, pick },
        12 => Fault::SlowActor {
            node,
            pick,
            time: random.time(Duration::from_millis(50)),
        },
        _ => Fault::LateWakeups {
            node,
            pick,
            time: random.time(Duration::from_millis(20)),
        },
    })
}

/// A fault with the names of its nodes.
pub(crate) struct Named<'a>(pub(crate) &'a Fault, pub(crate) &'a [String]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(fault, names) = self;
        let name = |node: &NodeIndex| names.get(*node).map_or("?", String::as_str);
        match fault {
            Fault::Kill { node, down } => write!(formatter, "kill {} for {down:?}", name(node)),
            Fault::LosePower { node, down } => {
                write!(formatter, "power loss of {} for {down:?}", name(node))
            }
            Fault::Pause { node, time } => write!(formatter, "pause {} for {time:?}", name(node)),
            Fault::Skew { node, skew_ns } => {
                let skew = Duration::from_nanos(skew_ns.unsigned_abs());
                let sign = if *skew_ns < 0 { "-" } else { "+" };
                write!(formatter, "clock of {} {sign}{skew:?}", name(node))
            }
            Fault::Partition {
                nodes: [a, b],
                is_one_way,
                time,
            } => {
                let arrow = if *is_one_way { "->" } else { "--" };
                let (a, b) = (name(a), name(b));
                write!(formatter, "partition {a} {arrow} {b} for {time:?}")
            }
            Fault::Reset { nodes: [a, b] } => {
                write!(formatter, "reset connections {} -- {}", name(a), name(b))
            }
            Fault::Silence { nodes: [a, b] } => {
                write!(formatter, "silence connections {} -- {}", name(a), name(b))
            }
            Fault::SlowLink {
                nodes: [a, b],
                delay,
                time,
            } => {
                let (a, b) = (name(a), name(b));
                write!(formatter, "slow link {a} -- {b} by {delay:?} for {time:?}")
            }
            Fault::DiskError { node, operation } => {
                write!(formatter, "disk of {}: {operation:?} fails", name(node))
            }
            Fault::DiskFull { node, time } => {
                write!(formatter, "disk of {} full for {time:?}", name(node))
            }
            Fault::SlowDisk {
                node,
                latency,
                time,
            } => {
                let name = name(node);
                write!(formatter, "slow disk of {name}, {latency:?} for {time:?}")
            }
            Fault::Panic { node, .. } => write!(formatter, "panic of an actor of {}", name(node)),
            Fault::SlowActor { node, time, .. } => {
                write!(formatter, "slow actor of {}, {time:?} each", name(node))
            }
            Fault::LateWakeups { node, time, .. } => {
                write!(
                    formatter,
                    "late wake-ups of an actor of {}, {time:?}",
                    name(node)
                )
            }
        }
    }
}
