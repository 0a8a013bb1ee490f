//! The machine that the disk is in: its power, its directory, its calls.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{
    content::Content,
    directory::Directory,
    fault::{Fate, Operation, Plan, PowerIsOff},
    random::Random,
    settings::SimulatedSettings,
};

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
    /// How many calls of each kind there were since it was started.
    pub(super) calls: BTreeMap<Operation, u64>,
    /// Counts the starts; what belongs to an earlier one is void.
    pub(super) boot: u64,
    is_on: bool,
    pub(super) is_locked: bool,
}

impl Machine {
    pub(super) fn new(settings: SimulatedSettings) -> Self {
        Self {
            random: Random::new(settings.seed),
            settings,
            directory: Directory::default(),
            plan: Plan::default(),
            calls: BTreeMap::new(),
            boot: 0,
            is_on: true,
            is_locked: false,
        }
    }

    /// Counts a call of the machine's present start and runs it to the end that is planned for it.
    ///
    /// `run` is told to do only a part before a call fails; what it returns then is not seen.
    pub(super) fn call<R>(
        &mut self,
        boot: u64,
        operation: Operation,
        run: impl FnOnce(&mut Self, Effect) -> io::Result<R>,
    ) -> io::Result<R> {
        self.check_power(boot)?;
        *self.calls.entry(operation).or_default() += 1;
        let call = self.calls.values().sum();
        match self.plan.fate(call, operation, &mut self.random) {
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

    /// Starts again with what the disk holds now. Nothing goes wrong unless it is planned anew.
    pub(super) fn start(&mut self) -> u64 {
        self.plan = Plan::default();
        self.calls.clear();
        self.boot += 1;
        self.is_on = true;
        self.is_locked = false;
        self.boot
    }

    /// Whether there is room for `more` bytes.
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
