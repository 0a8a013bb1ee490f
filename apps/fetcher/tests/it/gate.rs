//! A directory that a test controls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use freeboard_fetcher::store::{Directory, OnDevices, StoreError};
use parking_lot::Mutex;

/// A user whose query panics.
pub(crate) const POISON: &str = "poison";
/// The prefix of users whose queries can be held.
pub(crate) const SLOW: &str = "slow";

/// Fails, panics or blocks in front of another directory.
pub(crate) struct Gate {
    directory: Arc<dyn Directory>,
    failure: Mutex<Option<StoreError>>,
    panics: AtomicU32,
    blocks: AtomicBool,
    is_blocked: AtomicBool,
    /// Queries on users whose names begin with [`SLOW`], while these are held.
    held: Mutex<Option<Vec<Query>>>,
}

/// The users of a query and its callback.
type Query = (Vec<String>, OnDevices);

impl Gate {
    pub(crate) fn new(directory: Arc<dyn Directory>) -> Self {
        Self {
            directory,
            failure: Mutex::default(),
            panics: AtomicU32::new(0),
            blocks: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            held: Mutex::default(),
        }
    }

    /// The error of all queries from now on, if any.
    pub(crate) fn fail_with(&self, failure: Option<StoreError>) {
        *self.failure.lock() = failure;
    }

    /// Makes it unavailable or available.
    pub(crate) fn set_failing(&self, fails: bool) {
        let away = StoreError::Unavailable("it is away".to_owned());
        self.fail_with(fails.then_some(away));
    }

    /// Panics at the next so many queries.
    pub(crate) fn panic_at_next(&self, queries: u32) {
        self.panics.store(queries, Ordering::SeqCst);
    }

    /// Whether it has panicked that often.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panics.load(Ordering::SeqCst) == 0
    }

    /// Blocks or unblocks callers.
    pub(crate) fn set_blocking(&self, blocks: bool) {
        self.blocks.store(blocks, Ordering::SeqCst);
    }

    /// Whether a caller is blocked.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::SeqCst)
    }

    /// Answers all held queries on this thread, in their order, without devices.
    pub(crate) fn answer_all(&self) {
        for (users, on_outcome) in self.held.lock().take().unwrap_or_default() {
            on_outcome(Ok(vec![None; users.len()]));
        }
    }

    /// Holds queries on slow users from now on.
    pub(crate) fn hold(&self) {
        *self.held.lock() = Some(Vec::new());
    }

    /// The number of held queries.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().as_ref().map_or(0, Vec::len)
    }

    /// Forwards all held queries.
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
        let failure = self.failure.lock().clone();
        if let Some(failure) = failure {
            return on_outcome(Err(failure));
        }
        if self.blocks.load(Ordering::SeqCst) {
            self.is_blocked.store(true, Ordering::SeqCst);
            crate::common::eventually(|| !self.blocks.load(Ordering::SeqCst));
            self.is_blocked.store(false, Ordering::SeqCst);
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
