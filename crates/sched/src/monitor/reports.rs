//! The monitor's reports: long runs, growth of the number of threads, and standstills.

use std::{sync::Arc, thread};

use freeboard_meter::{CurrentRun, LongRunSnapshot};

use super::watch::LongRun;
use crate::{catch_panic, settings::HOLDERS_MAX, shared::Shared, thread_slot::SlotState};

/// The most reports of long runs at once, and in a minute.
const REPORTS_MAX: u64 = 5;
const REFILL_NS: u64 = 60_000_000_000 / REPORTS_MAX;

/// Reports runs that were longer than the threshold: at most five per minute.
pub(super) struct LongRuns {
    started_ns: u64,
    threshold_ns: u64,
    /// Reports that are still allowed now.
    left: u64,
    refilled_ns: u64,
}

impl LongRuns {
    pub(super) fn new(now_ns: u64, threshold_ns: u64) -> Self {
        Self {
            started_ns: now_ns,
            threshold_ns,
            left: REPORTS_MAX,
            refilled_ns: now_ns,
        }
    }

    pub(super) fn threshold_ns(&self) -> u64 {
        self.threshold_ns
    }

    pub(super) fn report(
        &mut self,
        shared: &Arc<Shared>,
        thread: usize,
        run: &LongRun,
        now_ns: u64,
    ) {
        let slot = shared.threads.get(thread);
        let label = slot.label.read().filter(|_| slot.runs.get() == run.runs);
        // Otherwise the run has just ended, and the label may be the next run's.
        let Some(label) = label else { return };
        shared.gauges.long_runs.add(1);
        if !self.may_report(now_ns) {
            shared.gauges.long_runs_unreported.add(1);
            return;
        }
        let worker = match shared.worker_slots.state_of(thread) {
            SlotState::Worker(worker) => Some(worker),
            SlotState::Displaced | SlotState::Retired => None,
        };
        let snapshot = LongRunSnapshot {
            worker,
            run: label,
            elapsed_ns: run.elapsed_ns,
            cpu_share: run.cpu_share,
            is_blocked: run.is_blocked,
            stack: None,
            seen_ns: now_ns - self.started_ns,
        };
        if !shared.settings.has_stacks {
            send(shared, snapshot);
            return;
        }
        // On another thread: the first read of names and lines from the program's debug information takes up to seconds,
        // and the monitor must continue.
        let without_stack = snapshot.clone();
        let reporter = {
            let shared = shared.clone();
            move || {
                let stack = shared.threads.get(thread).stack(&snapshot.run);
                send(&shared, LongRunSnapshot { stack, ..snapshot });
            }
        };
        let name = format!("{}-report", shared.settings.name);
        if thread::Builder::new().name(name).spawn(reporter).is_err() {
            send(shared, without_stack);
        }
    }

    fn may_report(&mut self, now_ns: u64) -> bool {
        let refills = (now_ns - self.refilled_ns) / REFILL_NS;
        self.refilled_ns += refills * REFILL_NS;
        self.left = (self.left + refills).min(REPORTS_MAX);
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }
}

fn send(shared: &Shared, run: LongRunSnapshot) {
    catch_panic::call(|| shared.settings.observer.long_run(&run));
    shared.gauges.keep(run);
}

/// Reports when the number of threads has passed a power of two.
pub(super) struct Growth {
    workers: usize,
    /// The power that was reported last, or to which the number has shrunk since.
    power: usize,
}

impl Growth {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, power: 1 }
    }

    pub(super) fn check(&mut self, shared: &Shared, threads: usize) {
        if self.has_passed(threads) {
            catch_panic::call(|| shared.settings.observer.threads_grew(threads));
        }
    }

    /// Whether the number has passed an unreported power of two above twice the workers.
    fn has_passed(&mut self, threads: usize) -> bool {
        let power = threads.checked_ilog2().map_or(1, |log| 1 << log);
        let is_news = power > self.power && power > 2 * self.workers;
        if is_news || threads <= self.power / 2 {
            self.power = power;
        }
        is_news
    }
}

/// Time between two reports of a standstill, in nanoseconds.
const AGAIN_NS: u64 = 1_000_000_000;

/// Reports when all threads are blocked while tasks wait.
#[derive(Default)]
pub(super) struct Standstill {
    /// The snapshot shows it.
    is_shown: bool,
    reported_ns: Option<u64>,
}

impl Standstill {
    pub(super) fn check(&mut self, shared: &Shared, is_standstill: bool, now_ns: u64) {
        if !is_standstill {
            if std::mem::take(&mut self.is_shown) {
                shared.gauges.set_all_blocked(Vec::new());
            }
            return;
        }
        let is_due = self
            .reported_ns
            .is_none_or(|reported_ns| now_ns - reported_ns >= AGAIN_NS);
        if self.is_shown && !is_due {
            return;
        }
        let holders = holders(shared);
        self.is_shown = true;
        shared.gauges.set_all_blocked(holders.clone());
        if is_due {
            self.reported_ns = Some(now_ns);
            catch_panic::call(|| shared.settings.observer.all_blocked(&holders));
        }
    }
}

/// The runs that hold the threads, those of workers first.
fn holders(shared: &Shared) -> Vec<CurrentRun> {
    let is_displaced = |&it: &usize| shared.worker_slots.state_of(it) == SlotState::Displaced;
    let displaced = (0..shared.threads.used()).filter(is_displaced);
    let threads = shared.worker_slots.occupants().chain(displaced);
    let runs = threads.filter_map(|thread| shared.threads.get(thread).label.read());
    runs.take(HOLDERS_MAX).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_power_is_reported_once_until_the_number_has_halved() {
        let mut growth = Growth::new(4);
        let mut reported = |numbers: &[usize]| -> Vec<usize> {
            let numbers = numbers.iter().copied();
            numbers.filter(|&it| growth.has_passed(it)).collect()
        };
        assert_eq!(reported(&[4, 8, 15, 16, 17, 20, 31]), [16]);
        assert_eq!(reported(&[15, 9, 16, 33, 63, 100]), [33, 100]);
        assert_eq!(reported(&[33, 64, 32, 63, 64, 127]), [64]);
        assert_eq!(reported(&[0, 8, 5, 16]), [16]);
    }
}
