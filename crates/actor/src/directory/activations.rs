//! The activations of a directory: which actor is active for a key, and how one follows another.
//!
//! ```text
//!            message           load                     idle              drained        saved
//!   no entry ──────▶ waiting ──────▶ active ─────────▶ closed, handles ──────▶ saving ──────▶ no entry
//!                      ▲                                its messages             │
//!                      │           a message meanwhile: a successor              │ save failed: the successor
//!                      └─────────────────────────────────────────────────────────┘ gets the actor itself
//! ```
//!
//! An entry is an actor's reference. Its mailbox is open from the beginning, so it holds the messages that come before
//! the actor is loaded; its bound and policy apply. Passivation closes the mailbox. A message that comes later finds it
//! closed and makes a *successor*: a further actor, which takes the entry at once and starts only when its predecessor
//! has terminated, so after the save. Akka's sharding keeps these messages in a buffer of the shard, and asks the actor
//! to agree to its end (`Passivate`); here the mailbox's close separates the accepted messages from the later ones.
//!
//! **One activation per key.** Entries change under the lock of their shard. A new entry is made if there is none, or if
//! the actor of the present one takes no more messages; then the new actor starts after the end of that one, and of all
//! that it waits for itself: it may be stopped while it waits. An entry is removed when all of these have terminated. So
//! an actor starts only after all earlier ones of its key have terminated.
//!
//! **Nothing accepted is lost.** An activation handles all that its mailbox has accepted before it is saved. Like a
//! removed member of a group, it is closed only when no outbox holds messages for it (`retire`).
//!
//! **A look-up and a close meet under locks.** Each step reads or changes what one lock guards:
//!
//! - The entry of a key: the lock of its shard. It is held for look-ups, for the sweep of the shard, and while an actor is
//!   spawned. The key's `Hash` and `Eq` are the only user code under it.
//! - The message of a look-up that came just before the close: the lane accepts it, so that it is handled, or refuses it
//!   (loom checks the lanes' close). The sender of a refused one looks the key up again. A mailbox closes its first lane
//!   first, and `is_closed` reads that one. So the sender finds the mailbox closed, and gets a successor.
//! - Messages in outboxes: the mark and the locks of `retire`. `closing` lets one thread at a time set marks. A sender that
//!   finds the mark looks the key up again, until the actor is closed or the mark is gone.
//! - The end of an activation: `Core::on_end` calls each watcher once, by the lock of the actor's relations. `when_ended`
//!   counts these calls down with one atomic, so the last one acts, once. The removal of an entry compares the epoch
//!   under the lock of the shard: a successor's entry stays.
//! - An actor whose save has failed: the lock of its `Kept`, taken after that of the shard or alone.
//!
//! `closing` and the lock of a shard are never held together. A test with seeded threads checks the whole.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, DefaultHasher, Hash},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use freeboard_meter::{Counter, DirectorySnapshot, clock};
use freeboard_platform::planted;
use freeboard_sched::Phase;

use super::{Activation, AnyDirectory, AtBound, DirectoryError, DirectoryOptions, Store};
use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    catch_panic,
    core::{self, Core},
    core_ref::CoreRef,
    listed::next_id,
    relations::Watcher,
    retire::{drain_unheld, retire},
    run::{AtEnd, Last, TryFactory},
    supervision::{panic_text, saturating_ns},
    sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    system_inner::SystemInner,
};

const SHARDS: usize = 64;

/// Sweeps of one shard per idle time: an activation is passivated at most a quarter of the idle time late.
const ROUNDS: u32 = 4;
const SWEEP_MIN: Duration = Duration::from_millis(1);
/// Between the sweeps of two shards, if only the order of idleness is needed.
const SWEEP_DEFAULT: Duration = Duration::from_millis(50);

/// After a search of all activations that found none idle, messages for new keys are refused without a further one.
const SEARCH_INTERVAL: Duration = Duration::from_millis(10);

/// At the bound, one search closes this part of all activations.
const VICTIMS_PART: usize = 64;

