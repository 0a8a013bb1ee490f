//! A directory that does what a test wants of it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use freeboard_fetcher::store::{Directory, OnDevices, StoreError};
use parking_lot::Mutex;

/// The user whom nobody can be asked for.
pub(crate) const POISON: &str = "poison";
/// Users whose questions can be held begin with it.
pub(crate) const SLOW: &str = "slow";

/// Fails, panics or waits before another directory.
pub(crate) struct Gate {
    directory: Arc<dyn Directory>,
    fails: AtomicBool,
    panics: AtomicU32,
    /// Questions on users whose names begin with [`SLOW`], while these are held.
    held: Mutex<Option<Vec<Question>>>,
}

/// Users, and who is told of their devices.
type Question = (Vec<String>, OnDevices);

impl Gate {
    pub(crate) fn new(directory: Arc<dyn Directory>) -> Self {
        Self {
            directory,
            fails: AtomicBool::new(false),
            panics: AtomicU32::new(0),
            held: Mutex::default(),
        }
    }

    /// Whether it cannot be reached from now on.
    pub(crate) fn set_failing(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Panics at the next questions, so many.
    pub(crate) fn panic_at_next(&self, questions: u32) {
        self.panics.store(questions, Ordering::SeqCst);
    }

    /// Whether it has panicked as often as it was to.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panics.load(Ordering::SeqCst) == 0
    }

    /// Gives no answers from now on to questions on slow users.
    pub(crate) fn hold(&self) {
        *self.held.lock() = Some(Vec::new());
    }

    /// Questions that have no answer.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().as_ref().map_or(0, Vec::len)
    }

    /// Answers all of them.
    pub(crate) fn release(&self) {
        let held = self.held.lock().take();
        for (users, on_outcome) in held.unwrap_or_default() {
            self.directory.look_up(users, on_outcome);
        }
    }
}

impl Directory for Gate {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        let left = |panics: u32| panics.checked_sub(1);
        let is_to_panic = self
            .panics
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
            .is_ok();
        let is_poison = users.iter().any(|user| user == POISON);
        assert!(!is_to_panic && !is_poison, "a panic that the test wants");
        if self.fails.load(Ordering::SeqCst) {
            let away = "it is away".to_owned();
            return on_outcome(Err(StoreError::Unavailable(away)));
        }
        if users.iter().any(|user| user.starts_with(SLOW))
            && let Some(held) = &mut *self.held.lock()
        {
            held.push((users, on_outcome));
            return;
        }
        self.directory.look_up(users, on_outcome);
    }

    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        self.directory.look_up_blocking(user)
    }

    fn provision(&self, users: u64) -> Result<(), StoreError> {
        self.directory.provision(users)
    }
}
