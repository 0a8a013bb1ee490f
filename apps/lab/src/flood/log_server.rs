//! The log server: writes each line it is told to its sink, and waits for the sink's answer.
//!
//! ```text
//!   Line ──▶ handle ──▶ sink.call ──▶ file
//!               ▲           │
//!               │           ├─ indexed: a one-shot slot, found at once
//!               └───────────┴─ scan: Written{tag} in the server's own mailbox, behind all lines
//! ```
//!
//! How it waits is what the scene is about. *Indexed* is the runtime's way: an answer has a slot of
//! its own. *Scan* is the original's selective receive: the answer lies at the end of the mailbox,
//! and the server scans the mailbox from its head until it finds the answer.

use std::{
    io,
    sync::{Arc, mpsc},
};

use freeboard::{Actor, ActorRef, AsyncHandler, Context, Handler, meter::clock};
use futures_channel::oneshot;

use super::{
    knobs::Receive,
    line::Line,
    log_sink::{DELAY, LogSink},
    pace::Pace,
    tally::{Event, Tally},
};

/// The lane on which a scanning server gets its sink's answers. The lines' lane lies before it, so a
/// search from the mailbox's head passes all of them, as it would if both shared one lane.
pub(crate) const ANSWER_LANE: usize = 1;

/// The sink's answer, posted to the server's own mailbox.
#[derive(Debug)]
pub(crate) struct Written {
    tag: u64,
    result: io::Result<()>,
}

/// Handles nothing further until the holder lets go.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Told when the server has come to hold.
    pub(crate) holds: mpsc::SyncSender<()>,
    /// The other end is told, or dropped, to let go.
    pub(crate) released: oneshot::Receiver<()>,
}

/// Comes behind the last line: the server ends.
#[derive(Debug)]
struct Finish;

/// The buffer's first line has waited long enough.
#[derive(Debug, Clone, Copy)]
struct FlushDue;

/// What the server did, told when it ends.
#[derive(Debug)]
pub(crate) struct Account {
    /// Lines whose handler ran.
    pub(crate) handled: u64,
    /// Lines that reached the sink.
    pub(crate) written: u64,
    /// When the last of them did, on [`clock::now_ns`].
    pub(crate) flushed_ns: u64,
    /// The marks of its way.
    pub(crate) pace: Pace,
    /// The sender of each line, in the order written, if that was kept.
    pub(crate) order: Option<Vec<u32>>,
    /// Why it could not go on.
    pub(crate) error: Option<io::Error>,
}

/// Writes lines to a sink.
#[derive(Debug)]
pub(crate) struct LogServer {
    /// `None` only counts.
    sink: Option<LogSink>,
    receive: Receive,
    tally: Arc<Tally>,
    tag: u64,
    has_flush_timer: bool,
    is_finished: bool,
    account: Option<Box<Account>>,
    handled: u64,
}

impl LogServer {
    /// A server for `total` lines that keeps their senders' order if it is asked to.
    pub(crate) fn new(
        sink: Option<LogSink>,
        receive: Receive,
        tally: Arc<Tally>,
        total: u64,
        keeps_order: bool,
    ) -> Self {
        let account = Account {
            handled: 0,
            written: 0,
            flushed_ns: 0,
            pace: Pace::new(total),
            order: keeps_order.then(|| Vec::with_capacity(total as usize)),
            error: None,
        };
        Self {
            sink,
            receive,
            tally,
            tag: 0,
            has_flush_timer: false,
            is_finished: false,
            account: Some(Box::new(account)),
            handled: 0,
        }
    }

    fn mark(&mut self) {
        let accepted = self.tally.accepted();
        if let Some(account) = self.account.as_mut() {
            account.pace.mark(clock::now_ns(), accepted, self.handled);
        }
    }

    fn is_mark_due(&self) -> bool {
        self.account
            .as_ref()
            .is_some_and(|account| account.pace.is_due(self.handled))
    }

