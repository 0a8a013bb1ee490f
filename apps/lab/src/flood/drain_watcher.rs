//! The drain watcher: lets the server end once the dam in front of it is empty and has ended.

use freeboard::{Actor, ActorRef, Context, Dam, Handler, Terminated};

use super::{
    knobs::Receive,
    line::Line,
    log_server::{LogServer, end_when_drained},
};

/// Watches a dam on behalf of its server.
#[derive(Debug)]
pub(crate) struct DrainWatcher {
    pub(crate) dam: ActorRef<Dam<Line>>,
    pub(crate) server: ActorRef<LogServer>,
    pub(crate) receive: Receive,
}

impl Actor for DrainWatcher {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.watch(&self.dam);
    }
}

impl Handler<Terminated> for DrainWatcher {
    type Reply = ();

    fn handle(&mut self, _ended: Terminated, cx: &mut Context<Self>) {
        end_when_drained(&self.server, self.receive);
        cx.stop();
    }
}
