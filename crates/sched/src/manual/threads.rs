//! The threads of a manual executor. Every job (the run of a task, a timer's call, the poll of a future, a thread of the
//! simulation) has a stack of its own, so a job that waits is suspended and the others run on.
//!
//! ```text
//!   root (the test's code) ── step ──▶ resume ──▶ job ──▶ suspend, or the job's end ──▶ back to root
//! ```
//!
//! Only the root resumes stacks, and a stack returns only to the root. The root itself waits by running steps.
//!
//! A stack whose job has ended runs the next one. If an executor is dropped while jobs are suspended, their values are
//! leaked: destructors of a job that is stopped in the middle would run code that the simulation did not choose.
//!
//! Source: shuttle runs its threads on the same kind of stacks.

use std::{cell::Cell, collections::BTreeMap, rc::Rc, sync::Arc};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use freeboard_meter::clock;
use freeboard_platform::simulation::{Simulation, ThreadNumber, Token};

use super::{Executor, GaveUp, Node, Ready, call, timers::Due};
use crate::label::RunLabel;

/// The test's code.
pub(super) const ROOT: u64 = 0;

/// Address space of a stack. Memory is used where it is touched.
const STACK_BYTES: usize = 1 << 20;

/// Yields of the test's code in a row that may find nothing to run.
const IDLE_YIELDS_MAX: u64 = 10_000;

pub(super) type Job = Box<dyn FnOnce()>;

/// What a stack tells the root.
enum Returned {
    /// The job has ended.
    Ended,
    /// The job waits.
    Suspended,
}

type Yield = Yielder<Option<Job>, Returned>;

/// A stack that runs one job after the other.
struct Stack {
    coroutine: Coroutine<Option<Job>, Returned, ()>,
    /// Whether it is between two jobs.
    is_idle: bool,
    yielder: Rc<Cell<*const Yield>>,
}

impl Stack {
    fn new() -> Self {
        let yielder = Rc::new(Cell::new(std::ptr::null()));
        let body = {
            let place = yielder.clone();
            move |yielder: &Yield, first: Option<Job>| {
                place.set(yielder);
                let mut next = first;
                while let Some(job) = next {
                    job();
                    next = yielder.suspend(Returned::Ended);
                }
            }
        };
        let memory = DefaultStack::new(STACK_BYTES).expect("the system has memory for a stack");
        Self {
            coroutine: Coroutine::with_stack(memory, body),
            is_idle: false,
            yielder,
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.is_idle {
            // Ends its loop.
            let _ = self.coroutine.resume(None);
        }
        if !self.coroutine.done() {
            // SAFETY: nothing refers to values of the stack. Other jobs cannot borrow from it, because jobs are 'static.
            // Conditions point to it, but they are dropped with the executor and are not called again.
            unsafe { self.coroutine.force_reset() };
        }
    }
}

/// What the trace shows of a job.
#[derive(Clone)]
pub(super) enum Shown {
    Task(Arc<RunLabel>),
    Timer,
    Future,
    Call(&'static str),
    Thread(Arc<str>),
}

/// The tokens that a thread has.
#[derive(Default)]
struct Tokens {
    park: bool,
    lock: bool,
}

impl Tokens {
    fn get_mut(&mut self, token: Token) -> &mut bool {
        match token {
            Token::Park => &mut self.park,
            Token::Lock => &mut self.lock,
        }
    }
}

/// A job that has begun, or that is about to.
pub(super) struct Thread {
    shown: Shown,
    node: Node,
    /// `None` before it begins and while it runs.
    stack: Option<Stack>,
    tokens: Tokens,
    is_parked: bool,
    /// The place of the timer that wakes it at its deadline.
    timer: Option<(u64, u64)>,
    /// What it waits for, on its own stack; the root checks it after each step.
    condition: Option<*mut dyn FnMut() -> bool>,
}

#[derive(Default)]
pub(super) struct Threads {
    threads: BTreeMap<u64, Thread>,
    idle: Vec<Stack>,
    /// The thread that runs, and the place of its stack's yielder.
    current: u64,
    yielder: Option<Rc<Cell<*const Yield>>>,
    last: u64,
    root_tokens: Tokens,
    /// The node as whose code the test's code runs.
    pub(super) root_node: Node,
}

// SAFETY: an executor uses its stacks only on the thread that made it: `Executor::check_thread` fails on others. Its drop
// on another thread ends the loops of stacks without a job, which call nothing, and leaks the values of the others.
unsafe impl Send for Threads {}

impl Threads {
    fn add(&mut self, shown: Shown, node: Node) -> u64 {
        self.last += 1;
        let thread = Thread {
            shown,
            node,
            stack: None,
            tokens: Tokens::default(),
            is_parked: false,
            timer: None,
            condition: None,
        };
        self.threads.insert(self.last, thread);
        self.last
    }

