//! The sums that must hold once everything is over.

use crate::{
    common::*,
    observed::{Counts, Observed},
    record::{Fate, Sent},
    world::World,
};

/// A lane's messages, by their records.
#[derive(Default, Clone, Copy, Debug)]
struct LaneSums {
    finished: u64,
    accepted: u64,
    /// Unknown whether it was accepted.
    unknown: u64,
    came_back_full: u64,
    came_back_outbox_full: u64,
    /// Counted as dead letters, but by no lane.
    logged: u64,
    /// Taken by a handler, or by the check before it, and not handled to the end.
    consumed: u64,
    dead: Counts,
}

impl LaneSums {
    fn add(&mut self, fate: Fate, sent: Sent, was_accepted: Option<bool>) {
        match was_accepted {
            Some(true) => self.accepted += 1,
            Some(false) => {}
            None => self.unknown += 1,
        }
        match fate {
            Fate::Finished => self.finished += 1,
            Fate::Dead(reason) => self.dead[reason.index()] += 1,
            Fate::Began => self.consumed += 1,
            Fate::Unseen if was_accepted == Some(true) => self.consumed += 1,
            Fate::Unseen => {}
        }
        match sent {
            Sent::Full => self.came_back_full += 1,
            Sent::OutboxFull => self.came_back_outbox_full += 1,
            Sent::Logged => self.logged += 1,
            _ => {}
        }
    }
}

fn array(counts: &[ReasonCount]) -> Counts {
    ShedReason::ALL.map(|reason| count_of(counts, reason.as_str()))
}

/// Everything that does not add up.
pub(crate) fn faults(world: &World, system: &System, observed: &Observed) -> Vec<String> {
    let mut faults = world.records.faults();
    let mut sums: HashMap<(ActorId, usize), LaneSums> = HashMap::new();
    let records = world.records.all();
    for record in &records {
        faults.extend(record.fault());
        let sums = sums.entry((record.to, record.lane)).or_default();
        sums.add(record.fate(), record.sent(), record.was_accepted());
    }
    let mut handled = 0;
    for target in world.everybody() {
        let id = target.actor.id();
        let lanes = target.actor.snapshot().lanes;
        let of = |lane: &LaneSnapshot| sums.get(&(id, lane.lane)).copied().unwrap_or_default();
        handled += lanes.iter().map(|lane| lane.handled).sum::<u64>();
        for lane in &lanes {
            if let Some(fault) = lane_fault(lane, &of(lane)) {
                faults.push(format!("{id}: {fault}"));
            }
        }
        faults.extend(actor_fault(id, &lanes, of, &observed.of(id)));
    }
    check_totals(
        world,
        &records_sums(&sums),
        handled,
        system,
        observed,
        &mut faults,
    );
    faults
}

fn records_sums(sums: &HashMap<(ActorId, usize), LaneSums>) -> LaneSums {
    let mut total = LaneSums::default();
    for each in sums.values() {
        total.finished += each.finished;
        total.accepted += each.accepted;
        total.unknown += each.unknown;
        total.consumed += each.consumed;
        for (sum, count) in total.dead.iter_mut().zip(each.dead) {
            *sum += count;
        }
    }
    total
}

/// accepted = handled + shed after acceptance + queued. What was shed as stopped may have been accepted or not:
/// for most lanes the records know.
fn lane_fault(lane: &LaneSnapshot, sums: &LaneSums) -> Option<String> {
    let shed = array(&lane.shed);
    let after_acceptance = [
        ShedReason::DroppedOldest,
        ShedReason::Coalesced,
        ShedReason::Expired,
        ShedReason::AskerGone,
        ShedReason::HandlerPanicked,
        ShedReason::CoDel,
        ShedReason::TooOld,
    ];
    let left: u64 = lane.handled
        + after_acceptance
            .map(|reason| shed[reason.index()])
            .iter()
            .sum::<u64>();
    let stopped = shed[ShedReason::Stopped.index()];
    let is_sound = lane.depth == 0
        && lane.high_water <= lane.bound
        && lane.handled == sums.finished
        && (sums.accepted..=sums.accepted + sums.unknown).contains(&lane.accepted)
        && (left..=left + stopped).contains(&lane.accepted);
    (!is_sound).then(|| format!("{lane:?}, by the records {sums:?}"))
}

/// The lanes' shed counts equal the observer's dead letters plus the messages returned to senders.
fn actor_fault(
    id: ActorId,
    lanes: &[LaneSnapshot],
    of: impl Fn(&LaneSnapshot) -> LaneSums,
    observed: &Counts,
) -> Option<String> {
    let mut wanted = *observed;
    let mut counted = Counts::default();
    for lane in lanes {
        let sums = of(lane);
        wanted[ShedReason::Full.index()] += sums.came_back_full;
        wanted[ShedReason::OutboxFull.index()] += sums.came_back_outbox_full;
        wanted[ShedReason::Stopped.index()] -= sums.logged;
        for (counted, shed) in counted.iter_mut().zip(array(&lane.shed)) {
            *counted += shed;
        }
    }
    (wanted != counted)
        .then(|| format!("{id}: counted {counted:?}, seen and given back {wanted:?}"))
}

fn check_totals(
    world: &World,
    sums: &LaneSums,
    handled: u64,
    system: &System,
    observed: &Observed,
    faults: &mut Vec<String>,
) {
    let counted = array(&system.dead_letters());
    let (seen, consumed) = (observed.total(), observed.consumed());
    if counted != seen {
        faults.push(format!(
            "dead letters: counted {counted:?}, observed {seen:?}"
        ));
    }
    let mut with_message = seen;
    for (seen, consumed) in with_message.iter_mut().zip(consumed) {
        *seen -= consumed;
    }
    if with_message != sums.dead {
        let dead = sums.dead;
        faults.push(format!(
            "dead letters: observed {with_message:?}, in the records {dead:?}"
        ));
    }
    let consumed: u64 = consumed.iter().sum();
    if !(sums.consumed..=sums.consumed + sums.unknown).contains(&consumed) {
        faults.push(format!("consumed: {consumed}, by the records {sums:?}"));
    }
    if handled != sums.finished {
        faults.push(format!("handled: {handled}, by the records {sums:?}"));
    }
    for (what, left) in [
        ("messages", world.records.live()),
        ("members", world.members_live()),
        ("asks", world.records.asks_open()),
    ] {
        if left > 0 {
            faults.push(format!("{left} {what} are left"));
        }
    }
}
