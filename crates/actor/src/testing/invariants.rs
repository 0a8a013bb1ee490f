//! What holds for each actor between two steps.

use freeboard_flow::ShedReason;
use freeboard_queue::Barrier;
use freeboard_sched::Phase;

use crate::{
    core::{Core, state_name},
    core_ref::CoreRef,
    mailbox::MailboxLane,
    sync::Ordering,
    wait_graph,
};

/// Reasons of messages that no lane had accepted.
pub(super) const BEFORE_ACCEPTANCE: [ShedReason; 6] = [
    ShedReason::Full,
    ShedReason::DroppedNewest,
    ShedReason::Sampled,
    ShedReason::OutboxFull,
    ShedReason::NoReceiver,
    ShedReason::SenderStopped,
];

/// What is wrong with the actor. It handles no message now, but a handler of it may be suspended.
///
/// - An idle actor has no messages, neither in a lane nor in a ring, and one that is scheduled is among those that can run: if not, a wake-up was lost.
/// - It does not wait in a circle of asks.
/// - No lane holds more than its bound.
/// - accepted = handled + shed + queued; slots that refused messages left count as queued, and so does the message of an
///   async handler until it is done.
pub(super) fn violation(core: &Core) -> Option<String> {
    let phase = core.state.phase();
    // Messages of a paused lane wait for its end.
    // Ordering: Relaxed: one thread runs a test system.
    let unhandled_lanes = core.unhandled_lanes.load(Ordering::Relaxed);
    let is_due = |(index, lane): (usize, &MailboxLane)| {
        let is_paused = lane.is_raised(Barrier::Pause) || unhandled_lanes & 1 << index != 0;
        lane.depth() > 0 && !is_paused
    };
    // SAFETY: the calling thread is the only one that runs actors of a test system, and this one does not run.
    let has_ready_ring = phase == Phase::Idle && unsafe { CoreRef::of(core).has_ready_inlet() };
    if has_ready_ring {
        return Some(
            "a wake-up was lost: it is idle and a producer's ring has messages".to_owned(),
        );
    }
    if phase == Phase::Idle && core.mailbox.lanes().enumerate().any(is_due) {
        return Some("a wake-up was lost: it is idle and has messages".to_owned());
    }
    let executor = core.system.scheduler.executor();
    if phase == Phase::Queued && executor.is_some_and(|it| !it.has_task(core.task())) {
        return Some("a wake-up was lost: it is scheduled, but never runs".to_owned());
    }
    if wait_graph::is_in_circle(core) {
        return Some("it waits in a circle of asks, whose replies never come".to_owned());
    }
    if !matches!(phase, Phase::Idle | Phase::Queued) {
        return None;
    }
    let lanes = core.mailbox.lanes().zip(core.config().as_slice());
    lanes.enumerate().find_map(|(index, (lane, config))| {
        // A closed lane counts refused messages, too.
        if lane.is_closed() {
            return None;
        }
        // SAFETY: the calling thread is the only one that runs actors of a test system, and this one does not run.
        let (depth, bound) = (unsafe { lane.queued() }, config.bound());
        if depth > bound {
            return Some(format!("lane {index} holds {depth} messages, its bound is {bound}"));
        }
        let (accepted, handled) = (lane.accepted(), lane.gauges.handled.get());
        let shed = lane.gauges.shed_except(&BEFORE_ACCEPTANCE);
        // A refused message may leave a slot behind, which counts as queued until it is passed over.
        let consumed = handled + shed;
        // A scheduled actor may have a message in hand: that of an async handler whose future is polled next.
        let in_hand = u64::from(phase == Phase::Queued);
        (!(consumed..=consumed + depth + in_hand).contains(&accepted)).then(|| {
            format!(
                "lane {index} accepted {accepted} messages, but handled {handled}, shed {shed} and holds {depth} ({})",
                state_name(phase)
            )
        })
    })
}
