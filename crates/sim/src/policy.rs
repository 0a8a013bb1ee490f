//! Which of the things that can happen happens next.
//!
//! - *Uniform*: each with the same chance.
//! - *PCT* (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010): each task
//!   and thread has a random priority, and the highest one runs. At `changes` random steps the running one gets the lowest
//!   priority. A bug that needs `d` ordering constraints among `n` tasks is found by a run of up to `k` steps with a
//!   probability of at least 1 / (n * k^(d-1)), for `changes` = d - 1 among `k` steps. The length of a run is not known
//!   before, so the seed draws `k`: a power of 2 from 256 to 16,384.
//! - *Starve one*: one task runs only when nothing else can, or when it has waited for [`STARVED_STEPS_MAX`] steps.
//!
//! Steps without a choice do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use freeboard_sched::manual::{Candidates, Choose};

use crate::random::Random;

/// Steps for which a starved task waits at most.
pub const STARVED_STEPS_MAX: u64 = 500;

/// The powers of 2 from which PCT draws the number of steps among which it chooses its changes.
const PCT_STEPS_LOG2: RangeInclusive<usize> = 8..=14;

/// Steps in a row that a task of PCT has. Then it gets the lowest priority, because it may wait for another one in a loop.
const PCT_ROW_MAX: usize = 200;

/// Steps for which PCT lets a runnable task wait. Then those that run get the lowest priority, until it runs: they may go
/// on for ever.
const PCT_WAIT_MAX: usize = 5_000;

/// A way to choose the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The seed chooses one of the others: half of the seeds run uniformly.
    #[default]
    BySeed,
    /// Each with the same chance.
    Uniform,
    /// By random priorities with few changes.
    Pct {
        /// How often a priority changes.
        changes: usize,
    },
    /// One task waits for all others.
    StarveOne,
}

impl Policy {
    /// The policy of a seed.
    #[must_use]
    pub fn of(self, seed: u64) -> Self {
        if self != Self::BySeed {
            return self;
        }
        let mut random = Random::new(seed, "policy");
        match random.below(8) {
            0..4 => Self::Uniform,
            4..7 => Self::Pct {
                changes: random.within(1..=5),
            },
            _ => Self::StarveOne,
        }
    }

    pub(crate) fn choose(self, seed: u64) -> Choose {
        let mut random = Random::new(seed, "steps");
        match self.of(seed) {
            Self::BySeed | Self::Uniform => {
                Box::new(move |candidates: &Candidates<'_>| random.below(candidates.len()))
            }
            Self::Pct { changes } => {
                let mut pct = Pct::new(random, changes);
                Box::new(move |candidates: &Candidates<'_>| pct.choose(candidates))
            }
            Self::StarveOne => {
                let mut starve = StarveOne::new(random);
                Box::new(move |candidates: &Candidates<'_>| starve.choose(candidates))
            }
        }
    }
}

struct Standing {
    priority: u64,
    /// The step from which on it has waited.
    since: usize,
    /// The last step at which it could run.
    seen: usize,
}

struct Pct {
    random: Random,
    step: usize,
    changes: BTreeSet<usize>,
    /// Of tasks and threads. Events have a new priority at each step.
    standings: BTreeMap<u64, Standing>,
    lowest: u64,
    last: u64,
    row: usize,
}

impl Pct {
    fn new(mut random: Random, changes: usize) -> Self {
        let steps = 1 << random.within(PCT_STEPS_LOG2);
        Self {
            changes: (0..changes).map(|_| random.below(steps)).collect(),
            random,
            step: 0,
            standings: BTreeMap::new(),
            // Below all that are drawn.
            lowest: 1 << 32,
            last: 0,
            row: 0,
        }
    }

    fn choose(&mut self, candidates: &Candidates<'_>) -> usize {
        self.step += 1;
        let Self {
            random,
            standings,
            step,
            ..
        } = self;
        let (mut draw, mut longest) = (|| random.number() | 1 << 33, 0);
        let priority = |index| {
            if candidates.is_event(index) {
                return draw();
            }
            let standing = standings.entry(candidates.key(index));
            let standing = standing.or_insert_with(|| Standing {
                priority: draw(),
                since: *step,
                seen: *step,
            });
            if standing.seen + 1 < *step {
                standing.since = *step;
            }
            standing.seen = *step;
            longest = longest.max(*step - standing.since);
            standing.priority
        };
        let all = (0..candidates.len()).map(priority).enumerate();
        let (best, _) = all.max_by_key(|(_, it)| *it).unwrap_or_default();
        let key = candidates.key(best);
        self.row = if key == self.last { self.row + 1 } else { 0 };
        self.last = key;
        let changes = self.row == PCT_ROW_MAX || self.changes.contains(&self.step);
        if let Some(standing) = standings.get_mut(&key) {
            let waited = std::mem::replace(&mut standing.since, self.step);
            let is_longest = self.step - waited == longest;
            if changes || longest > PCT_WAIT_MAX && !is_longest {
                self.lowest -= 1;
                standing.priority = self.lowest;
            }
        }
        best
    }
}

struct StarveOne {
    random: Random,
    /// The steps until the next one is chosen.
    left: usize,
    starved: Option<u64>,
    waited: u64,
}

impl StarveOne {
    fn new(mut random: Random) -> Self {
        Self {
            left: random.below(200),
            random,
            starved: None,
            waited: 0,
        }
    }

    fn choose(&mut self, candidates: &Candidates<'_>) -> usize {
        let chosen = self.random.below(candidates.len());
        if self.left == 0 && !candidates.is_event(chosen) {
            let key = Some(candidates.key(chosen));
            if key != self.starved {
                (self.starved, self.waited) = (key, 0);
            }
            self.left = self.random.within(1_000..=5_000);
        }
        self.left = self.left.saturating_sub(1);
        let mut runnable = (0..candidates.len()).take_while(|it| !candidates.is_event(*it));
        let starved = runnable.find(|it| Some(candidates.key(*it)) == self.starved);
        let Some(starved) = starved else {
            self.waited = 0;
            return chosen;
        };
        self.waited += 1;
        if self.waited > STARVED_STEPS_MAX {
            self.waited = 0;
            return starved;
        }
        if chosen != starved {
            return chosen;
        }
        // Any other one.
        (chosen + 1 + self.random.below(candidates.len() - 1)) % candidates.len()
    }
}
