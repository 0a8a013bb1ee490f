//! A sender: formats its lines itself and tells them to the server, or to the dam in front of it.
//!
//! It sends a slice of its lines at a time and then tells itself to go on, so that senders take
//! turns with each other and with whoever else is on their worker.

use std::sync::Arc;

use freeboard::{Actor, ActorRef, Context, Dam, Handler, TellError};

use super::{line::Line, log_server::LogServer, source::Source, tally::Tally};

/// Lines of one turn.
const SLICE: u64 = 256;

/// Sends the next slice.
#[derive(Debug)]
pub(crate) struct Flood;

/// Whom the lines go to.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// The server itself.
    Direct(ActorRef<LogServer>),
    /// The dam before it.
    Dam(ActorRef<Dam<Line>>),
}

impl Route {
    fn tell(&self, line: Line) -> Result<(), TellError<Line>> {
        match self {
            Self::Direct(server) => server.tell(line),
            Self::Dam(dam) => dam.tell(line),
        }
    }
}

/// One of the flood's senders.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) number: u32,
    pub(crate) senders: u32,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) route: Route,
    pub(crate) source: Source,
    pub(crate) tally: Arc<Tally>,
}

impl Sender {
    /// `false` if the route is closed.
    fn send_slice(&mut self) -> bool {
        let end = self.end.min(self.next + SLICE);
        let first = self.next;
        let mut is_open = true;
        while self.next < end && is_open {
            let line = self.source.line(self.number, self.senders, self.next);
            is_open = self.route.tell(line).is_ok();
            self.next += u64::from(is_open);
        }
        self.tally.add_accepted(self.number, self.next - first);
        if !is_open {
            self.tally.add_refused();
        }
        is_open
    }
}

impl Actor for Sender {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.tally.end_sender();
    }
}

impl Handler<Flood> for Sender {
    type Reply = ();

    fn handle(&mut self, _msg: Flood, cx: &mut Context<Self>) {
        let goes_on = !self.tally.must_stop_sending() && self.send_slice() && self.next < self.end;
        if !goes_on || cx.actor_ref().tell(Flood).is_err() {
            cx.stop();
        }
    }
}
