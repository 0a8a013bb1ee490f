//! What a simulation provides to the code that it runs, and which simulation the present thread runs.

use std::{cell::RefCell, rc::Rc};

use crate::clock;

/// A thread of a simulation. Numbers are not used twice within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadNumber(pub u64);

/// What wakes a thread. Locks have a token of their own, so that a wait for one does not take the token of an `unpark`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// Of [`thread::park`](crate::thread::park).
    Park,
    /// Of the types of [`sync`](crate::sync).
    Lock,
}

/// Runs threads one at a time, on one thread of the operating system.
pub trait Simulation {
    /// Adds a thread, which begins when the simulation chooses it.
    fn spawn(&self, name: Option<&str>, body: Box<dyn FnOnce() + Send>) -> ThreadNumber;

    /// The thread that runs.
    fn current(&self) -> ThreadNumber;

    /// Waits for a token of the thread, and takes it. Returns without it when the clock has reached `deadline_ns`, and
    /// sometimes earlier.
    fn park(&self, token: Token, deadline_ns: u64);

    /// Gives a thread a token; nothing if it has ended.
    fn unpark(&self, thread: ThreadNumber, token: Token);

    /// Lets others run.
    fn yield_now(&self);
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Simulation>>> = const { RefCell::new(None) };
}

/// The simulation that this thread runs.
#[must_use]
pub fn current() -> Option<Rc<dyn Simulation>> {
    CURRENT
        .try_with(|current| current.borrow().clone())
        .ok()
        .flatten()
}

/// While it exists, the thread that made it runs a simulation: its clock is virtual, and its threads are the simulation's.
#[derive(Debug)]
#[must_use]
pub struct Entered(());

/// Begins a simulation on this thread, at the time 1. `None` if the thread runs one already.
pub fn enter(simulation: Rc<dyn Simulation>) -> Option<Entered> {
    if !clock::install_virtual() {
        return None;
    }
    CURRENT.set(Some(simulation));
    Some(Entered(()))
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(None);
        clock::remove_virtual();
    }
}