struct Entry<A: Actor> {
    actor: ActorRef<A>,
    epoch: u64,
    /// It starts when these have terminated.
    after: Vec<CoreRef>,
    /// May hold an actor whose save has failed, for this activation instead of a load.
    kept: SharedKept<A>,
    /// Messages accepted when it was last swept.
    accepted: u64,
    /// When it was last used, as far as the directory has seen.
    used_ns: u64,
}

/// An actor that could not be saved. The next activation of its key takes it over. The present activation of a key and those
/// that wait for its end share it.
struct Kept<A> {
    actor: Option<A>,
    /// The epochs of the activations that have neither begun nor ended. They begin in the order of their epochs.
    waiting: Vec<u64>,
}

impl<A> Kept<A> {
    /// Whether this activation was waiting; it does no longer.
    fn leave(&mut self, epoch: u64) -> bool {
        let index = self.waiting.iter().position(|it| *it == epoch);
        index.is_some_and(|index| self.waiting.remove(index) == epoch)
    }
}

type SharedKept<A> = Arc<Mutex<Kept<A>>>;
type Shard<K, A> = HashMap<K, Entry<A>, Hashing>;
type Load<K, A> = Box<dyn Fn(&Activation<K>) -> Result<A, String> + Send + Sync>;
type Save<K, A> = Box<dyn Fn(&Activation<K>, &mut A) -> Result<(), String> + Send + Sync>;

pub(super) struct Activations<K, A: Actor> {
    id: u64,
    pub(super) options: DirectoryOptions,
    backing: Arc<Backing<K, A>>,
    shards: Box<[Mutex<Shard<K, A>>]>,
    hasher: Hashing,
    /// Entries of all shards.
    len: AtomicUsize,
    next_epoch: AtomicU64,
    /// Keys get no new activations.
    is_closed: AtomicBool,
    /// Held while activations are closed, so that one thread at a time closes each (`retire`), and each makes room for one.
    closing: Mutex<()>,
    /// The time of the last sweep: exact enough for idleness, and free to read.
    coarse_ns: AtomicU64,
    /// No search for an idle activation before this time.
    search_after_ns: AtomicU64,
    activated: Counter,
    refused: Counter,
}

/// What loads and saves the actors. Each activation refers to it, so that it is saved also after its directory was
/// dropped.
struct Backing<K, A> {
    system: Arc<SystemInner>,
    load: Load<K, A>,
    save: Save<K, A>,
    /// Nothing is loaded or saved any more.
    is_abandoned: AtomicBool,
    passivated: Counter,
    loads_failed: Counter,
    saves_failed: Counter,
}

impl<K, A: Actor> Backing<K, A> {
    fn is_abandoned(&self) -> bool {
        // Ordering: Acquire, pairs with the Release of `abandon`.
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Calls the store, in a section that may block. A panic is an error.
    fn blocking<T>(&self, call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let scheduler = &self.system.scheduler;
        let called = scheduler.blocking(|| catch_unwind(AssertUnwindSafe(call)));
        called.unwrap_or_else(|panic| {
            let text = format!("a panic: {}", panic_text(&*panic));
            catch_panic::drop_payload(panic);
            Err(text)
        })
    }

    fn load(&self, activation: &Activation<K>) -> Result<A, String> {
        if self.is_abandoned() {
            return Err("the directory was abandoned".to_owned());
        }
        let loaded = self.blocking(|| (self.load)(activation));
        self.loads_failed.add(u64::from(loaded.is_err()));
        loaded
    }

    fn save(&self, activation: &Activation<K>, actor: &mut A, core: &Core) -> Result<(), String> {
        let saved = self.blocking(|| (self.save)(activation, actor));
        match &saved {
            Ok(()) => self.passivated.add(1),
            Err(error) => {
                self.saves_failed.add(1);
                catch_panic::call(|| {
                    let (actor, actor_type) = (core.id().get(), core.type_name());
                    tracing::error!(actor, actor_type, "a state was not saved: {error}");
                });
            }
        }
        saved
    }
}

/// Random keys, against attacks; fixed ones in a system that a seed repeats.
#[derive(Clone)]
enum Hashing {
    Random(RandomState),
    #[cfg(feature = "testing")]
    Fixed,
}

impl Hashing {
    #[cfg_attr(not(feature = "testing"), expect(unused_variables))]
    fn of(system: &SystemInner) -> Self {
        #[cfg(feature = "testing")]
        if system.scheduler.executor().is_some() {
            return Self::Fixed;
        }
        Self::Random(RandomState::new())
    }
}

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        match self {
            Self::Random(state) => state.build_hasher(),
            #[cfg(feature = "testing")]
            Self::Fixed => DefaultHasher::new(),
        }
    }
}

