//! One module for each world.

pub(crate) mod mailboxes;
