//! One module for each world.

pub(crate) mod mailboxes;
pub(crate) mod services;
