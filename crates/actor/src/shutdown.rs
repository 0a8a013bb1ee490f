//! Shutting a system down, in the order of an OTP supervisor: last spawned first.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    cell::{self, Core},
    cell_ref::CoreRef,
    id::ActorId,
    system::SystemInner,
};

/// What is left to actors that were stopped at the deadline, at the most.
const GRACE_MAX: Duration = Duration::from_millis(100);

/// The most yields before it sleeps, and what one of them takes at the most on a machine with time to spare.
const YIELDS: usize = 64;
const YIELD_MAX: Duration = Duration::from_millis(1);

/// How long idle workers may take to end.
const WORKERS_END_MAX: Duration = Duration::from_secs(30);

/// What a longer timeout is taken for: a hundred years.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// An actor that a shutdown could not end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The actor.
    pub actor: ActorId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its type.
    pub actor_type: &'static str,
    /// What it was doing: "running" is stuck in a handler.
    pub state: String,
    /// Messages that were still queued for it.
    pub queued: u64,
}

/// How a shutdown went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Actors that had not handled everything at the deadline, and were stopped.
    pub stopped_at_deadline: usize,
    /// Actors that have not ended at all.
    pub unfinished: Vec<Unfinished>,
    /// Worker threads that have not ended: in a handler, or for want of a processor late by more than 100 ms.
    pub stuck_workers: Vec<usize>,
}

impl ShutdownReport {
    /// Whether every actor handled all it had and ended.
    pub fn is_clean(&self) -> bool {
        self.stopped_at_deadline == 0 && self.unfinished.is_empty() && self.stuck_workers.is_empty()
    }
}

pub(crate) fn shutdown(system: &SystemInner, timeout: Duration) -> ShutdownReport {
    system.begin_shutdown();
    let now = Instant::now();
    let deadline = now.checked_add(timeout).unwrap_or(now + TIMEOUT_MAX);
    let mut cells = system.registry.cells();
    cells.sort_unstable_by_key(|cell| std::cmp::Reverse(cell.id()));
    let mut ends = Ends::default();
    for cell in cells.iter().filter(|cell| cell.parent().is_none()) {
        cell.drain();
        if !ends.wait(cell, deadline) {
            break;
        }
    }
    drop(cells);
    // Whoever is left: out of time, or a child whose parent is.
    let left = living(system);
    for cell in &left {
        cell.close_mailbox();
        cell.signal(cell::STOP);
    }
    let grace = (Instant::now() + GRACE_MAX.min(timeout)).max(deadline);
    for cell in &left {
        ends.wait(cell, grace);
    }
    let unfinished: Vec<_> = living(system).iter().map(describe).collect();
    let stopped_at_deadline = left.len();
    drop(left);
    // With every actor ended no handler can hold a worker: only the machine's load can.
    let patience = if unfinished.is_empty() {
        WORKERS_END_MAX
    } else {
        GRACE_MAX
    };
    let stuck_workers = system.scheduler.shutdown(patience);
    system.timers.shutdown();
    ShutdownReport {
        stopped_at_deadline,
        unfinished,
        stuck_workers,
    }
}

/// Actors that have not ended; one that just has may still be on its way out of the registry.
fn living(system: &SystemInner) -> Vec<CoreRef> {
    let mut cells = system.registry.cells();
    cells.retain(|cell| cell.end_reason().is_none());
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

/// Waits for actors' ends. Most come within microseconds, far sooner than a thread is put to sleep and
/// woken: it yields for a while, then sleeps. Where others compute on all processors, a yield lasts as
/// long as they like: then it only sleeps.
#[derive(Default)]
struct Ends {
    is_machine_busy: bool,
}

impl Ends {
    /// Whether it has ended by then.
    fn wait(&mut self, core: &Core, deadline: Instant) -> bool {
        for _ in 0..YIELDS {
            if core.end_reason().is_some() {
                return true;
            }
            if self.is_machine_busy {
                break;
            }
            let before = Instant::now();
            thread::yield_now();
            self.is_machine_busy = before.elapsed() > YIELD_MAX;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut relations = core.lock_relations();
            if core.end_reason().is_some() {
                return true;
            }
            let relations = relations.get_or_insert_default();
            let on_end = Box::new(move |_| drop(sender.send(())));
            relations.watchers.push((None, on_end));
        }
        receiver.recv_deadline(deadline).is_ok()
    }
}
