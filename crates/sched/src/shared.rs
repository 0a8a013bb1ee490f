//! What all threads of a scheduler share, and the list of its live threads.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    sync::{Arc, Condvar, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError, Weak},
    time::Instant,
};

use freeboard_meter::Padded;

use crate::{
    budget::Tick,
    catch_panic,
    gauges::Gauges,
    injector::Injector,
    local::LocalQueue,
    parker::{MonitorParker, Parker},
    settings::SchedulerSettings,
    sleep::Sleep,
    sync::{AtomicBool, AtomicUsize, Ordering, fence},
    task::Task,
    thread_slot::{NextSlot, ThreadSlots},
    worker_slots::WorkerSlots,
};

pub(crate) struct Shared {
    pub(crate) settings: SchedulerSettings,
    pub(crate) threads: Arc<ThreadSlots>,
    pub(crate) worker_slots: WorkerSlots,
    /// The queues and the sleep protocol's word have cache lines of their own: all workers read them between two runs, and
    /// the settings too, which nobody writes.
    pub(crate) injector: Padded<Injector>,
    /// Tasks that the driver has made ready, except those that an idle worker's wait has put into its own queue.
    pub(crate) io_queue: Padded<Injector>,
    pub(crate) sleep: Padded<Sleep>,
    pub(crate) gauges: Gauges,
    pub(crate) tick: Tick,
    pub(crate) monitor_parker: MonitorParker,
    pub(crate) live_threads: LiveThreads,
    is_shut_down: AtomicBool,
    /// Threads that have not terminated.
    running: AtomicUsize,
    pinned: StdMutex<PinnedPosts>,
    /// Called by the last thread.
    on_end: StdMutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Runs the tasks in place of threads.
    #[cfg(feature = "manual")]
    pub(crate) manual: Option<crate::manual::Executor>,
}

/// The part of a pinned thread that is shared with the threads that schedule its task.
#[derive(Default)]
pub(crate) struct PinnedPost {
    pub(crate) slot: NextSlot,
    pub(crate) parker: Parker,
    is_terminating: AtomicBool,
}

impl PinnedPost {
    /// Terminates the thread after its present run.
    pub(crate) fn terminate(&self) {
        // Ordering: SeqCst, before the token: the thread reads it after it has taken the token.
        self.is_terminating.store(true, Ordering::SeqCst);
        self.parker.unpark();
    }

