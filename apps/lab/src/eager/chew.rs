//! An actor that only computes, in pieces, for ever.

use freeboard::{Actor, Context, Handler};

use crate::spin::spin_us;

/// How long a piece takes: what a handler of some weight does.
const PIECE_US: u64 = 200;

/// The next piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chew;

/// Computes.
#[derive(Debug)]
pub(super) struct Chewer;

impl Actor for Chewer {}

impl Handler<Chew> for Chewer {
    type Reply = ();

    fn handle(&mut self, _: Chew, cx: &mut Context<Self>) {
        spin_us(PIECE_US);
        // It ends with the system.
        let _ = cx.actor_ref().tell(Chew);
    }
}
