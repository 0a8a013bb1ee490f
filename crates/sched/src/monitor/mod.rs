//! The monitor: a thread that looks each millisecond whether every worker is where it should be.
//!
//! ```text
//!   look ──> each worker in a run ──> same run as at the last look?
//!    │            │ computing: its queue goes to the others
//!    │            │ blocked:   and its place to a spare (`places/README.md`)
//!    │            └ longer than the threshold: reported
//!    ├────> every worker blocked, no thread to be had, tasks wait: reported each second
//!    ├────> asleep while there is work, three looks in a row: a collapse, reported, one is woken
//!    └────> one spare at least is parked, and not many more
//! ```
//!
//! Threads without a place are looked at in turn, so many at each look: they hold no tasks, and only
//! their long runs are of interest. So a look costs the same however many threads are blocked.
//!
//! It wakes nobody while all is well. When all workers have slept for a second it looks ten times less
//! often, until the first of them wakes.

mod collapse;
mod growth;
mod long_runs;
mod standstill;
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
    driver::Looker,
    local::LocalQueue,
    places::{HandOver, Standing, Stuck},
    shared::Shared,
};
use collapse::CollapseWatch;
use growth::Growth;
use long_runs::LongRuns;
use standstill::Standstill;
use watch::{Finding, RunWatch};