    /// The node whose code runs.
    pub(super) fn current_node(&self) -> Node {
        let current = self.threads.get(&self.current);
        current.map_or(self.root_node, |it| it.node)
    }

    /// Takes the threads of a node, which are suspended.
    pub(super) fn extract_of(&mut self, node: Node) -> Vec<Thread> {
        let all = std::mem::take(&mut self.threads);
        let (own, others) = all.into_iter().partition(|(_, it)| it.node == node);
        self.threads = others;
        let own: BTreeMap<_, _> = own;
        own.into_values().collect()
    }

    /// A parked thread is woken: returns the place of its timer.
    fn wake(&mut self, number: u64) -> Option<Option<(u64, u64)>> {
        let thread = self.threads.get_mut(&number)?;
        if !std::mem::take(&mut thread.is_parked) {
            return None;
        }
        thread.condition = None;
        Some(thread.timer.take())
    }
}

/// Back to the root, also if a job panics.
struct BackToRoot<'a> {
    executor: &'a Executor,
    /// The job's step, its begin, and its thread, until it has returned.
    panicked: Option<(u64, u64, u64)>,
}

impl Drop for BackToRoot<'_> {
    fn drop(&mut self) {
        let mut state = self.executor.lock();
        let state = &mut *state;
        let threads = &mut state.threads;
        threads.current = ROOT;
        threads.yielder = None;
        state.nodes.set_clock(threads.root_node);
        if let Some((step, begun_ns, number)) = self.panicked
            && let Some(thread) = threads.threads.get(&number)
        {
            // The failing step is the last one of the trace.
            let shown = thread.shown.clone();
            state.trace.note_shown(step, begun_ns, thread.node, shown);
        }
    }
}

impl Executor {
    /// Whether the test's code calls, and not a job.
    pub fn is_root(&self) -> bool {
        self.lock().threads.current == ROOT
    }

    /// Runs a new job until it ends or waits.
    pub(super) fn run_job(&self, step: u64, node: Node, shown: Shown, job: Job) {
        let number = self.lock().threads.add(shown, node);
        self.resume(step, number, Some(job));
    }

    /// Runs a thread until it ends or waits: from its begin if there is a job.
    pub(super) fn resume(&self, step: u64, number: u64, job: Option<Job>) {
        let begun_ns = clock::now_ns();
        let taken = {
            let mut state = self.lock();
            let threads = &mut state.threads;
            debug_assert_eq!(threads.current, ROOT, "only the root resumes");
            let stack = threads.threads.get_mut(&number).map(|it| it.stack.take());
            stack.map(|stack| stack.or_else(|| threads.idle.pop()))
        };
        let Some(stack) = taken else { return };
        let mut stack = stack.unwrap_or_else(Stack::new);
        // If the job panics, its stack is done and must not be resumed by its drop.
        stack.is_idle = false;
        let node;
        {
            let mut state = self.lock();
            state.threads.current = number;
            state.threads.yielder = Some(stack.yielder.clone());
            node = state.threads.current_node();
            state.nodes.set_clock(node);
        }
        let mut back = BackToRoot {
            executor: self,
            panicked: Some((step, begun_ns, number)),
        };
        let returned = stack.coroutine.resume(job);
        back.panicked = None;
        drop(back);
        let CoroutineResult::Yield(returned) = returned else {
            unreachable!("a stack's loop ends in its drop");
        };
        stack.is_idle = matches!(returned, Returned::Ended);
        let mut state = self.lock();
        let state = &mut *state;
        let threads = &mut state.threads;
        let shown = match returned {
            Returned::Ended => {
                threads.idle.push(stack);
                threads.threads.remove(&number).map(|it| it.shown)
            }
            Returned::Suspended => threads.threads.get_mut(&number).map(|thread| {
                thread.stack = Some(stack);
                thread.shown.clone()
            }),
        };
        if let Some(shown) = shown {
            state.trace.note_shown(step, begun_ns, node, shown);
        }
    }

