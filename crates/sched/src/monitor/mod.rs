//! The monitor: a thread that checks each millisecond whether every worker makes progress.
//!
//! ```text
//!   check ──> each worker in a run ──> same run as at the last check?
//!    │            │ computing: its queue goes to the others
//!    │            │ blocked:   and its worker slot to a spare (`worker_slots/README.md`)
//!    │            └ longer than the threshold: reported
//!    ├─────> every worker blocked, no further thread, tasks wait: reported each second
//!    ├─────> asleep while there is work, three checks in a row: a collapse, reported, one worker is woken
//!    └─────> at least one spare is parked, and not many more
//! ```
//!
//! Threads without a worker slot are checked in turn, a fixed thread each time: they hold no tasks, and only their long
//! runs are of interest. So a check costs the same however many threads are blocked.
//!
//! It wakes no worker while all is well. When all workers have slept for a second it checks ten times less often, until
//! the first of them wakes.

mod collapse;
mod reports;
mod watch;

use std::{
    io,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use freeboard_meter::clock;

use crate::{
    catch_panic,
    driver::PollOrigin,
    local::LocalQueue,
    shared::Shared,
    thread_slot::SlotState,
    worker,
    worker_slots::{HandOver, HandOverReason},
};
use collapse::CollapseWatch;
use reports::{Growth, LongRuns, Standstill};
use watch::{Finding, RunWatch};

/// Time between two checks.
const TICK: Duration = Duration::from_millis(1);
/// Time between two checks when all workers have slept for [`IDLE_AFTER_NS`].
const IDLE_TICK: Duration = Duration::from_millis(10);
const IDLE_AFTER_NS: u64 = 1_000_000_000;
/// When all workers have computed for this time, one more thread joins them.
const RELIEF_AFTER_NS: u64 = 10_000_000;
/// Threads without a worker slot that one check covers.
const DISPLACED_CHECKS: usize = 64;
/// Time after a thread could not be started before the next attempt.
const START_AGAIN_NS: u64 = 10_000_000;
/// Time between two calls of [`crate::Observer::second`].
const SECOND_NS: u64 = 1_000_000_000;
/// Spares that stay parked even if they are not needed.
const SPARES_KEPT: usize = 2;
/// Time between two retirements of further spares.
const RETIRE_EVERY_NS: u64 = 1_000_000_000;

pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let watched = Arc::downgrade(shared);
    let mut monitor = Monitor::new(shared);
    thread::Builder::new()
        .name(format!("{}-monitor", shared.settings.name))
        .spawn(move || monitor.watch(&watched))
        .map(drop)
}

struct Monitor {
    /// By thread slot.
    runs: Vec<RunWatch>,
    /// The thread slot up to which threads without a worker slot were checked.
    turn: usize,
    /// The thread that lost its worker slot because all workers computed.
    relieved: Option<usize>,
    /// A computing thread without a worker slot: it becomes a worker after its run.
    computing: Option<usize>,
    /// Blocked workers that keep their worker slot.
    stuck: usize,
    growth: Growth,
    standstill: Standstill,
    collapse: CollapseWatch,
    long_runs: LongRuns,
    scratch: LocalQueue,
    checked_ns: u64,
    /// The last time of any activity, and the sleep protocol's generation then.
    busy_ns: u64,
    generation: u64,
    retired_ns: u64,
    second_ns: u64,
    /// No thread is started before this time.
    start_again_ns: u64,
}

impl Monitor {
    fn new(shared: &Shared) -> Self {
        let now_ns = clock::now_ns();
        Self {
            runs: Vec::new(),
            turn: 0,
            relieved: None,
            computing: None,
            stuck: 0,
            growth: Growth::new(shared.settings.workers),
            standstill: Standstill::default(),
            collapse: CollapseWatch::new(now_ns),
            long_runs: LongRuns::new(now_ns, shared.settings.long_run_ns),
            scratch: LocalQueue::new(),
            checked_ns: now_ns,
            busy_ns: now_ns,
            generation: 0,
            retired_ns: now_ns,
            second_ns: now_ns,
            start_again_ns: now_ns,
        }
    }

    fn watch(&mut self, watched: &Weak<Shared>) {
        while let Some(shared) = watched.upgrade() {
            if shared.is_shut_down() {
                return;
            }
            self.check(&shared);
            if self.checked_ns - self.busy_ns >= IDLE_AFTER_NS {
                shared.monitor_parker.sleep(IDLE_TICK);
            } else {
                drop(shared);
                thread::sleep(TICK);
            }
        }
    }

