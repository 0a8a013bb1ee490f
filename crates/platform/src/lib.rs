//! Time, threads and locks. All code reads the clock, starts threads and waits here (invariant 6 of ARCHITECTURE.md), so
//! that a simulation can replace them.
//!
//! Without the feature `simulated`, [`thread`] and [`sync`] are the standard library's types under other names, and
//! [`clock`] reads the operating system's clock. With the feature, a thread of the operating system may run a
//! `simulation::Simulation`. Then the threads that its code starts are the simulation's. One of them runs at a time, until
//! it waits; the simulation chooses the next one. Threads outside of a simulation see no difference.
//!
//! - [`clock`]: monotonic time and the time of day.
//! - [`thread`]: start, park, sleep, join, wait for a future.
//! - [`sync`]: [`Mutex`](sync::Mutex) and [`Condvar`](sync::Condvar).
//!
//! Source: shuttle and loom replace the same types, but at compile time. Here it happens at run time, because a user's
//! tests link the same library as a user's program.

#![forbid(unsafe_code)]

pub mod clock;
#[doc(hidden)]
pub mod planted;
#[cfg(feature = "simulated")]
pub mod simulation;
pub mod sync;
pub mod thread;