    /// Suspends the present job until the root resumes it.
    fn suspend(&self) {
        let yielder = {
            let state = self.lock();
            let place = state.threads.yielder.as_ref();
            place.expect("the root runs steps instead").get()
        };
        let restore = (self.inner.locals)();
        // SAFETY: the yielder lives as long as the loop of the present stack, which runs this job.
        let _ = unsafe { (*yielder).suspend(Returned::Suspended) };
        restore();
        self.check_sound();
    }

    /// Whether a job is suspended, or a thread has not begun.
    pub fn has_threads(&self) -> bool {
        !self.lock().threads.threads.is_empty()
    }

    /// Takes a token of the present thread, if it has it.
    pub fn take_token(&self, token: Token) -> bool {
        let mut state = self.lock();
        let threads = &mut state.threads;
        let tokens = match threads.threads.get_mut(&threads.current) {
            Some(thread) => &mut thread.tokens,
            None => &mut threads.root_tokens,
        };
        std::mem::take(tokens.get_mut(token))
    }

    /// Marks the present thread as parked, with a timer for the deadline.
    fn set_parked(&self, deadline_ns: u64, condition: Option<*mut dyn FnMut() -> bool>) {
        let mut state = self.lock();
        let state = &mut *state;
        let number = state.threads.current;
        let node = state.threads.current_node();
        let timer = (deadline_ns < u64::MAX)
            .then(|| state.insert_due(deadline_ns, node, Due::Thread(number)));
        let thread = state.threads.threads.get_mut(&number);
        let thread = thread.expect("the present thread");
        thread.is_parked = true;
        thread.timer = timer;
        thread.condition = condition;
    }

    /// A parked thread becomes runnable.
    pub(super) fn wake_thread(&self, number: u64) {
        let mut state = self.lock();
        let state = &mut *state;
        if let Some(timer) = state.threads.wake(number) {
            if let Some(place) = timer {
                state.timers.remove_place(place);
            }
            state.add_thread(number, None);
        }
    }