    fn check(&mut self, shared: &Arc<Shared>) {
        let now_ns = clock::now_ns();
        shared.tick.advance();
        let census = shared.worker_slots.census();
        let reading = shared.sleep.read();
        let is_all_asleep = reading.sleeping as usize == census.online && census.displaced == 0;
        let queued = shared.queued();
        if !is_all_asleep || queued > 0 || reading.generation != self.generation {
            self.busy_ns = now_ns;
            self.generation = reading.generation;
        }
        self.check_workers(shared, now_ns, reading.sleeping > 0);
        if is_all_asleep && queued == 0 {
            self.collapse.all_is_well(now_ns);
        } else {
            self.check_displaced(shared, now_ns);
            self.relieve(shared, now_ns);
            self.check_collapse(shared, now_ns);
        }
        let is_standstill = self.is_standstill(shared);
        self.standstill.check(shared, is_standstill, now_ns);
        self.poll_unattended(shared, now_ns, reading.sleeping > 0);
        self.manage_threads(shared, now_ns);
        if now_ns - self.second_ns >= SECOND_NS {
            self.second_ns = now_ns;
            catch_panic::call(|| shared.settings.observer.second());
        }
        self.checked_ns = now_ns;
    }

    /// Whether tasks wait, and no thread can run them or be started.
    fn is_standstill(&self, shared: &Shared) -> bool {
        if self.stuck == 0 || self.computing.is_some() || shared.queued() == 0 {
            return false;
        }
        let census = shared.worker_slots.census();
        self.stuck + census.vacant == census.online && census.spares + census.starting == 0
    }

    /// Fills vacant worker slots, and keeps a spare or two.
    fn manage_threads(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let census = shared.worker_slots.census();
        let missing = census.vacant.max(usize::from(census.spares == 0));
        for _ in census.starting..missing {
            if !self.start_thread(shared, now_ns) {
                break;
            }
        }
        if now_ns - self.retired_ns >= RETIRE_EVERY_NS {
            self.retired_ns = now_ns;
            shared.worker_slots.retire(SPARES_KEPT);
        }
        self.growth.check(shared, census.threads);
    }

    /// Starts one more thread, unless that has just failed.
    fn start_thread(&mut self, shared: &Arc<Shared>, now_ns: u64) -> bool {
        if now_ns < self.start_again_ns {
            return false;
        }
        let started = worker::start_thread(shared);
        if started.is_err() {
            self.start_again_ns = now_ns + START_AGAIN_NS;
        }
        matches!(started, Ok(true))
    }

    /// Polls the driver if no thread has for too long, and wakes a sleeping worker to wait there.
    fn poll_unattended(&self, shared: &Shared, now_ns: u64, has_sleepers: bool) {
        let Some(driver) = &shared.settings.driver else {
            return;
        };
        if catch_panic::call(|| driver.is_unattended(now_ns)) != Some(true) {
            return;
        }
        catch_panic::call(|| driver.poll(PollOrigin::Monitor));
        if has_sleepers {
            shared.sleep.force_wake();
        }
    }

    fn check_workers(&mut self, shared: &Arc<Shared>, now_ns: u64, has_sleepers: bool) {
        let used = shared.threads.used();
        if self.runs.len() < used {
            self.runs.resize_with(used, RunWatch::default);
        }
        self.stuck = 0;
        for worker in 0..shared.settings.workers {
            if let Some(thread) = shared.worker_slots.occupant(worker) {
                self.check_worker(shared, thread, now_ns, has_sleepers);
            }
        }
    }

    fn check_worker(
        &mut self,
        shared: &Arc<Shared>,
        thread: usize,
        now_ns: u64,
        has_sleepers: bool,
    ) {
        let slot = shared.threads.get(thread);
        let Some(run) = self.runs.get_mut(thread) else {
            // The thread was started just now.
            return;
        };
        let finding = run.check(slot, true, now_ns);
        if run.has_left_blocked_run() {
            shared.worker_slots.end_blocked(thread);
        }
        match finding {
            Finding::Nothing => return,
            Finding::Displaced => {}
            Finding::Long => {
                if has_sleepers && !slot.next_slot.is_empty() {
                    self.rescue_queue(shared, thread);
                }
            }
            Finding::Computing => self.rescue_queue(shared, thread),
            Finding::Blocked { since_ns } => {
                self.rescue_queue(shared, thread);
                self.rescue_worker_slot(shared, thread, since_ns, now_ns);
            }
        }
        self.report(shared, thread, now_ns);
    }

    /// Checks threads that lost their worker slot in a run.
    fn check_displaced(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let known = [self.relieved, self.computing];
        self.computing = None;
        for thread in known.into_iter().flatten() {
            self.check_displaced_thread(shared, thread, now_ns);
        }
        let used = self.runs.len();
        for _ in 0..DISPLACED_CHECKS.min(used) {
            self.turn = (self.turn + 1) % used;
            self.check_displaced_thread(shared, self.turn, now_ns);
        }
        let is_relieved = |thread: &usize| self.runs[*thread].is_relieved();
        self.relieved = self.relieved.filter(is_relieved);
    }

