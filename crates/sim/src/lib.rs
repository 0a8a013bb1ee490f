//! Runs a program of actors in a world where time, order, network, disks and faults come from one seed.
//!
//! ```text
//!   seed ──▶ policy: which step is next      ┐
//!        ──▶ network: delays, broken links   ├──▶ World: nodes (system, address, disk) ──▶ trace
//!        ──▶ faults: when, where, how long   │                     │ after each step
//!        ──▶ sizes: how many clients         ┘                     ▼
//!                                                     invariants: of each actor, of the test
//! ```
//!
//! One thread runs everything, one step at a time, so a seed repeats its run. A step runs one actor for one message, one
//! timer, one packet, one thread until it waits, or one fault. The clock is virtual: it moves when nothing can run.
//!
//! - [`Simulation`] runs one seed, [`each_seed`] many. The first failure is made smaller, and its message has the command
//!   that repeats it.
//! - [`World`]: [`World::node`] adds a program with a [`Machine`]; [`World::inject`] plans faults by rates;
//!   [`World::invariant`] adds what must hold after each step.
//! - After each step it also holds that an idle actor has no messages (no wake-up was lost), that no actor waits in a
//!   circle of asks, that no mailbox holds more than its bound, and that accepted = handled + shed + queued. With more
//!   than 64 actors this is checked after some of the steps.
//!
//! The code of the nodes is the production code. Its threads must be those of `freeboard_platform`, its sockets those of a
//! [`Poller`](freeboard_net::poller::Poller), its files those of a
//! [`Storage`](freeboard_stream::storage::Storage). A thread of `std` that uses the world fails the run. A future that
//! needs tokio's timers or sockets panics with tokio's message.
//!
//! Sources: FoundationDB's simulator (faults while the code runs unchanged), TigerBeetle's VOPR (invariants at each step),
//! shuttle (policies), turmoil (nodes and links), proptest (smaller failures).

#![forbid(unsafe_code)]

mod faults;
mod node;
mod panics;
mod policy;
mod random;
mod reduction;
mod run;
mod simulation;
mod trace;
mod world;

pub use faults::FaultRates;
pub use node::{Machine, Node};
pub use policy::{Policy, STARVED_STEPS_MAX};
pub use random::Random;
pub use reduction::{BadReduction, Reduction};
pub use run::note;
pub use simulation::{Failure, RUN_VARIABLE, Report, Simulation, each_seed};
pub use world::World;
