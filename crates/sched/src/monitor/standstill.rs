//! Tells when all threads are blocked while tasks wait.

use crate::{catch_panic, places::Standing, settings::HOLDERS_MAX, shared::Shared};
use freeboard_meter::CurrentRun;

/// Between two reports.
const AGAIN_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Standstill {
    /// The snapshot shows it.
    is_shown: bool,
    told_ns: Option<u64>,
}

impl Standstill {
    pub(super) fn look(&mut self, shared: &Shared, is_at_a_stand: bool, now_ns: u64) {
        if !is_at_a_stand {
            if std::mem::take(&mut self.is_shown) {
                shared.gauges.set_all_blocked(Vec::new());
            }
            return;
        }
        let is_due = self
            .told_ns
            .is_none_or(|told_ns| now_ns - told_ns >= AGAIN_NS);
        if self.is_shown && !is_due {
            return;
        }
        let holders = holders(shared);
        self.is_shown = true;
        shared.gauges.set_all_blocked(holders.clone());
        if is_due {
            self.told_ns = Some(now_ns);
            catch_panic::call(|| shared.settings.observer.all_blocked(&holders));
        }
    }
}

/// The runs that hold the threads: those that have a worker's place first.
fn holders(shared: &Shared) -> Vec<CurrentRun> {
    let is_displaced = |&seat: &usize| shared.places.standing(seat) == Standing::Displaced;
    let displaced = (0..shared.seats.used()).filter(is_displaced);
    let seats = shared.places.occupants().chain(displaced);
    let runs = seats.filter_map(|seat| shared.seats.get(seat).label.read());
    runs.take(HOLDERS_MAX).collect()
}
