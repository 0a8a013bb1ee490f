//! What `#[handlers]` makes, through the facade.
#![cfg(not(loom))]
// The code that is made gives no reason for a warning.
#![deny(warnings, clippy::all, clippy::pedantic)]
#![expect(unreachable_pub, reason = "what is public depends on `pub` alone")]

pub mod attributes;
mod generics;
mod methods;
pub mod visibility;

use freeboard::{Actor, ActorRef, System};

/// An actor in a system of its own.
fn spawn<A: Actor + Clone>(actor: A) -> (System, ActorRef<A>) {
    let system = System::builder().workers(1).build().expect("a system");
    let actor = system.spawn(actor);
    (system, actor)
}
