//! Reports of runs that were longer than the threshold: at most five a minute.

use std::{sync::Arc, thread};

use freeboard_meter::LongRunSnapshot;

use super::watch::LongRun;
use crate::{catch_panic, places::Standing, shared::Shared};

/// Reports in a row, and in a minute.
const REPORTS_MAX: u64 = 5;
const REFILL_NS: u64 = 60_000_000_000 / REPORTS_MAX;

pub(super) struct LongRuns {
    started_ns: u64,
    threshold_ns: u64,
    /// Reports that may still be made now.
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
        number: usize,
        run: &LongRun,
        now_ns: u64,
    ) {
        let seat = shared.seats.get(number);
        let label = seat.label.read().filter(|_| seat.runs.get() == run.runs);
        // It ended just now, and the label may be the next one's.
        let Some(label) = label else { return };
        shared.gauges.long_runs.add(1);
        if !self.may_report(now_ns) {
            shared.gauges.long_runs_unreported.add(1);
            return;
        }
        let worker = match shared.places.standing(number) {
            Standing::Seated(index) => Some(index),
            Standing::Displaced | Standing::Retired => None,
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
            tell(shared, snapshot);
            return;
        }
        // On a thread of its own: names and lines are read from the program's debug information, at
        // the first time for up to seconds, and the monitor has to go on looking.
        let told = snapshot.clone();
        let reporter = {
            let shared = shared.clone();
            move || {
                let stack = shared.seats.get(number).stack(&snapshot.run);
                tell(&shared, LongRunSnapshot { stack, ..snapshot });
            }
        };
        let name = format!("{}-report", shared.settings.name);
        if thread::Builder::new().name(name).spawn(reporter).is_err() {
            tell(shared, told);
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

fn tell(shared: &Shared, run: LongRunSnapshot) {
    catch_panic::call(|| shared.settings.observer.long_run(&run));
    shared.gauges.keep(run);
}
