//! The standard worlds: the parts of the library under faults, with what must hold.
//!
//! Each [`StandardWorld`] is a test of [`freeboard::sim`]. Continuous integration runs some seeds of all, the soak test
//! many. [`PLANTED`] lists mistakes that are planted into the code, each with the world that finds it. They exist only in a
//! build with `--cfg planted`.

#![forbid(unsafe_code)]

mod planted;
mod record;
mod worlds;

use freeboard::sim::World;

pub use planted::{PLANTED, Planted, find};

/// A test with a name.
#[derive(Clone, Copy, Debug)]
pub struct StandardWorld {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it runs, in a line.
    pub about: &'static str,
    /// The test.
    pub test: fn(&mut World),
}

/// All of them.
pub const ALL: &[StandardWorld] = &[
    StandardWorld {
        name: "mailboxes",
        about: "senders, lanes with each policy, a dam, supervision and timers",
        test: worlds::mailboxes::run,
    },
    StandardWorld {
        name: "services",
        about: "asks with deadlines, a group, a topic and a directory",
        test: worlds::services::run,
    },
];

/// The world with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static StandardWorld> {
    ALL.iter().find(|world| world.name == name)
}