/// Between two looks.
const TICK: Duration = Duration::from_millis(1);
/// Between two looks when all workers have slept for [`DOZE_AFTER_NS`].
const DOZE: Duration = Duration::from_millis(10);
const DOZE_AFTER_NS: u64 = 1_000_000_000;
/// All workers computing for so long are joined by one more thread.
const RELIEF_AFTER_NS: u64 = 10_000_000;
/// Threads without a place that are looked at in one look.
const DISPLACED_LOOKS: usize = 64;
/// After a thread could not be started, the next one is tried.
const START_AGAIN_NS: u64 = 10_000_000;
/// Between two calls of [`crate::Observer::second`].
const SECOND_NS: u64 = 1_000_000_000;
/// Spares that stay parked however long nobody needs them.
const SPARES_KEPT: usize = 2;
/// Between two retirements of spares beyond those.
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
    /// By seat.
    runs: Vec<RunWatch>,
    /// Up to which seat threads without a place were looked at.
    turn: usize,
    /// The thread that lost its place because all workers computed.
    relieved: Option<usize>,
    /// A thread without a place that computes: a worker when its run is over.
    computing: Option<usize>,
    /// Workers that are blocked and keep their place.
    stuck: usize,
    growth: Growth,
    standstill: Standstill,
    collapse: CollapseWatch,
    long_runs: LongRuns,
    scratch: LocalQueue,
    looked_ns: u64,
    /// When anything went on for the last time, and the sleep protocol's generation then.
    busy_ns: u64,
    generation: u64,
    retired_ns: u64,
    second_ns: u64,
    /// No thread is started before.
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
            looked_ns: now_ns,
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
            self.look(&shared);
            if self.looked_ns - self.busy_ns >= DOZE_AFTER_NS {
                shared.doze.doze(DOZE);
            } else {
                drop(shared);
                thread::sleep(TICK);
            }
        }
    }

    fn look(&mut self, shared: &Arc<Shared>) {
        let now_ns = clock::now_ns();
        shared.tick.advance();
        let census = shared.places.census();
        let reading = shared.sleep.read();
        let is_all_asleep = reading.sleeping as usize == census.online && census.displaced == 0;
        let queued = shared.queued();
        if !is_all_asleep || queued > 0 || reading.generation != self.generation {
            self.busy_ns = now_ns;
            self.generation = reading.generation;
        }
        self.look_at_workers(shared, now_ns, reading.sleeping > 0);
        if is_all_asleep && queued == 0 {
            self.collapse.all_is_well(now_ns);
        } else {
            self.look_at_displaced(shared, now_ns);
            self.relieve(shared, now_ns);
            self.look_for_collapse(shared, now_ns);
        }
        let is_at_a_stand = self.is_at_a_stand(shared);
        self.standstill.look(shared, is_at_a_stand, now_ns);
        self.look_outside(shared, now_ns, reading.sleeping > 0);
        self.look_at_threads(shared, now_ns);
        if now_ns - self.second_ns >= SECOND_NS {
            self.second_ns = now_ns;
            catch_panic::call(|| shared.settings.observer.second());
        }
        self.looked_ns = now_ns;
    }

    /// Whether no thread is left to run what waits, and none can be had.
    fn is_at_a_stand(&self, shared: &Shared) -> bool {
        if self.stuck == 0 || self.computing.is_some() || shared.queued() == 0 {
            return false;
        }
        let census = shared.places.census();
        self.stuck + census.vacant == census.online && census.spares + census.starting == 0
    }

    /// Fills vacant places, and keeps a spare or two.
    fn look_at_threads(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let census = shared.places.census();
        let missing = census.vacant.max(usize::from(census.spares == 0));
        for _ in census.starting..missing {
            if !self.start_thread(shared, now_ns) {
                break;
            }
        }
        if now_ns - self.retired_ns >= RETIRE_EVERY_NS {
            self.retired_ns = now_ns;
            shared.places.retire(SPARES_KEPT);
        }
        self.growth.look(shared, census.threads);
    }

    /// Starts one more thread, unless that failed just now.
    fn start_thread(&mut self, shared: &Arc<Shared>, now_ns: u64) -> bool {
        if now_ns < self.start_again_ns {
            return false;
        }
        let started = shared.start_thread();
        if started.is_err() {
            self.start_again_ns = now_ns + START_AGAIN_NS;
        }
        matches!(started, Ok(true))
    }

    /// Looks at the driver if nobody has for too long, and has somebody wait there who sleeps.
    fn look_outside(&self, shared: &Shared, now_ns: u64, is_anybody_asleep: bool) {
        let Some(driver) = &shared.settings.driver else {
            return;
        };
        if catch_panic::call(|| driver.is_unattended(now_ns)) != Some(true) {
            return;
        }
        catch_panic::call(|| driver.look(Looker::Monitor));
        if is_anybody_asleep {
            shared.sleep.force_wake();
        }
    }

    fn look_at_workers(&mut self, shared: &Arc<Shared>, now_ns: u64, is_anybody_asleep: bool) {
        let used = shared.seats.used();
        if self.runs.len() < used {
            self.runs.resize_with(used, RunWatch::default);
        }
        self.stuck = 0;
        for place in 0..shared.settings.workers {
            if let Some(number) = shared.places.occupant(place) {
                self.look_at_worker(shared, number, now_ns, is_anybody_asleep);
            }
        }
    }

    fn look_at_worker(
        &mut self,
        shared: &Arc<Shared>,
        number: usize,
        now_ns: u64,
        is_anybody_asleep: bool,
    ) {
        let seat = shared.seats.get(number);
        let Some(run) = self.runs.get_mut(number) else {
            // Its thread was started just now.
            return;
        };
        let finding = run.look(seat, true, now_ns);
        if run.has_left_blocked_run() {
            shared.places.end_blocked(number);
        }
        match finding {
            Finding::Nothing => return,
            Finding::Displaced => {}
            Finding::Long => {
                if is_anybody_asleep && !seat.next_slot.is_empty() {
                    self.rescue_queue(shared, number);
                }
            }
            Finding::Computing => self.rescue_queue(shared, number),
            Finding::Blocked { since_ns } => {
                self.rescue_queue(shared, number);
                self.rescue_place(shared, number, since_ns, now_ns);
            }
        }
        self.report(shared, number, now_ns);
    }

    /// Threads that ran before they lost their place.
    fn look_at_displaced(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let known = [self.relieved, self.computing];
        self.computing = None;
        for number in known.into_iter().flatten() {
            self.look_at_displaced_one(shared, number, now_ns);
        }
        let used = self.runs.len();
        for _ in 0..DISPLACED_LOOKS.min(used) {
            self.turn = (self.turn + 1) % used;
            self.look_at_displaced_one(shared, self.turn, now_ns);
        }
        let is_relieved = |number: &usize| self.runs[*number].is_relieved();
        self.relieved = self.relieved.filter(is_relieved);
    }

    fn look_at_displaced_one(&mut self, shared: &Arc<Shared>, number: usize, now_ns: u64) {
        let run = &mut self.runs[number];
        let is_displaced = shared.places.standing(number) == Standing::Displaced;
        if !is_displaced || run.looked_ns() == now_ns {
            return;
        }
        match run.look(shared.seats.get(number), false, now_ns) {
            Finding::Nothing => return,
            Finding::Computing => self.computing = Some(number),
            Finding::Long | Finding::Displaced | Finding::Blocked { .. } => {}
        }
        self.report(shared, number, now_ns);
    }

    /// Reports the run if it is too long.
    fn report(&mut self, shared: &Arc<Shared>, number: usize, now_ns: u64) {
        if let Some(run) = self.runs[number].report(self.long_runs.threshold_ns(), now_ns) {
            self.long_runs.report(shared, number, &run, now_ns);
        }
    }

    /// What waits behind a stuck run goes to the others.
    fn rescue_queue(&mut self, shared: &Shared, number: usize) {
        let moved = shared.drain(number, &self.scratch);
        if moved > 0 {
            shared.gauges.rescued_tasks.add(moved);
            if shared.sleep.wake_one() {
                shared.gauges.forced_wakes.add(1);
            }
        }
    }

    fn rescue_place(&mut self, shared: &Arc<Shared>, number: usize, since_ns: u64, now_ns: u64) {
        let blocked_ns = self.runs[number].reckon_blocked(now_ns);
        shared.places.reckon_blocked(number, blocked_ns);
        let why = Stuck::Blocked { since_ns };
        if !self.hand_over(shared, number, why, now_ns) {
            return;
        }
        shared.gauges.rescues.add(1);
    }

    /// Takes the place from a thread that is stuck in a run.
    fn hand_over(&mut self, shared: &Arc<Shared>, number: usize, why: Stuck, now_ns: u64) -> bool {
        let (places, sleep) = (&shared.places, &shared.sleep);
        match places.hand_over(number, why, sleep, || self.start_thread(shared, now_ns)) {
            HandOver::NotSeated => return false,
            HandOver::NoSpare => {
                self.stuck += usize::from(why != Stuck::Computing);
                // Counted once for each run.
                if self.runs[number].note_exhausted() {
                    shared.gauges.spares_exhausted.add(1);
                }
                return false;
            }
            HandOver::ToSpare => {}
        }
        // What was pushed until H1.
        self.rescue_queue(shared, number);
        // O2: the run may have ended since the look.
        shared.sleep.wake_seat(number);
        true
    }

    /// When every worker computes for long while others wait, one more thread shares the processors.
    fn relieve(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        let waiting = shared.injector.len() + shared.found.len();
        if waiting == 0 || self.relieved.is_some() {
            return;
        }
        let mut longest: Option<(u64, usize)> = None;
        for number in shared.places.occupants() {
            let since_ns = self.runs.get(number).and_then(RunWatch::computing_since_ns);
            match since_ns {
                Some(since_ns) if now_ns - since_ns >= RELIEF_AFTER_NS => {
                    let this = (since_ns, number);
                    longest = Some(longest.map_or(this, |longest| longest.min(this)));
                }
                _ => return,
            }
        }
        let Some((_, number)) = longest else { return };
        if self.hand_over(shared, number, Stuck::Computing, now_ns) {
            shared.gauges.reliefs.add(1);
            self.runs[number].relieve();
            self.relieved = Some(number);
        }
    }

    fn look_for_collapse(&mut self, shared: &Shared, now_ns: u64) {
        let Some(collapse) = self
            .collapse
            .look(shared.sleep.read(), shared.queued(), now_ns)
        else {
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
