//! The machine of a simulated disk: its power, its directory, its calls.

use std::{
    collections::BTreeSet,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use freeboard_flow::random;

use super::{
    content::Content,
    directory::Directory,
    fault::{Fate, Operation, Plan, PowerIsOff},
};

/// The properties of a [`SimulatedDisk`](super::SimulatedDisk).
///
/// ```
/// use freeboard_stream::storage::simulated::SimulatedSettings;
///
/// let settings = SimulatedSettings { seed: 7, sector_bytes: 4_096, ..Default::default() };
/// assert_eq!(settings.capacity_bytes, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedSettings {
    /// The seed of all its random choices. Print it when a test fails.
    pub seed: u64,
    /// The bytes that the device writes whole or not at all: 512 or 4,096.
    pub sector_bytes: usize,
    /// The longest time that a call takes. Each takes a random part of it: of virtual time in a simulation, where the
    /// completions that are due at the same time have a random order.
    pub latency_max: Duration,
    /// The capacity for all files, in bytes; `None` for no limit.
    pub capacity_bytes: Option<u64>,
    /// Whether durable files go past the page cache. If not, as on some file systems, each write to
    /// one goes through the cache and is synced before it returns.
    pub is_direct: bool,
}

impl Default for SimulatedSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            sector_bytes: 512,
            latency_max: Duration::ZERO,
            capacity_bytes: None,
            is_direct: true,
        }
    }
}

/// Whether a call does all it should, or some of it before it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Whole,
    Torn,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) settings: SimulatedSettings,
    pub(super) random: Random,
    pub(super) directory: Directory,
    pub(super) plan: Plan,
    /// How many calls there were since it was started.
    pub(super) calls: u64,
    /// Counts the starts. Handles of an earlier one are void.
    pub(super) boot: u64,
    is_on: bool,
    /// The directories that are locked, each by the prefix of its names.
    pub(super) locked: BTreeSet<String>,
}

impl Machine {
    pub(super) fn new(settings: SimulatedSettings) -> Self {
        Self {
            random: Random::new(settings.seed),
            settings,
            directory: Directory::default(),
            plan: Plan::default(),
            calls: 0,
            boot: 0,
            is_on: true,
            locked: BTreeSet::new(),
        }
    }

    /// Counts a call of the machine's present start and gives it its planned outcome.
    ///
    /// `run` is told to do only a part before a call fails; its result is ignored then.
    pub(super) fn call<R>(
        &mut self,
        boot: u64,
        operation: Operation,
        run: impl FnOnce(&mut Self, Effect) -> io::Result<R>,
    ) -> io::Result<R> {
        self.check_power(boot)?;
        self.calls += 1;
        match self.plan.fate(self.calls, operation) {
            Fate::Succeeds => run(self, Effect::Whole),
            Fate::Fails(fault) => {
                let _ = run(self, Effect::Torn);
                Err(fault.error())
            }
            Fate::LosesPower => {
                let _ = run(self, Effect::Torn);
                self.lose_power();
                Err(PowerIsOff.into())
            }
        }
    }

    /// Whether a call that began in the start `boot` can go on.
    pub(super) fn check_power(&self, boot: u64) -> Result<(), PowerIsOff> {
        if self.is_on && self.boot == boot {
            Ok(())
        } else {
            Err(PowerIsOff)
        }
    }

    pub(super) fn lose_power(&mut self) {
        if !self.is_on {
            return;
        }
        self.is_on = false;
        self.directory.lose_power(&mut self.random);
        for file in self.directory.files() {
            lock(file).lose_power(&mut self.random);
        }
    }

    /// Starts again with the present content of the disk, and without planned failures.
    pub(super) fn start(&mut self) -> u64 {
        self.plan = Plan::default();
        self.calls = 0;
        self.boot += 1;
        self.is_on = true;
        self.locked.clear();
        self.boot
    }

    /// How long a call takes.
    pub(super) fn latency(&mut self) -> Duration {
        match self.settings.latency_max.as_nanos() {
            0 => Duration::ZERO,
            max => Duration::from_nanos(self.random.below(max as u64 + 1)),
        }
    }

    /// Whether there is space for `more` bytes.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.settings.capacity_bytes.is_none_or(|capacity| {
            let used: usize = self.directory.files().map(|file| lock(file).bytes()).sum();
            (used + more) as u64 <= capacity
        })
    }
}

/// Locks a file's content, always after the machine.
pub(super) fn lock(file: &Mutex<Content>) -> MutexGuard<'_, Content> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A word of state, and no seed is a bad one.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(random::STEP);
        random::mix(self.0)
    }

    /// A number below `limit`, which is above zero.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        // The remainder's bias does not matter to a test.
        self.next() % limit
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Which of `count` things happened when not all of them need to have: none, all, those up to
    /// some point, or each by itself. Pure coins would almost never give the first three, which are
    /// the most frequent ones on real disks.
    pub(super) fn subset(&mut self, count: usize) -> Vec<bool> {
        let length = count as u64;
        match self.below(4) {
            0 => vec![false; count],
            1 => vec![true; count],
            2 => {
                let end = self.below(length + 1);
                (0..length).map(|index| index < end).collect()
            }
            _ => (0..count).map(|_| self.coin()).collect(),
        }
    }
}
