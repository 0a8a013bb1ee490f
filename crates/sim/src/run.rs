//! The state of the run on this thread: trace, invariants, and what the run leaves out.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use freeboard_actor::testing;
use freeboard_sched::manual::TraceStep;

use crate::{reduction::Reduction, trace::Trace};

/// Something that holds after each step.
type Check = Box<dyn FnMut() -> Result<(), String>>;

/// A size that a run has drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) value: usize,
    pub(crate) least: usize,
}

pub(crate) struct Run {
    pub(crate) trace: Trace,
    pub(crate) reduction: Reduction,
    pub(crate) sizes: RefCell<BTreeMap<String, Size>>,
    /// The planned faults, as texts.
    pub(crate) faults: RefCell<Vec<String>>,
    /// Counts how often all faults have ended. What was planned before is void.
    pub(crate) faults_ended: Cell<u64>,
    /// The test has returned, and the nodes stop: no fault begins, and no node starts.
    pub(crate) is_ending: Cell<bool>,
    invariants: RefCell<Vec<(String, Check)>>,
}

thread_local! {
    static RUN: RefCell<Option<Rc<Run>>> = const { RefCell::new(None) };
}

/// The run of this thread.
pub(crate) fn current() -> Option<Rc<Run>> {
    RUN.with_borrow(Clone::clone)
}

/// Adds a line to the trace of the calling thread's run. Without a run it does nothing, so a handler can call it always.
pub fn note(text: &str) {
    if let Some(run) = current() {
        run.trace.note("note", text);
    }
}

/// Makes a run the one of this thread, until it is dropped.
pub(crate) struct Current(());

impl Current {
    pub(crate) fn enter(run: Rc<Run>) -> Self {
        RUN.set(Some(run));
        Self(())
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        RUN.set(None);
    }
}

impl Run {
    pub(crate) fn new(reduction: Reduction, has_text: bool) -> Self {
        Self {
            trace: Trace::new(has_text),
            reduction,
            sizes: RefCell::default(),
            faults: RefCell::default(),
            faults_ended: Cell::new(0),
            is_ending: Cell::new(false),
            invariants: RefCell::default(),
        }
    }

    pub(crate) fn add_invariant(&self, name: &str, check: Check) {
        self.invariants.borrow_mut().push((name.to_owned(), check));
    }

    /// After a step. Returns what is wrong.
    pub(crate) fn after_step(&self, step: &TraceStep) -> Result<(), String> {
        self.trace.step(step);
        testing::check_actors()?;
        // A check may add others.
        let mut checks = self.invariants.take();
        let outcome = checks.iter_mut().try_for_each(|(name, check)| {
            check().map_err(|text| format!("the invariant \"{name}\" does not hold: {text}"))
        });
        checks.append(&mut self.invariants.borrow_mut());
        *self.invariants.borrow_mut() = checks;
        outcome
    }
}
