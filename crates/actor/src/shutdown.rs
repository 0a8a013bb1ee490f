//! Shutting a system down, in the order of an OTP supervisor: last spawned first.

use std::{
    cell::Cell,
    sync::PoisonError,
    thread,
    time::{Duration, Instant},
};

use freeboard_meter::clock;

use crate::{
    block,
    core::{self, Core},
    core_ref::CoreRef,
    id::ActorId,
    reply::deadline_after,
    supervision::{Failure, saturating_ns},
    system_inner::SystemInner,
    wait_graph,
};

/// The longest grace period for actors that were stopped at the deadline.
const GRACE_MAX: Duration = Duration::from_millis(100);

/// Yields before a wait sleeps, and the longest duration of a yield on a machine that is not busy.
const YIELDS: usize = 64;
const YIELD_MAX: Duration = Duration::from_millis(1);

/// How long idle workers may take to stop.
const WORKERS_END_MAX: Duration = Duration::from_secs(30);

/// The interval between two progress checks of an awaited actor.
const SLICE_MIN_NS: u64 = 1_000_000;
const SLICE_MAX_NS: u64 = 50_000_000;

/// The interval between two polls of a condition.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Longer timeouts are reduced to this: a hundred years.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Stopped actors that the shutdown report describes.
const STOPPED_MAX: usize = 16;

/// An actor that had not terminated in time during a shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The actor.
    pub actor: ActorId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type.
    pub actor_type: &'static str,
    /// Its state: "running" means stuck in a handler.
    pub state: String,
    /// Messages in its mailbox, including the one being handled.
    pub queued: u64,
}

/// The result of a shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Actors that were stopped at the deadline with messages left.
    pub stopped_at_deadline: usize,
    /// The first 16 of them, in their state at the deadline.
    pub stopped: Vec<Unfinished>,
    /// Actors that have not terminated even then.
    pub unfinished: Vec<Unfinished>,
    /// Worker threads that have not stopped: stuck in a handler, or without a processor for more than 100 ms.
    pub stuck_workers: Vec<usize>,
    /// Messages in outboxes that found no capacity before the deadline (dead letters with the reason `sender_stopped`),
    /// or whose receiver the shutdown had terminated (`stopped`). After the deadline, each message that an outbox
    /// cannot deliver is one. An interrupted iterator of [`crate::Context::send_all`] counts as one. Outboxes of
    /// unfinished actors are not included.
    pub undelivered: u64,
    /// Panics of actors since the shutdown began.
    pub panics: u64,
    /// The first 16 of those panics.
    pub failures: Vec<Failure>,
    /// Actors that such a panic has terminated; their queued messages were shed. Restarted actors do not count.
    pub actors_failed: u64,
}

impl ShutdownReport {
    /// Whether every actor handled all its messages, delivered its outbox, and was not terminated by a panic.
    pub fn is_clean(&self) -> bool {
        self.stopped_at_deadline == 0
            && self.unfinished.is_empty()
            && self.stuck_workers.is_empty()
            && self.undelivered == 0
            && self.actors_failed == 0
    }
}

