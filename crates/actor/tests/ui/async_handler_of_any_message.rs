//! An async handler for a bare type parameter: another crate could add a `Handler` for a message of its own.

use freeboard_actor::{Actor, AsyncHandler, Context, Message, Recipient};

struct Relay<M: Message>(Recipient<M>);

impl<M: Message> Actor for Relay<M> {}

impl<M: Message> AsyncHandler<M> for Relay<M> {
    type Reply = ();
    async fn handle(&mut self, msg: M, _cx: &mut Context<Self>) {
        let _ = self.0.send(msg).await;
    }
}

fn main() {}
