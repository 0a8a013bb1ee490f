//! What all threads of a scheduler share, and how its threads begin and end.

use std::{
    io,
    sync::{Arc, Mutex as StdMutex, PoisonError, Weak},
    thread,
};

use crate::{
    catch_panic,
    doze::Doze,
    gauges::Gauges,
    injector::Injector,
    living::Living,
    local::LocalQueue,
    pinned::Post,
    places::{HandOver, Places, Stuck},
    seat::Seats,
    settings::SchedulerSettings,
    sleep::Sleep,
    sync::{AtomicBool, AtomicUsize, Ordering, fence},
    task::Task,
    tick::Tick,
    worker::Worker,
};

pub(crate) struct Shared {
    pub(crate) settings: SchedulerSettings,
    pub(crate) seats: Arc<Seats>,
    pub(crate) places: Places,
    pub(crate) injector: Injector,
    /// What the driver has found, but for what an idle worker found and takes itself.
    pub(crate) found: Injector,
    pub(crate) sleep: Sleep,
    pub(crate) gauges: Gauges,
    pub(crate) tick: Tick,
    pub(crate) doze: Doze,
    pub(crate) living: Living,
    is_shut_down: AtomicBool,
    /// Threads that have not come to their end.
    running: AtomicUsize,
    pinned: StdMutex<PinnedPosts>,
    /// Called by the last thread that ends.
    on_end: StdMutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// Threads with one task each.
#[derive(Default)]
struct PinnedPosts {
    posts: Vec<Weak<Post>>,
    /// Ever started.
    started: usize,
    is_closed: bool,
}

impl Shared {
    pub(crate) fn new(settings: SchedulerSettings, on_end: impl FnOnce() + Send + 'static) -> Self {
        let seats = Arc::new(Seats::new(settings.threads_max()));
        Self {
            places: Places::new(settings.workers, seats.clone()),
            injector: Injector::new(),
            found: Injector::new(),
            sleep: Sleep::new(seats.clone(), settings.driver.clone(), settings.fault),
            seats,
            gauges: Gauges::new(),
            tick: Tick::new(),
            doze: Doze::new(),
            living: Living::default(),
            is_shut_down: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            pinned: StdMutex::default(),
            on_end: StdMutex::new(Some(Box::new(on_end))),
            settings,
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        // Ordering: SeqCst, rare and off the message path.
        self.is_shut_down.load(Ordering::SeqCst)
    }

    pub(crate) fn request_shutdown(&self) {
        // Ordering: SeqCst, before the threads are woken to see it.
        self.is_shut_down.store(true, Ordering::SeqCst);
        self.places.close();
        self.sleep.wake_all();
        self.doze.rouse();
        let posts = {
            let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
            pinned.is_closed = true;
            std::mem::take(&mut pinned.posts)
        };
        for post in posts.iter().filter_map(Weak::upgrade) {
            post.end();
        }
    }

    /// A pinned thread is about to start; its number, which no other thread has.
    pub(crate) fn enter_pinned(&self, post: &Arc<Post>) -> io::Result<usize> {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
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
        let occupants = self.places.occupants();
        let rings = occupants.map(|seat| u64::from(self.seats.get(seat).queue.len()));
        (self.injector.len() + self.found.len()) as u64 + rings.sum::<u64>()
    }

    pub(crate) fn inject(&self, task: Task) {
        self.injector.push(task);
        self.sleep.wake_one();
    }

    /// A task that the driver has found, while workers have other things to do.
    pub(crate) fn inject_found(&self, task: Task) {
        self.found.push(task);
        self.sleep.wake_one();
    }

    /// Wakes a worker on behalf of the thread of seat `waker`, which counts it.
    pub(crate) fn wake_one(&self, waker: usize) {
        if self.sleep.wake_one() {
            self.seats.get(waker).wakes.bump(1);
        }
    }

    /// Takes the place from the thread of `seat` and gives it to a spare, or to a thread that is
    /// started for it.
    pub(crate) fn hand_over(self: &Arc<Self>, seat: usize, why: Stuck) -> HandOver {
        let start = || self.start_thread().is_ok();
        self.places.hand_over(seat, why, &self.sleep, start)
    }

    pub(crate) fn set_online(&self, online: usize) {
        let scratch = LocalQueue::new();
        for seat in self.places.set_online(online, &self.sleep) {
            if self.drain(seat, &scratch) > 0 {
                self.sleep.wake_one();
            }
            self.sleep.wake_seat(seat);
        }
        // Places that found no spare are left to the threads that are just losing theirs, and to the
        // monitor's next look: else who calls this in a loop would start threads in a loop.
        self.doze.rouse();
    }

    /// Moves what is queued in a seat to the global queue, by the thieves' end of its ring. `scratch`
    /// is the caller's own and empty. Returns the number of tasks. The caller acts as a producer then.
    ///
    /// After H1 nothing is left behind: what the thread pushes later it moves itself.
    pub(crate) fn drain(&self, seat: usize, scratch: &LocalQueue) -> u64 {
        // Ordering: SeqCst, H1 before the look at the queue; its partner is the thread's push, a fence
        // or a SeqCst swap, and then its look at its standing (P2').
        fence(Ordering::SeqCst);
        let seat = self.seats.get(seat);
        let mut moved = Vec::new();
        moved.extend(seat.next_slot.take());
        seat.queue.take_all(scratch, |task| moved.push(task));
        if !moved.is_empty() {
            self.injector.push_batch(&moved);
        }
        moved.len() as u64
    }

    /// Starts one more thread, which takes a vacant place or becomes a spare. `false` if no further
    /// one is allowed.
    pub(crate) fn start_thread(self: &Arc<Self>) -> io::Result<bool> {
        let Some(seat) = self.places.take_seat() else {
            return Ok(false);
        };
        self.enter(seat);
        let shared = self.clone();
        let mut builder = thread::Builder::new().name(format!("{}-{seat}", self.settings.name));
        if let Some(bytes) = self.settings.stack_bytes {
            builder = builder.stack_size(bytes);
        }
        let started = builder.spawn(move || {
            // A task must not panic, and the actor floor's do not; should one all the same, the
            // others still learn that this thread has ended.
            let _leaving = Leaving::seated(&shared, seat);
            shared.seats.get(seat).take();
            Worker::new(seat, shared.clone()).work();
        });
        if let Err(error) = started {
            self.places.forget_thread(seat);
            self.leave(seat);
            return Err(error);
        }
        self.places.add_thread(seat, &self.sleep);
        Ok(true)
    }

    fn enter(&self, number: usize) {
        // Ordering: Relaxed: a thread that is about to start has not ended.
        self.running.fetch_add(1, Ordering::Relaxed);
        self.living.enter(number);
    }

    /// A thread is about to end, or could not be started.
    pub(crate) fn leave(&self, number: usize) {
        // Ordering: AcqRel: the last one sees all that the others did.
        let is_last = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.is_shut_down() {
            self.injector.close();
            self.found.close();
            let on_end = self
                .on_end
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(on_end) = on_end {
                catch_panic::call(on_end);
            }
        }
        self.living.leave(number);
    }
}

/// Says that a thread ends, when it is dropped.
pub(crate) struct Leaving<'a> {
    shared: &'a Shared,
    number: usize,
    has_seat: bool,
}

impl<'a> Leaving<'a> {
    fn seated(shared: &'a Shared, number: usize) -> Self {
        Self {
            shared,
            number,
            has_seat: true,
        }
    }

    pub(crate) fn pinned(shared: &'a Shared, number: usize) -> Self {
        Self {
            shared,
            number,
            has_seat: false,
        }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.has_seat {
            self.shared.seats.get(self.number).leave();
            self.shared.places.leave_seat(self.number);
        }
        self.shared.leave(self.number);
    }
}