    pub(crate) fn is_terminating(&self) -> bool {
        // Ordering: SeqCst, as in `terminate`.
        self.is_terminating.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
struct PinnedPosts {
    posts: Vec<Weak<PinnedPost>>,
    /// Pinned threads that were ever started.
    started: usize,
    is_closed: bool,
}

impl Shared {
    pub(crate) fn new(settings: SchedulerSettings, on_end: impl FnOnce() + Send + 'static) -> Self {
        let threads = Arc::new(ThreadSlots::new(settings.threads_max()));
        Self {
            worker_slots: WorkerSlots::new(settings.workers, threads.clone()),
            injector: Padded::default(),
            io_queue: Padded::default(),
            sleep: Padded(Sleep::new(
                threads.clone(),
                settings.driver.clone(),
                settings.fault,
            )),
            threads,
            gauges: Gauges::default(),
            tick: Tick::default(),
            monitor_parker: MonitorParker::default(),
            live_threads: LiveThreads::default(),
            is_shut_down: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            pinned: StdMutex::default(),
            on_end: StdMutex::new(Some(Box::new(on_end))),
            #[cfg(feature = "manual")]
            manual: None,
            settings,
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        // Ordering: SeqCst, rare and off the message path.
        self.is_shut_down.load(Ordering::SeqCst)
    }

    pub(crate) fn request_shutdown(&self) {
        // Ordering: SeqCst, before the threads are woken to read it.
        self.is_shut_down.store(true, Ordering::SeqCst);
        self.worker_slots.close();
        self.sleep.wake_all();
        self.monitor_parker.wake();
        let posts = {
            let mut pinned = self.lock_pinned();
            pinned.is_closed = true;
            std::mem::take(&mut pinned.posts)
        };
        for post in posts.iter().filter_map(Weak::upgrade) {
            post.terminate();
        }
    }

    fn lock_pinned(&self) -> StdMutexGuard<'_, PinnedPosts> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a pinned thread that is about to start; returns its number, which no other thread has.
    pub(crate) fn enter_pinned(&self, post: &Arc<PinnedPost>) -> io::Result<usize> {
        let mut pinned = self.lock_pinned();
        if pinned.is_closed {
            return Err(io::Error::other("the scheduler is shutting down"));
        }
        pinned.posts.retain(|post| post.strong_count() > 0);
        pinned.posts.push(Arc::downgrade(post));
        let number = self.settings.threads_max() + pinned.started;
        pinned.started += 1;
        self.enter(number);
        Ok(number)
    }

    /// Whether any counted queue has a task (see `sleep/README.md`).
    pub(crate) fn has_work(&self) -> bool {
        self.is_shut_down() || self.queued() > 0
    }

    /// Tasks in counted queues.
    pub(crate) fn queued(&self) -> u64 {
        let workers = self.worker_slots.occupants();
        let rings = workers.map(|thread| u64::from(self.threads.get(thread).queue.len()));
        (self.injector.len() + self.io_queue.len()) as u64 + rings.sum::<u64>()
    }

    pub(crate) fn inject(&self, task: Task) {
        self.injector.push(task);
        self.sleep.wake_one();
    }

    /// Queues a task that the driver has made ready while workers run others.
    pub(crate) fn inject_io(&self, task: Task) {
        self.io_queue.push(task);
        self.sleep.wake_one();
    }

    /// Wakes a worker on behalf of the thread `waker`, which counts the wake.
    pub(crate) fn wake_one(&self, waker: usize) {
        if self.sleep.wake_one() {
            self.threads.get(waker).wakes.bump(1);
        }
    }

    pub(crate) fn set_online(&self, online: usize) {
        let scratch = LocalQueue::new();
        for thread in self.worker_slots.set_online(online, &self.sleep) {
            if self.drain(thread, &scratch) > 0 {
                self.sleep.wake_one();
            }
            self.sleep.wake_thread(thread);
        }
        // A worker slot that found no spare is left to a displaced thread or to the monitor. Otherwise a caller in a
        // loop would start threads in a loop.
        self.monitor_parker.wake();
    }

    /// H4: moves the tasks of a thread slot to the injector, by stealing from its ring. `scratch` is the caller's own,
    /// empty queue. Returns the number of tasks; the caller then acts as a producer.
    ///
    /// After H1 no task is left behind: the thread itself moves what it pushes later.
    pub(crate) fn drain(&self, thread: usize, scratch: &LocalQueue) -> u64 {
        // Ordering: SeqCst, H1 before the read of the queue. It pairs with the thread's push, a fence or a SeqCst swap,
        // and its read of its own state (P2').
        fence(Ordering::SeqCst);
        let slot = self.threads.get(thread);
        let mut moved = Vec::new();
        moved.extend(slot.next_slot.take());
        slot.queue.take_all(scratch, |task| moved.push(task));
        if !moved.is_empty() {
            self.injector.push_batch(&moved);
        }
        moved.len() as u64
    }

    /// A thread is about to start.
    pub(crate) fn enter(&self, number: usize) {
        // Ordering: Relaxed: a thread that is about to start has not terminated.
        self.running.fetch_add(1, Ordering::Relaxed);
        self.live_threads.enter(number);
    }

    /// A thread is about to terminate, or could not be started.
    pub(crate) fn leave(&self, number: usize) {
        // Ordering: AcqRel: the last one sees everything that the others did.
        let is_last = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.is_shut_down() {
            self.injector.close();
            self.io_queue.close();
            let on_end = self
                .on_end
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(on_end) = on_end {
                catch_panic::call(on_end);
            }
        }
        self.live_threads.leave(number);
    }
}

/// The threads that have not terminated, for a shutdown with a deadline. Counted by number, because a new thread may get
/// the number of one that is just terminating.
#[derive(Default)]
pub(crate) struct LiveThreads {
    numbers: StdMutex<BTreeMap<usize, u32>>,
    all_left: Condvar,
}

impl LiveThreads {
    fn lock(&self) -> StdMutexGuard<'_, BTreeMap<usize, u32>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, number: usize) {
        *self.lock().entry(number).or_default() += 1;
    }

    fn leave(&self, number: usize) {
        let mut numbers = self.lock();
        if let Entry::Occupied(mut threads) = numbers.entry(number) {
            *threads.get_mut() -= 1;
            if *threads.get() == 0 {
                threads.remove();
            }
        }
        let is_last = numbers.is_empty();
        drop(numbers);
        if is_last {
            self.all_left.notify_all();
        }
    }

    /// Waits until all threads have left, or until `deadline`; returns those that have not.
    pub(crate) fn wait_until(&self, deadline: Instant) -> Vec<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        let (numbers, _) = self
            .all_left
            .wait_timeout_while(self.lock(), left, |numbers| !numbers.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        numbers.keys().copied().collect()
    }
}