    /// Calls the sink and waits for its answer in the way of the scene.
    #[inline]
    fn write(&mut self, line: &Line, cx: &mut Context<Self>) -> io::Result<()> {
        let Some(sink) = self.sink.as_mut() else {
            return Ok(());
        };
        match self.receive {
            Receive::Indexed => {
                let (slot, mut answer) = oneshot::channel();
                sink.call(line.bytes(), |result| drop(slot.send(result)));
                // A sink answers before its call returns.
                answer
                    .try_recv()
                    .ok()
                    .flatten()
                    .unwrap_or_else(|| Err(no_answer()))
            }
            Receive::Scan => {
                self.tag += 1;
                let tag = self.tag;
                let server = cx.actor_ref();
                sink.call(line.bytes(), |result| {
                    server.tell_lane(ANSWER_LANE, Written { tag, result })
                })
                .map_err(|_| no_answer())?;
                cx.receive_matching::<Written>(|written| written.tag == tag)
                    .map_or_else(|| Err(no_answer()), |written| written.result)
            }
        }
    }

    fn see_to_flush(&mut self, cx: &Context<Self>) {
        let must_flush_later = self.sink.as_ref().is_some_and(LogSink::has_buffered);
        if must_flush_later && !self.has_flush_timer {
            self.has_flush_timer = cx.send_after(DELAY, FlushDue).is_ok();
        }
    }

    fn fail(&mut self, error: io::Error) {
        if let Some(account) = self.account.as_mut() {
            account.error.get_or_insert(error);
        }
    }

    /// Writes what is buffered and takes the last mark. Once.
    fn finish(&mut self) {
        if self.is_finished {
            return;
        }
        self.is_finished = true;
        let flushed = self.sink.as_mut().map_or(Ok(()), LogSink::flush);
        self.mark();
        if let Err(error) = flushed {
            self.fail(error);
        }
        if let Some(account) = self.account.as_mut() {
            account.flushed_ns = clock::now_ns();
            account.handled = self.handled;
            account.written = self
                .sink
                .as_ref()
                .map_or(self.handled, LogSink::lines_written);
        }
    }
}

/// No line will come any more: the server ends once it has handled those that came. One that scans
/// still posts to itself, so its mailbox cannot be closed before.
pub(crate) fn end_when_drained(server: &ActorRef<LogServer>, receive: Receive) {
    match receive {
        Receive::Indexed => server.stop_gracefully(),
        // Refused only if it has ended already.
        Receive::Scan => drop(server.tell(Finish)),
    }
}

fn no_answer() -> io::Error {
    io::Error::other("the sink's answer was lost")
}

impl Actor for LogServer {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.finish();
        if let Some(account) = self.account.take() {
            self.tally.tell(Event::ServerStopped(account));
        }
    }
}

impl Handler<Line> for LogServer {
    type Reply = ();

    #[inline]
    fn handle(&mut self, line: Line, cx: &mut Context<Self>) {
        if self.is_mark_due() {
            self.mark();
        }
        let result = self.write(&line, cx);
        self.handled += 1;
        if let Some(order) = self.account.as_mut().and_then(|it| it.order.as_mut()) {
            order.push(line.sender());
        }
        if let Err(error) = result {
            self.fail(error);
            self.finish();
            cx.stop();
        } else if self.tally.must_cut() {
            self.finish();
            cx.stop();
        } else if !self.has_flush_timer {
            self.see_to_flush(cx);
        }
    }
}

impl AsyncHandler<Hold> for LogServer {
    type Reply = ();

    async fn handle(&mut self, hold: Hold, _cx: &mut Context<Self>) {
        let _ = hold.holds.send(());
        // An error says that the holder is gone: go on as well.
        let _ = hold.released.await;
    }
}

impl Handler<Finish> for LogServer {
    type Reply = ();

    fn handle(&mut self, _msg: Finish, cx: &mut Context<Self>) {
        cx.stop_gracefully();
    }
}

impl Handler<Written> for LogServer {
    type Reply = ();

    /// Every answer is taken out by whoever waits for it; none comes here.
    fn handle(&mut self, written: Written, cx: &mut Context<Self>) {
        drop(written);
        self.fail(no_answer());
        cx.stop();
    }
}

impl Handler<FlushDue> for LogServer {
    type Reply = ();

    fn handle(&mut self, _msg: FlushDue, cx: &mut Context<Self>) {
        self.has_flush_timer = false;
        let due_in = self.sink.as_ref().and_then(LogSink::flush_due_in);
        match (due_in, self.sink.as_mut()) {
            (Some(due_in), Some(sink)) if due_in.is_zero() => {
                if let Err(error) = sink.flush() {
                    self.fail(error);
                    self.finish();
                    cx.stop();
                }
            }
            (Some(due_in), _) => self.has_flush_timer = cx.send_after(due_in, FlushDue).is_ok(),
            (None, _) => {}
        }
    }
}
