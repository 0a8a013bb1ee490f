//! The label of a thread's present run, readable by other threads without access to the task.
//!
//! The names are functions of static types, so a reader never follows a pointer into a freed actor. The fields are stored
//! one by one: a reader may see the actor of one run with the message of the next.

use freeboard_meter::CurrentRun;

use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// Returns the name of a type.
pub type TypeNamer = fn() -> &'static str;

/// The present run's actor and message type. Its thread stores them once per run and once per message, without a locked
/// instruction.
#[derive(Debug, Default)]
pub struct RunLabel {
    /// 0 between runs.
    id: AtomicU64,
    task_type: AtomicPtr<()>,
    message_type: AtomicPtr<()>,
}

impl RunLabel {
    /// A run of the task with this id begins.
    #[inline]
    pub fn begin(&self, id: u64, task_type: TypeNamer) {
        // Ordering: Relaxed everywhere, because readers only display the label; see the module.
        self.message_type
            .store(std::ptr::null_mut(), Ordering::Relaxed);
        self.task_type
            .store(task_type as *mut (), Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
    }

    /// The task handles a message of this type.
    #[inline]
    pub fn handling(&self, message_type: TypeNamer) {
        // Ordering: Relaxed, as in `begin`.
        self.message_type
            .store(message_type as *mut (), Ordering::Relaxed);
    }

    /// The run is over.
    #[inline]
    pub(crate) fn clear(&self) {
        // Ordering: Relaxed, as in `begin`.
        self.id.store(0, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Option<CurrentRun> {
        let (actor, actor_type, message_type) = self.names()?;
        Some(CurrentRun {
            actor,
            actor_type: actor_type.to_owned(),
            message_type: message_type.to_owned(),
        })
    }

    /// The task's id, its type, and the message's type.
    pub(crate) fn names(&self) -> Option<(u64, &'static str, &'static str)> {
        // Ordering: Relaxed, as in `begin`.
        let id = self.id.load(Ordering::Relaxed);
        (id != 0).then(|| (id, name(&self.task_type), name(&self.message_type)))
    }
}

fn name(namer: &AtomicPtr<()>) -> &'static str {
    // Ordering: Relaxed: functions exist before the program starts.
    let namer = namer.load(Ordering::Relaxed);
    if namer.is_null() {
        return "";
    }
    // SAFETY: only `TypeNamer`s are stored, whole.
    let namer = unsafe { std::mem::transmute::<*mut (), TypeNamer>(namer) };
    namer()
}