pub(crate) fn shutdown(system: &SystemInner, timeout: Duration) -> ShutdownReport {
    system.begin_shutdown();
    let deadline_ns = deadline_after(Some(timeout.min(TIMEOUT_MAX)));
    let mut cells = system.registry.cells();
    cells.sort_unstable_by_key(|cell| std::cmp::Reverse(cell.id()));
    let mut waits = Waits::new(system, timeout);
    let mut slow = Vec::new();
    let mut awaited = Vec::new();
    for cell in cells.iter().filter(|cell| cell.parent().is_none()) {
        waits.until_delivered(deadline_ns);
        // A drained actor would refuse the messages that others hold for it.
        match waits.until_not_awaited(cell, &slow, deadline_ns) {
            Wait::Ended => {}
            Wait::Stalled => {
                awaited.push(cell);
                continue;
            }
            Wait::TimedOut => break,
        }
        cell.drain();
        match waits.until_ended(cell, deadline_ns) {
            Wait::Ended => {}
            Wait::Stalled => slow.push(cell),
            Wait::TimedOut => break,
        }
    }
    // From here on an actor without progress delays no other: all have until the deadline.
    waits.patience_ns.set(u64::MAX);
    for cell in &slow {
        cell.block_until_ended(deadline_ns);
    }
    waits.until_delivered(deadline_ns);
    for (index, cell) in awaited.iter().enumerate() {
        let others = &awaited[index + 1..];
        if !poll_until(deadline_ns, || !is_awaited(system, cell, others)) {
            break;
        }
        cell.drain();
        cell.block_until_ended(deadline_ns);
    }
    drop(cells);
    let (stopped_at_deadline, stopped) = stop_those_left(system, GRACE_MAX.min(timeout));
    let unfinished: Vec<_> = living(system).iter().map(describe).collect();
    // With all actors terminated no handler can hold a worker: only the machine's load can.
    let patience = if unfinished.is_empty() {
        WORKERS_END_MAX
    } else {
        GRACE_MAX
    };
    // A terminated actor gives up its outbox, and counts it, as soon as a worker runs it. Some have terminated only now.
    let until_ns = deadline_after(Some(patience));
    let mut is_told = false;
    poll_until(until_ns, || {
        if !std::mem::replace(&mut is_told, true) {
            let delivering = system.registry.delivering();
            delivering.iter().for_each(|it| it.signal(core::ABANDON));
        }
        system.registry.delivering_len() == 0
    });
    // The actors that blocked handlers wait for are in another system, or do not terminate.
    system.blocked_handlers.end();
    let left_ns = until_ns.saturating_sub(clock::now_ns());
    let stuck_workers = system
        .scheduler
        .shutdown(Duration::from_nanos(left_ns).max(GRACE_MAX));
    system.timers.shutdown();
    let failures = system.shutdown_failures.lock();
    let failures = std::mem::take(&mut *failures.unwrap_or_else(PoisonError::into_inner));
    ShutdownReport {
        stopped_at_deadline,
        stopped,
        unfinished,
        stuck_workers,
        undelivered: system.undelivered.get(),
        panics: failures.count,
        failures: failures.first,
        actors_failed: failures.actors_ended,
    }
}

/// After the deadline: actors without messages are drained, all others are stopped. Returns how many were stopped,
/// and describes the first of them.
fn stop_those_left(system: &SystemInner, grace: Duration) -> (usize, Vec<Unfinished>) {
    let (idle, late): (Vec<_>, Vec<_>) = living(system)
        .into_iter()
        .partition(|cell| !cell.mailbox.is_closed() && cell.mailbox.depth() == 0);
    // Before any receiver is closed, so that each remaining message is counted as the shutdown's.
    system.pass_deadline();
    for cell in system.registry.delivering().iter().chain(&late) {
        cell.signal(core::ABANDON);
    }
    let mut descriptions: Vec<_> = late.iter().take(STOPPED_MAX).map(describe).collect();
    for cell in &late {
        cell.mailbox.close();
        cell.signal(core::STOP);
    }
    for cell in &idle {
        cell.drain();
    }
    // Half of the grace period is for the drained ones.
    let half_ns = deadline_after(Some(grace / 2));
    for cell in &idle {
        cell.block_until_ended(half_ns);
    }
    let mut stopped = late.len();
    for cell in idle.iter().filter(|cell| cell.end_reason().is_none()) {
        stopped += 1;
        if descriptions.len() < STOPPED_MAX {
            descriptions.push(describe(cell));
        }
        cell.signal(core::STOP.with(core::ABANDON));
    }
    let grace_ns = half_ns.max(deadline_after(Some(grace / 2)));
    for cell in late.iter().chain(&idle) {
        cell.block_until_ended(grace_ns);
    }
    (stopped, descriptions)
}

/// Polls until `is_over`; `false` if `until_ns` passes first.
fn poll_until(until_ns: u64, mut is_over: impl FnMut() -> bool) -> bool {
    while !is_over() {
        if clock::now_ns() >= until_ns {
            return false;
        }
        block::pause(POLL_INTERVAL);
    }
    true
}

/// Whether an outbox of `others`, of their descendants, or of a delivering terminated actor holds messages for this
/// actor or its descendants, directly or indirectly.
fn is_awaited(system: &SystemInner, cell: &CoreRef, others: &[&CoreRef]) -> bool {
    let delivering = system.registry.delivering();
    if others.is_empty() && delivering.is_empty() {
        return false;
    }
    let others = family(others);
    let targets = wait_graph::held_for(others.iter().chain(&delivering).map(|it| it.id()));
    family(&[cell])
        .iter()
        .any(|own| targets.contains(&own.id()))
}

/// Actors and their descendants.
fn family(cells: &[&CoreRef]) -> Vec<CoreRef> {
    let mut family: Vec<CoreRef> = cells.iter().copied().cloned().collect();
    let mut index = 0;
    while let Some(children) = family.get(index).map(|cell| cell.children()) {
        family.extend(children);
        index += 1;
    }
    family
}