    fn check_displaced_thread(&mut self, shared: &Arc<Shared>, thread: usize, now_ns: u64) {
        let run = &mut self.runs[thread];
        let is_displaced = shared.worker_slots.state_of(thread) == SlotState::Displaced;
        if !is_displaced || run.checked_ns() == now_ns {
            return;
        }
        match run.check(shared.threads.get(thread), false, now_ns) {
            Finding::Nothing => return,
            Finding::Computing => self.computing = Some(thread),
            Finding::Long | Finding::Displaced | Finding::Blocked { .. } => {}
        }
        self.report(shared, thread, now_ns);
    }

    /// Reports the run if it is too long.
    fn report(&mut self, shared: &Arc<Shared>, thread: usize, now_ns: u64) {
        if let Some(run) = self.runs[thread].report(self.long_runs.threshold_ns(), now_ns) {
            self.long_runs.report(shared, thread, &run, now_ns);
        }
    }

    /// Moves the tasks that wait behind a stuck run to the injector.
    fn rescue_queue(&mut self, shared: &Shared, thread: usize) {
        let moved = shared.drain(thread, &self.scratch);
        if moved > 0 {
            shared.gauges.rescued_tasks.add(moved);
            if shared.sleep.wake_one() {
                shared.gauges.forced_wakes.add(1);
            }
        }
    }

    fn rescue_worker_slot(
        &mut self,
        shared: &Arc<Shared>,
        thread: usize,
        since_ns: u64,
        now_ns: u64,
    ) {
        let blocked_ns = self.runs[thread].count_blocked(now_ns);
        shared.worker_slots.add_blocked(thread, blocked_ns);
        if self.hand_over(shared, thread, HandOverReason::Blocked { since_ns }, now_ns) {
            shared.gauges.rescues.add(1);
        }
    }

    /// Takes the worker slot from a thread that is stuck in a run.
    fn hand_over(
        &mut self,
        shared: &Arc<Shared>,
        thread: usize,
        reason: HandOverReason,
        now_ns: u64,
    ) -> bool {
        let start = || self.start_thread(shared, now_ns);
        match shared
            .worker_slots
            .hand_over(thread, reason, &shared.sleep, start)
        {
            HandOver::NotWorker => return false,
            HandOver::NoSpare => {
                self.stuck += usize::from(reason != HandOverReason::Computing);
                // Counted once per run.
                if self.runs[thread].note_exhausted() {
                    shared.gauges.spares_exhausted.add(1);
                }
                return false;
            }
            HandOver::ToSpare => {}
        }
        // Tasks that were pushed until H1.
        self.rescue_queue(shared, thread);
        // O2: the run may have ended since the check.
        shared.sleep.wake_thread(thread);
        true
    }

    /// When every worker computes for long while tasks wait, one more thread shares the processors.
    fn relieve(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let waiting = shared.injector.len() + shared.io_queue.len();
        if waiting == 0 || self.relieved.is_some() {
            return;
        }
        let mut longest: Option<(u64, usize)> = None;
        for thread in shared.worker_slots.occupants() {
            let since_ns = self.runs.get(thread).and_then(RunWatch::computing_since_ns);
            match since_ns {
                Some(since_ns) if now_ns - since_ns >= RELIEF_AFTER_NS => {
                    let this = (since_ns, thread);
                    longest = Some(longest.map_or(this, |longest| longest.min(this)));
                }
                _ => return,
            }
        }
        let Some((_, thread)) = longest else { return };
        if self.hand_over(shared, thread, HandOverReason::Computing, now_ns) {
            shared.gauges.reliefs.add(1);
            self.runs[thread].relieve();
            self.relieved = Some(thread);
        }
    }

    fn check_collapse(&mut self, shared: &Shared, now_ns: u64) {
        let reading = shared.sleep.read();
        let Some(collapse) = self.collapse.check(reading, shared.queued(), now_ns) else {
            return;
        };
        let gauges = &shared.gauges;
        gauges.wasted_core_ns.add(collapse.wasted_ns);
        if !collapse.is_due {
            return;
        }
        if shared.sleep.force_wake() {
            gauges.forced_wakes.add(1);
        }
        if let Some(seen) = collapse.is_new {
            gauges.collapses.add(1);
            gauges.collapse_detect_ns.raise(seen.detect_ns);
            catch_panic::call(|| shared.settings.observer.collapse(&seen));
        }
    }
}
