//! The replies of a port: the outcomes of asks, and the frames that take them to the senders.

use std::mem;

use bytes::Bytes;
use freeboard_actor::{Actor, AskError, Context, Handler, Receives};

use super::Port;
use crate::{
    engine::EngineError,
    error::Failure,
    memory::{Recalled, Request},
    message::{self, RemoteMessage},
    proxy::{FRAME_TIME, HEAD_BYTES},
    wire::{self, Body, ReplyHead},
};

/// The outcome of an ask.
pub(crate) struct Answer<R> {
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) request: Option<Request>,
    pub(super) outcome: Result<R, Failure>,
}

impl<A, M> Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    /// Whether this ask has come before: then it gets the reply of the first one.
    pub(super) fn repeats(
        &mut self,
        request: &Request,
        session: u64,
        sequence: u64,
        cx: &mut Context<Self>,
    ) -> bool {
        match self.memory.recall(request, (session, sequence)) {
            Recalled::New => return false,
            Recalled::Pending => {}
            Recalled::Done(outcome) => self.reply(session, sequence, outcome, cx),
        }
        self.shared.repeated.add(1);
        true
    }

    pub(super) fn answered(
        &mut self,
        request: Option<Request>,
        session: u64,
        sequence: u64,
        outcome: Result<Bytes, Failure>,
        cx: &mut Context<Self>,
    ) {
        if let Some(request) = request {
            for (session, sequence) in self.memory.answer(request, &outcome) {
                self.reply(session, sequence, outcome.clone(), cx);
            }
        }
        self.reply(session, sequence, outcome, cx);
    }

    /// Puts a reply into the session's frame.
    pub(super) fn reply(
        &mut self,
        id: u64,
        sequence: u64,
        outcome: Result<Bytes, Failure>,
        cx: &mut Context<Self>,
    ) {
        let payload_max = self.node.engine.payload_max();
        let Some(session) = self.sessions.get_mut(&id) else {
            self.shared.stale.add(1);
            return;
        };
        let outcome = outcome.and_then(|payload| {
            if payload.len() + 256 > payload_max {
                let bytes = payload.len();
                let why = format!("the reply has {bytes} bytes, the server takes {payload_max}");
                return Err(Failure::TooLarge(why));
            }
            Ok(payload)
        });
        self.shared.replied.add(1);
        let (failure, payload) = match outcome {
            Ok(payload) => (None, payload),
            Err(failure) => (Some(failure), Bytes::new()),
        };
        let head = ReplyHead {
            sequence,
            failure,
            len: payload.len() as u32,
        };
        let frame_bytes = self.node.frame_bytes();
        if session.count > 0 && session.items.len() + payload.len() + HEAD_BYTES > frame_bytes {
            session.finish_frame();
        }
        let items = mem::take(&mut session.items);
        session.items = wire::append(items, &head, &payload);
        session.count += 1;
        if cx.depth() == 0 {
            self.flush(id);
        }
        if cx.depth() > 0 || self.is_busy {
            self.flush_later(cx);
        }
    }

    pub(super) fn flush_later(&mut self, cx: &mut Context<Self>) {
        if !mem::replace(&mut self.has_timer, true) {
            let _ = cx.wake_after(FRAME_TIME, Self::flush_late);
        }
    }

    fn flush_late(&mut self, cx: &mut Context<Self>) {
        self.has_timer = false;
        self.flush_all(cx);
        // That the connection is writable again may not be heard.
        if self.is_busy {
            self.flush_later(cx);
        }
    }

    pub(super) fn flush_all(&mut self, cx: &mut Context<Self>) {
        self.is_busy = false;
        let filled = self.sessions.values().filter(|it| it.has_replies());
        let filled: Vec<_> = filled.map(|it| it.id).collect();
        for id in filled {
            self.flush(id);
        }
        self.end_if_drained(cx);
    }

    pub(super) fn flush(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.finish_frame();
        while let Some((count, items)) = session.finished.front() {
            let body = Body::Replies {
                session: id,
                number: session.frames,
                count: *count,
            };
            let mut frame = wire::encode(&self.node.id, self.id, session.proxy, &body);
            frame.extend_from_slice(items);
            if self.node.publish_to(&session.peer, frame) == Err(EngineError::Busy) {
                self.is_busy = true;
                return;
            }
            // If it is not sent, the session's proxy finds a number missing, or its connection was lost, too.
            session.frames += 1;
            session.finished.pop_front();
        }
    }
}

pub(crate) fn failure_of<M>(error: AskError<M>) -> Failure {
    match error {
        AskError::Full(_) => Failure::Full,
        AskError::Expired => Failure::Expired,
        AskError::Shed => Failure::Shed,
        AskError::Closed(_) => Failure::Down("the actor has terminated".to_owned()),
        AskError::NoLane(_) => Failure::Unknown("the actor has no such lane".to_owned()),
        _ => Failure::NoReply,
    }
}

impl<A, M> Handler<Answer<M::Reply>> for Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    type Reply = ();

    fn handle(&mut self, answer: Answer<M::Reply>, cx: &mut Context<Self>) {
        self.credit.give_back();
        let outcome = answer.outcome.and_then(|reply| message::encode(&reply));
        self.answered(answer.request, answer.session, answer.sequence, outcome, cx);
        self.end_if_drained(cx);
    }
}