/// Actors that have not terminated; the registry may still contain some that just have.
fn living(system: &SystemInner) -> Vec<CoreRef> {
    let mut cells = system.registry.cells();
    cells.retain(|cell| cell.end_reason().is_none());
    // In the order of spawning, so that a seeded test repeats it.
    cells.sort_unstable_by_key(|cell| cell.id());
    cells
}

fn describe(cell: &CoreRef) -> Unfinished {
    let snapshot = cell.snapshot();
    Unfinished {
        actor: cell.id(),
        name: snapshot.name,
        actor_type: cell.type_name(),
        state: snapshot.state,
        queued: snapshot.lanes.iter().map(|lane| lane.depth).sum(),
    }
}

/// The result of waiting for an actor.
enum Wait {
    Ended,
    /// It makes no progress, and its patience is used up.
    Stalled,
    TimedOut,
}

/// Waits for terminations. Most happen within microseconds, faster than a thread sleeps and wakes, so it yields for a
/// while before it sleeps. On a busy machine a yield may take long: then it only sleeps.
struct Waits<'a> {
    system: &'a SystemInner,
    is_machine_busy: bool,
    /// How long to wait for an actor without progress.
    patience_ns: Cell<u64>,
}

impl<'a> Waits<'a> {
    fn new(system: &'a SystemInner, timeout: Duration) -> Self {
        Self {
            system,
            is_machine_busy: false,
            patience_ns: Cell::new(saturating_ns(timeout) / 4),
        }
    }

    fn until_ended(&mut self, core: &Core, deadline_ns: u64) -> Wait {
        for _ in 0..YIELDS {
            if core.end_reason().is_some() {
                return Wait::Ended;
            }
            if self.is_machine_busy {
                break;
            }
            let before = Instant::now();
            thread::yield_now();
            self.is_machine_busy = before.elapsed() > YIELD_MAX;
        }
        let is_ended = |until_ns| core.block_until_ended(until_ns).is_some();
        self.wait(deadline_ns, is_ended, || self.progress(core))
    }

    /// Waits until no slow actor holds messages for this actor.
    fn until_not_awaited(&self, cell: &CoreRef, slow: &[&CoreRef], deadline_ns: u64) -> Wait {
        let is_awaited = || is_awaited(self.system, cell, slow);
        if !is_awaited() {
            return Wait::Ended;
        }
        let is_free = |until_ns| poll_until(until_ns, || !is_awaited());
        self.wait(deadline_ns, is_free, || self.progress(cell))
    }

    /// Waits until terminated actors have delivered their outboxes: their receivers are still alive.
    fn until_delivered(&self, deadline_ns: u64) {
        let registry = &self.system.registry;
        if registry.delivering_len() == 0 {
            return;
        }
        let is_delivered = |until_ns| poll_until(until_ns, || registry.delivering_len() == 0);
        let progress = || {
            let cells = registry.delivering();
            cells.iter().map(|cell| self.progress(cell)).sum::<u64>() + cells.len() as u64
        };
        self.wait(deadline_ns, is_delivered, progress);
    }

    /// Waits while there is progress. Without progress it waits for the patience, which is then halved for the next
    /// actor.
    fn wait(
        &self,
        deadline_ns: u64,
        is_over: impl Fn(u64) -> bool,
        progress: impl Fn() -> u64,
    ) -> Wait {
        let patience_ns = self.patience_ns.get();
        let slice_ns = (patience_ns / 8).clamp(SLICE_MIN_NS, SLICE_MAX_NS);
        let mut seen = progress();
        let mut seen_ns = clock::now_ns();
        loop {
            let now_ns = clock::now_ns();
            if is_over(deadline_ns.min(now_ns.saturating_add(slice_ns))) {
                return Wait::Ended;
            }
            let now_ns = clock::now_ns();
            if now_ns >= deadline_ns {
                return Wait::TimedOut;
            }
            let present = progress();
            if present != seen {
                (seen, seen_ns) = (present, now_ns);
            } else if now_ns - seen_ns >= patience_ns {
                self.patience_ns.set(patience_ns / 2);
                return Wait::Stalled;
            }
        }
    }

    /// Changes while the actor, one of its descendants, or the one that it is muted for, handles messages or does
    /// unfinished work.
    fn progress(&self, core: &Core) -> u64 {
        let handled = |core: &Core| -> u64 {
            let lanes = core.mailbox.lanes();
            lanes.map(|lane| lane.gauges.consumed()).sum::<u64>() + core.progress.get()
        };
        let mut progress = handled(core);
        let mut descendants = core.children();
        while let Some(child) = descendants.pop() {
            progress += handled(&child) + 1;
            descendants.extend(child.children());
        }
        if let Some(last) = wait_graph::last_muted_for(core) {
            progress += handled(&last);
        }
        progress
    }
}
