//! A consumer that gets nothing: all that it does is wait.

use freeboard::Actor;

#[derive(Debug)]
pub(crate) struct Idle;

impl Actor for Idle {}