fn kept<A>(actor: Option<A>) -> SharedKept<A> {
    let waiting = Vec::new();
    Arc::new(Mutex::new(Kept { actor, waiting }))
}

fn lock_kept<A>(kept: &Mutex<Kept<A>>) -> MutexGuard<'_, Kept<A>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Clone> Activation<K> {
    /// Its epoch is set when it is spawned.
    fn unspawned(key: &K) -> Arc<Self> {
        let key = key.clone();
        Arc::new(Self { key, epoch: 0 })
    }
}

impl<A: Actor> Entry<A> {
    /// Terminated actors would keep their memory.
    fn forget_ended(&mut self) {
        if !self.after.is_empty() {
            self.after.retain(|core| core.end_reason().is_none());
        }
    }

    /// What the next activation of the key has to wait for: this one, and if it is stopped early, those before it.
    fn to_wait_for(&self) -> Vec<CoreRef> {
        let mut cores = self.after.clone();
        cores.retain(|core| core.end_reason().is_none());
        cores.push(self.actor.cell().core_ref().clone());
        cores
    }

    fn watched(&self) -> Watched {
        let cores = self.to_wait_for();
        let epoch = self.epoch;
        Watched { epoch, cores }
    }
}

/// The actors of an entry.
struct Watched {
    epoch: u64,
    cores: Vec<CoreRef>,
}

/// Calls `then` once all of these have terminated, which may be now; not if there are none.
fn when_ended(cores: &[CoreRef], then: impl Fn() + Send + Sync + 'static) {
    let left = Arc::new((AtomicUsize::new(cores.len()), then));
    for core in cores {
        let left = left.clone();
        let on_end = move |_| {
            // Ordering: AcqRel: the last one sees what all of them have saved.
            if left.0.fetch_sub(1, Ordering::AcqRel) == 1 {
                (left.1)();
            }
        };
        core.on_end(Watcher::System, Box::new(on_end));
    }
}

/// Makes `entry` that of the key; takes `new_key` only if there was none.
fn put<K: Hash + Eq, A: Actor>(
    shard: &mut Shard<K, A>,
    new_key: &mut Option<K>,
    key: &K,
    entry: Entry<A>,
) -> Option<Entry<A>> {
    match shard.get_mut(key) {
        Some(present) => Some(std::mem::replace(present, entry)),
        None => shard.insert(new_key.take()?, entry),
    }
}

