//! A board in this process, asked without a detour.

use crate::{Board, Frame, Query};

use super::{Feed, FeedError};

impl Feed for Board {
    fn frame(&mut self, query: &Query) -> Result<Frame, FeedError> {
        Ok(Self::frame(self, query.clone())?)
    }

    fn place(&self) -> String {
        "this process".to_owned()
    }
}