    /// Waits on a job's stack until the condition holds.
    pub(super) fn suspend_until(
        &self,
        deadline_ns: u64,
        is_ready: &mut dyn FnMut() -> bool,
    ) -> Result<(), GaveUp> {
        loop {
            if is_ready() {
                return Ok(());
            }
            if clock::now_ns() >= deadline_ns {
                return Err(GaveUp::DeadlinePassed);
            }
            let condition: *mut (dyn FnMut() -> bool + '_) = is_ready;
            // SAFETY: only the lifetime changes. The root calls the condition only while this job is suspended below, so
            // nothing else uses what it borrows; `Threads::wake` removes it before the job runs on.
            let condition = unsafe {
                std::mem::transmute::<
                    *mut (dyn FnMut() -> bool + '_),
                    *mut (dyn FnMut() -> bool + 'static),
                >(condition)
            };
            self.set_parked(deadline_ns, Some(condition));
            self.suspend();
        }
    }

    /// Makes the threads runnable whose conditions hold. Called by the root after each step.
    pub(super) fn check_conditions(&self) {
        let waiting: Vec<_> = {
            let state = self.lock();
            let threads = state.threads.threads.iter();
            let waiting = threads.filter_map(|(number, it)| Some((*number, it.condition?)));
            waiting.collect()
        };
        for (number, condition) in waiting {
            // SAFETY: the job is suspended in `suspend_until`, so its stack is alive and nobody else uses the condition.
            if call(|| unsafe { (*condition)() }).unwrap_or(true) {
                self.wake_thread(number);
            }
        }
    }
}

impl Executor {
    /// A loop around yields that nothing ends would hang.
    fn count_idle_yield(&self) {
        let yields = {
            let mut state = self.lock();
            state.idle_yields += 1;
            state.idle_yields
        };
        if yields > IDLE_YIELDS_MAX && !std::thread::panicking() {
            self.fail("the test yields for ever: nothing can run, and no timer is set".to_owned());
        }
    }
}

impl super::State {
    /// A thread becomes runnable.
    fn add_thread(&mut self, number: u64, body: Option<Box<dyn FnOnce() + Send>>) {
        let Some(thread) = self.threads.threads.get(&number) else {
            return;
        };
        let node = thread.node;
        let (key, ready) = Ready::thread(number, body);
        self.add(node, key, ready);
    }
}

impl Simulation for Executor {
    fn spawn(&self, name: Option<&str>, body: Box<dyn FnOnce() + Send>) -> ThreadNumber {
        self.check_thread();
        let mut state = self.lock();
        let shown = Shown::Thread(name.unwrap_or("thread").into());
        let node = state.threads.current_node();
        let number = state.threads.add(shown, node);
        state.add_thread(number, Some(body));
        ThreadNumber(number)
    }

    fn current(&self) -> ThreadNumber {
        ThreadNumber(self.lock().threads.current)
    }

    /// # Panics
    /// On the root: see [`Executor::block`].
    fn park(&self, token: Token, deadline_ns: u64) {
        if self.take_token(token) || clock::now_ns() >= deadline_ns {
            return;
        }
        if self.is_root() {
            match self.block(deadline_ns, || self.take_token(token)) {
                Ok(()) | Err(GaveUp::DeadlinePassed) => {}
                Err(why) => self.fail(format!("a thread waits: {why:?}")),
            }
            return;
        }
        self.set_parked(deadline_ns, None);
        self.suspend();
        self.take_token(token);
    }

    fn unpark(&self, thread: ThreadNumber, token: Token) {
        let ThreadNumber(number) = thread;
        {
            let mut state = self.lock();
            let threads = &mut state.threads;
            if number == ROOT {
                *threads.root_tokens.get_mut(token) = true;
            } else if let Some(thread) = threads.threads.get_mut(&number) {
                *thread.tokens.get_mut(token) = true;
            }
        }
        self.wake_thread(number);
    }

    fn yield_now(&self) {
        let number = {
            let mut state = self.lock();
            let number = state.threads.current;
            if number != ROOT {
                state.add_thread(number, None);
            }
            number
        };
        if number != ROOT {
            self.suspend();
        } else if !self.step() {
            // Nothing can run at the present time, so the clock moves to the next timer.
            match self.next_timer_ns() {
                Some(next_ns) => clock::set_virtual_ns(next_ns.max(clock::now_ns())),
                None => self.count_idle_yield(),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use freeboard_platform::{
        simulation::{self, Entered},
        sync::{Condvar, Mutex},
        thread,
    };

    use super::*;
    use crate::manual::Candidates;

    fn enter(seed: u64) -> (Executor, Entered) {
        let mut state = seed;
        // A linear congruential generator is enough for an order.
        let choose = move |candidates: &Candidates<'_>| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % candidates.len()
        };
        let executor = Executor::new(Box::new(choose), 10_000, || Box::new(|| ()));
        let entered = simulation::enter(Rc::new(executor.clone()));
        (executor, entered.expect("no other simulation"))
    }

    fn spawn<T: Send + 'static>(
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let builder = thread::Builder::new().name(name.to_owned());
        builder.spawn(body).expect("a simulated thread")
    }

    /// A bounded queue of one place between two threads, by a lock and two conditions.
    fn hand_over(count: u32) -> Vec<u32> {
        let slot = Arc::new((Mutex::new(None), Condvar::new()));
        let producer = {
            let slot = slot.clone();
            spawn("producer", move || {
                for number in 0..count {
                    let mut place = slot.0.lock().expect("no panic");
                    while place.is_some() {
                        place = slot.1.wait(place).expect("no panic");
                    }
                    *place = Some(number);
                    slot.1.notify_all();
                }
            })
        };
        let consumer = spawn("consumer", move || {
            let mut taken = Vec::new();
            while taken.len() < count as usize {
                let mut place = slot.0.lock().expect("no panic");
                match place.take() {
                    Some(number) => taken.push(number),
                    None => drop(slot.1.wait(place).expect("no panic")),
                }
                slot.1.notify_all();
            }
            taken
        });
        producer.join().expect("no panic");
        consumer.join().expect("no panic")
    }

    #[test]
    fn threads_hand_over_and_a_seed_repeats_their_order() {
        let run = |seed| {
            let (executor, _entered) = enter(seed);
            assert!(hand_over(20).into_iter().eq(0..20), "seed {seed}");
            executor.trace_checksum()
        };
        let first: Vec<u64> = (0..50).map(run).collect();
        assert!((0..50).map(run).eq(first.iter().copied()));
        assert!(first.iter().any(|it| *it != first[0]), "one order only");
    }

    #[test]
    fn waits_end_at_their_deadline_on_the_virtual_clock() {
        let (_executor, _entered) = enter(1);
        let waiting = spawn("waiting", || {
            let pair = (Mutex::new(()), Condvar::new());
            let guard = pair.0.lock().expect("no panic");
            let waited = pair.1.wait_timeout(guard, Duration::from_secs(7));
            assert!(waited.expect("no panic").1.timed_out());
            thread::sleep(Duration::from_secs(3));
            clock::now_ns()
        });
        assert_eq!(waiting.join().expect("no panic"), 10_000_000_001);
    }

    #[test]
    fn a_thread_that_holds_a_lock_may_wait() {
        let (_executor, _entered) = enter(2);
        let lock = Arc::new(Mutex::new(0));
        let adders: Vec<_> = (0..3)
            .map(|_| {
                let lock = lock.clone();
                spawn("adder", move || {
                    let mut sum = lock.lock().expect("no panic");
                    let before = *sum;
                    thread::sleep(Duration::from_secs(1));
                    *sum = before + 1;
                })
            })
            .collect();
        for adder in adders {
            adder.join().expect("no panic");
        }
        assert_eq!(*lock.lock().expect("no panic"), 3);
    }

    #[test]
    fn a_wait_for_a_lock_leaves_the_token_of_an_unpark() {
        for seed in 0..50 {
            let (_executor, _entered) = enter(seed);
            let lock = Arc::new(Mutex::new(()));
            let held = lock.clone();
            let holder = spawn("holder", move || {
                let _held = held.lock().expect("no panic");
                thread::sleep(Duration::from_secs(1));
            });
            let waiter = spawn("waiter", move || {
                thread::sleep(Duration::from_millis(1));
                drop(lock.lock().expect("no panic"));
                thread::park();
            });
            // It comes while the waiter waits for the lock.
            thread::sleep(Duration::from_millis(10));
            waiter.thread().unpark();
            waiter.join().expect("no panic");
            holder.join().expect("no panic");
        }
    }

    #[test]
    fn a_panic_of_a_thread_is_the_result_of_its_join() {
        let (_executor, _entered) = enter(3);
        let failing = spawn("failing", || std::panic::resume_unwind(Box::new("text")));
        let panic: Result<(), _> = failing.join();
        assert_eq!(panic.expect_err("it panics").downcast_ref(), Some(&"text"));
    }

    #[test]
    fn a_wait_that_nothing_ends_is_a_deadlock() {
        let (executor, _entered) = enter(4);
        let waiting = spawn("waiting", thread::park);
        assert_eq!(
            executor.block(u64::MAX, || waiting.is_finished()),
            Err(GaveUp::Deadlock)
        );
        waiting.thread().unpark();
        waiting.join().expect("no panic");
    }

    #[test]
    fn threads_that_never_end_do_not_outlive_the_executor() {
        if std::env::var_os("FREEBOARD_SANITIZER").is_some() {
            // Their values are leaked, as the module says.
            return;
        }
        for seed in 0..100 {
            let (executor, _entered) = enter(seed);
            spawn("waiting", thread::park);
            executor.run_until_idle().expect("it parks");
        }
    }
}