fn accepted(core: &Core) -> u64 {
    core.mailbox.lanes().map(|lane| lane.accepted()).sum()
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, A: Actor> Activations<K, A> {
    pub(super) fn new<S: Store<K, A>>(
        system: Arc<SystemInner>,
        options: DirectoryOptions,
        store: S,
    ) -> Arc<Self> {
        let store = Arc::new(store);
        let saves = store.clone();
        let backing = Backing {
            system,
            load: Box::new(move |it| store.load(it).map_err(|error| format!("{error:#}"))),
            save: Box::new(move |it, actor| {
                let saved = saves.save(it, actor);
                saved.map_err(|error| format!("{error:#}"))
            }),
            is_abandoned: AtomicBool::new(false),
            passivated: Counter::default(),
            loads_failed: Counter::default(),
            saves_failed: Counter::default(),
        };
        let hasher = Hashing::of(&backing.system);
        let shard = || Mutex::new(HashMap::with_hasher(hasher.clone()));
        let directory = Arc::new(Self {
            id: next_id(),
            options,
            backing: Arc::new(backing),
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher,
            len: AtomicUsize::new(0),
            next_epoch: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
            closing: Mutex::new(()),
            coarse_ns: AtomicU64::new(clock::now_ns()),
            search_after_ns: AtomicU64::new(0),
            activated: Counter::default(),
            refused: Counter::default(),
        });
        directory.start_sweeps();
        directory
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<K, A>> {
        let shard = self.shards[shard].lock();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    fn shard_of(&self, key: &K) -> MutexGuard<'_, Shard<K, A>> {
        self.lock(self.hasher.hash_one(key) as usize % SHARDS)
    }

    pub(super) fn len(&self) -> usize {
        // Ordering: Relaxed, a gauge; the bound is checked by read-modify-writes.
        self.len.load(Ordering::Relaxed)
    }

    fn coarse_ns(&self) -> u64 {
        // Ordering: Relaxed, a recent time is enough.
        self.coarse_ns.load(Ordering::Relaxed)
    }

    /// The present activation, if it takes messages.
    pub(super) fn find(&self, key: &K) -> Option<ActorRef<A>> {
        if self.backing.is_abandoned() {
            return None;
        }
        let mut shard = self.shard_of(key);
        let entry = shard.get_mut(key)?;
        entry.used_ns = self.coarse_ns();
        entry.forget_ended();
        let is_open = !entry.actor.cell().core().mailbox.is_closed();
        is_open.then(|| entry.actor.clone())
    }

    /// The present activation, or a new one.
    pub(super) fn activate(self: &Arc<Self>, key: &K) -> Result<ActorRef<A>, DirectoryError> {
        if let Some(actor) = self.find(key) {
            return Ok(actor);
        }
        let mut outcome = self.begin(key, None);
        if matches!(outcome, Err(DirectoryError::Full(_)))
            && self.options.at_bound == AtBound::PassivateIdle
            && let Some(victim) = self.passivate_least_recent()
        {
            outcome = self.begin(key, Some(victim));
        }
        if outcome.is_err() {
            self.refused.add(1);
        }
        outcome
    }

    /// Begins an activation, unless another thread has. With a `victim` it may exceed the bound, because it starts only
    /// after the victim has ended. Above the bound, the next activation of a key needs a victim, too.
    fn begin(
        self: &Arc<Self>,
        key: &K,
        victim: Option<CoreRef>,
    ) -> Result<ActorRef<A>, DirectoryError> {
        // Cloned and dropped without the lock: keys are the user's.
        let (mut new_key, mut new) = (Some(key.clone()), Activation::unspawned(key));
        let (actor, watched, _old) = {
            let mut shard = self.shard_of(key);
            // Under the lock, which `abandon` takes after it has set this: it sees each entry that is made before.
            if self.backing.is_abandoned() {
                return Err(DirectoryError::Closed);
            }
            let entry = shard.get(key);
            if let Some(entry) = entry.filter(|it| !it.actor.cell().core().mailbox.is_closed()) {
                return Ok(entry.actor.clone());
            }
            // Under the lock, which `close_all` takes after it has set this: it sees each entry that is made before.
            // Ordering: Acquire, pairs with the Release there.
            if self.is_closed.load(Ordering::Acquire) {
                return Err(DirectoryError::Closed);
            }
            let (after, kept) = match entry {
                // Above the bound, an activation that has not ended yet has given its place to another key.
                Some(_) if victim.is_none() && self.len() > self.options.activations_max => {
                    return Err(DirectoryError::Full(self.options.activations_max));
                }
                Some(entry) => {
                    let mut after = entry.to_wait_for();
                    after.extend(victim);
                    (after, entry.kept.clone())
                }
                None => {
                    self.count_one(victim.is_some())?;
                    (victim.into_iter().collect(), kept(None))
                }
            };
            match self.spawn(&mut new, after, kept) {
                Ok(entry) => {
                    let (actor, watched) = (entry.actor.clone(), entry.watched());
                    (actor, watched, put(&mut shard, &mut new_key, key, entry))
                }
                Err(error) => {
                    if !shard.contains_key(key) {
                        // Ordering: Relaxed, as in `count_one`.
                        self.len.fetch_sub(1, Ordering::Relaxed);
                    }
                    return Err(error);
                }
            }
        };
        self.watch(key.clone(), &watched);
        Ok(actor)
    }

    /// Counts one more entry.
    fn count_one(&self, may_exceed: bool) -> Result<(), DirectoryError> {
        let max = self.options.activations_max;
        let more = |len| (len < max || may_exceed).then_some(len + 1);
        // Ordering: Relaxed, the count alone decides.
        let (relaxed, len) = (Ordering::Relaxed, &self.len);
        let counted = len.fetch_update(relaxed, relaxed, more);
        counted.map(drop).map_err(|_| DirectoryError::Full(max))
    }

    /// Spawns the actor of a new entry, which starts when those in `after` have terminated. The caller has locked the
    /// shard.
    fn spawn(
        self: &Arc<Self>,
        new: &mut Arc<Activation<K>>,
        after: Vec<CoreRef>,
        kept: SharedKept<A>,
    ) -> Result<Entry<A>, DirectoryError> {
        // Ordering: Relaxed: for one key, the lock of its shard orders the epochs.
        let epoch = self.next_epoch.fetch_add(1, Ordering::Relaxed);
        Arc::get_mut(new).expect("nobody else has it yet").epoch = epoch;
        let activation = new.clone();
        let options = self.options.member.clone();
        let factory = self.factory(activation.clone(), kept.clone());
        let at_end = self.at_end(activation, kept.clone());
        let system = &self.backing.system;
        lock_kept(&kept).waiting.push(epoch);
        let must_wait = !after.is_empty() && !planted!("activation-too-early");
        let spawned = system.spawn_activation(options, factory, at_end, must_wait);
        let actor = spawned.map_err(|_| {
            lock_kept(&kept).leave(epoch);
            DirectoryError::Closed
        })?;
        self.activated.add(1);
        let successor = actor.cell().core_ref().clone();
        when_ended(&after, move || successor.signal(core::RESUME));
        Ok(Entry {
            actor,
            epoch,
            after,
            kept,
            accepted: 0,
            used_ns: clock::now_ns(),
        })
    }

    /// Removes the entry of this epoch when its actor, and all that it waits for, have terminated, which may be now. Call
    /// without the shard's lock.
    fn watch(self: &Arc<Self>, key: K, watched: &Watched) {
        let (directory, epoch) = (Arc::downgrade(self), watched.epoch);
        when_ended(&watched.cores, move || {
            if let Some(directory) = directory.upgrade() {
                directory.ended(&key, epoch);
            }
        });
    }

    fn ended(&self, key: &K, epoch: u64) {
        // Dropped without the lock: key and actor are the user's.
        let _removed = {
            let mut shard = self.shard_of(key);
            if shard.get(key).is_none_or(|entry| entry.epoch != epoch) {
                return;
            }
            // Ordering: Relaxed, as in `begin`.
            self.len.fetch_sub(1, Ordering::Relaxed);
            shard.remove_entry(key)
        };
    }

    fn factory(&self, activation: Arc<Activation<K>>, kept: SharedKept<A>) -> TryFactory<A> {
        let backing = self.backing.clone();
        Box::new(move || {
            let taken = {
                let mut kept = lock_kept(&kept);
                kept.leave(activation.epoch);
                kept.actor.take()
            };
            taken.map_or_else(|| backing.load(&activation), Ok)
        })
    }

    /// Saves the actor of an activation that ends, or the one that was kept for it if it was stopped before its start. If
    /// that fails, the actor becomes that of the next activation.
    fn at_end(self: &Arc<Self>, activation: Arc<Activation<K>>, kept: SharedKept<A>) -> AtEnd<A> {
        let (backing, directory) = (self.backing.clone(), Arc::downgrade(self));
        Box::new(move |last, core| {
            let unused = {
                let mut kept = lock_kept(&kept);
                let is_last = kept.leave(activation.epoch) && kept.waiting.is_empty();
                kept.actor.take_if(|_| is_last)
            };
            if backing.is_abandoned() {
                return Ok(());
            }
            let mut actor = match (last, unused) {
                (Last::Stopped(actor), _) | (Last::Failed, Some(actor)) => actor,
                (Last::Failed, None) => return Ok(()),
                (Last::Interrupted, _) => {
                    backing.saves_failed.add(1);
                    return Err("its state was not saved: a stop interrupted a handler".to_owned());
                }
            };
            let Err(error) = backing.save(&activation, &mut actor, core) else {
                return Ok(());
            };
            let directory = directory.upgrade().ok_or(DirectoryError::Closed);
            let outcome = directory.and_then(|it| it.keep(&activation, actor, &kept, core));
            outcome.map_err(|_| format!("its state was not saved, and is lost: {error}"))
        })
    }

    /// Gives the actor of a failed save to the next activation, which waits for the end of this one, `core`.
    fn keep(
        self: &Arc<Self>,
        activation: &Activation<K>,
        actor: A,
        own: &SharedKept<A>,
        core: &Core,
    ) -> Result<(), DirectoryError> {
        let key = &activation.key;
        // Without the lock, as in `begin`.
        let (mut new_key, mut new) = (Some(key.clone()), Activation::unspawned(key));
        let (watched, _old) = {
            let mut shard = self.shard_of(key);
            {
                let mut kept = lock_kept(own);
                kept.actor = Some(actor);
                if !kept.waiting.is_empty() {
                    return Ok(());
                }
            }
            let mut after = shard.get(key).map_or_else(Vec::new, Entry::to_wait_for);
            if after.iter().all(|it| it.id() != core.id()) {
                after.push(CoreRef::of(core));
            }
            let entry = self.spawn(&mut new, after, own.clone())?;
            let watched = entry.watched();
            let old = put(&mut shard, &mut new_key, key, entry);
            if old.is_none() {
                self.count_one(true)?;
            }
            (watched, old)
        };
        self.watch(key.clone(), &watched);
        Ok(())
    }

    /// Passivates the present activation of the key; `false` if there is none.
    pub(super) fn passivate(&self, key: &K) -> bool {
        let core = {
            let shard = self.shard_of(key);
            shard.get(key).map(|it| it.actor.cell().core_ref().clone())
        };
        !self.close(core.into_iter().collect()).is_empty()
    }

    pub(super) fn passivate_all(&self) {
        let mut cores = Vec::new();
        for shard in 0..SHARDS {
            let shard = self.lock(shard);
            cores.extend(shard.values().map(|it| it.actor.cell().core_ref().clone()));
        }
        self.close(cores);
    }

    /// Passivates all activations; there will be no others, besides those of actors whose save has failed.
    pub(super) fn close_all(&self) {
        // Ordering: Release, pairs with the Acquire in `begin`.
        self.is_closed.store(true, Ordering::Release);
        self.passivate_all();
    }

    /// Stops all activations without saving them; there will be no others.
    pub(super) fn abandon(&self) {
        // Ordering: Release, pairs with the Acquire of `Backing::is_abandoned`.
        self.backing.is_abandoned.store(true, Ordering::Release);
        for shard in 0..SHARDS {
            let cores: Vec<_> = {
                let shard = self.lock(shard);
                let actors = shard.values();
                actors
                    .map(|it| it.actor.cell().core_ref().clone())
                    .collect()
            };
            for core in cores {
                core.signal(core::STOP);
            }
        }
    }

    /// Closes the mailboxes of these activations, so that each handles what it has and ends. Returns those that were
    /// open, and for which no outbox holds messages.
    fn close(&self, mut cores: Vec<CoreRef>) -> Vec<CoreRef> {
        if cores.is_empty() {
            return cores;
        }
        let _closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        cores.retain(|core| !core.mailbox.is_closed());
        drain_unheld(cores)
    }

    /// Passivates the activations that were idle for the longest time, and returns the first of them.
    fn passivate_least_recent(&self) -> Option<CoreRef> {
        // Ordering: Relaxed, here and below: a search more or less.
        if clock::now_ns() < self.search_after_ns.load(Ordering::Relaxed) {
            return None;
        }
        let mut idle = Vec::new();
        for shard in 0..SHARDS {
            let shard = self.lock(shard);
            let used = shard
                .values()
                .map(|it| (it.used_ns, it.actor.cell().core_ref()));
            let used = used.filter(|(_, core)| is_idle(core));
            idle.extend(used.map(|(used_ns, core)| (used_ns, core.clone())));
        }
        // Equal times are common on a virtual clock: then the order is that of the activations.
        let by_use = |(used_ns, core): &(u64, CoreRef)| (*used_ns, core.id());
        // One search serves several new keys.
        let victims = 1 + self.options.activations_max / VICTIMS_PART;
        if victims < idle.len() {
            idle.select_nth_unstable_by_key(victims, by_use);
            idle.truncate(victims);
        }
        idle.sort_unstable_by_key(by_use);
        let closed = self.close(idle.into_iter().map(|(_, core)| core).collect());
        if closed.is_empty() {
            let after_ns = clock::now_ns() + saturating_ns(SEARCH_INTERVAL);
            self.search_after_ns.store(after_ns, Ordering::Relaxed);
        }
        closed.into_iter().next()
    }

    /// Sweeps one shard after the other, from the timer thread.
    fn start_sweeps(self: &Arc<Self>) {
        let period = match self.options.idle_after {
            Some(idle) => (idle / (ROUNDS * SHARDS as u32)).max(SWEEP_MIN),
            None if self.options.at_bound == AtBound::PassivateIdle => SWEEP_DEFAULT,
            None => return,
        };
        // Short idle times need several shards per sweep.
        let idle_ns = self.options.idle_after.map_or(u64::MAX, saturating_ns);
        let round = u64::from(ROUNDS).saturating_mul(saturating_ns(period));
        let at_once = (SHARDS as u64)
            .saturating_mul(round)
            .div_ceil(idle_ns.max(1))
            .clamp(1, SHARDS as u64);
        let directory = Arc::downgrade(self);
        let mut next = 0;
        let set = self.backing.system.timers.after(period, move |_| {
            let directory = Weak::upgrade(&directory)?;
            for _ in 0..at_once {
                directory.sweep(next, idle_ns);
                next = (next + 1) % SHARDS;
            }
            Some(period)
        });
        // Without a timer thread the system is shutting down.
        drop(set);
    }

    fn sweep(&self, shard: usize, idle_ns: u64) {
        let now_ns = clock::now_ns();
        // Ordering: Relaxed, as in `coarse_ns`.
        self.coarse_ns.store(now_ns, Ordering::Relaxed);
        let mut idle = Vec::new();
        for entry in self.lock(shard).values_mut() {
            entry.forget_ended();
            let core = entry.actor.cell().core();
            let accepted = accepted(core);
            if accepted != entry.accepted || !is_idle(core) {
                entry.accepted = accepted;
                entry.used_ns = now_ns;
            } else if now_ns.saturating_sub(entry.used_ns) >= idle_ns {
                idle.push(CoreRef::of(core));
            }
        }
        self.close(idle);
    }
}

/// Whether it has nothing to do. A suspended one is not idle: its async handler may wait for another activation, which
/// would wait for its end.
fn is_idle(core: &Core) -> bool {
    let has_none = !core.mailbox.is_closed() && core.mailbox.depth() == 0;
    has_none && core.state.phase() == Phase::Idle
}

impl<K, A: Actor> Drop for Activations<K, A> {
    fn drop(&mut self) {
        let mut cores = Vec::new();
        for shard in &mut self.shards {
            let shard = shard.get_mut().unwrap_or_else(PoisonError::into_inner);
            cores.extend(shard.values().map(|it| it.actor.cell().core_ref().clone()));
        }
        retire(cores);
    }
}

impl<K: Send + Sync, A: Actor> AnyDirectory for Activations<K, A> {
    fn snapshot(&self) -> DirectorySnapshot {
        DirectorySnapshot {
            id: self.id,
            name: self.options.name.clone(),
            actor_type: std::any::type_name::<A>().to_owned(),
            // Ordering: Relaxed, a gauge.
            activations: self.len.load(Ordering::Relaxed) as u64,
            activated: self.activated.get(),
            passivated: self.backing.passivated.get(),
            refused: self.refused.get(),
            loads_failed: self.backing.loads_failed.get(),
            saves_failed: self.backing.saves_failed.get(),
        }
    }
}
