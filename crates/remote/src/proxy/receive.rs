//! The frames that a proxy receives: the beginning and the end of its session, grants, replies, and gaps.

use std::collections::BTreeMap;

use bytes::Bytes;
use freeboard_actor::Context;

use super::{Proxy, RETRY_MIN, RemoteExit, Sent, Session, Status};
use crate::{
    error::Failure,
    wire::{self, Amount, Body, Frame, Refusal, ReplyHead},
};

impl Proxy {
    pub(super) fn frame(&mut self, frame: Frame, cx: &mut Context<Self>) {
        match frame.body {
            Body::Opened {
                opening,
                session,
                port,
                window,
                limit,
            } => {
                let present = self.session.as_ref().map(|it| it.id);
                if present.is_some() || opening != self.opening {
                    if present != Some(session) {
                        // Of another port, or of an earlier opening.
                        let body = Body::Close { session };
                        self.node.send(&frame.from, port, self.id, &body);
                    }
                    return;
                }
                self.refused = None;
                self.node.meet(&frame.from);
                *self.shared.peer.lock() = Some(frame.from.clone());
                self.session = Some(Session {
                    peer: frame.from,
                    port,
                    id: session,
                    window,
                    limit,
                    sent: Amount::default(),
                    replies: 0,
                    asks: BTreeMap::new(),
                    wants: false,
                });
                self.shared.sessions.add(1);
                self.shared.set(Status::Open, "");
                self.retry = RETRY_MIN;
                self.probe_idle_later(cx);
                self.go_on(cx);
            }
            // Another port of this name may open: the next attempt gives up.
            Body::Refused { why } if self.session.is_none() => {
                let name = &self.shared.name;
                let (type_name, version) = (self.type_name, self.type_version);
                self.refused = Some(match why {
                    Refusal::Type { .. } | Refusal::Version { .. } => {
                        format!("{why}, and `{name}` was sent `{type_name}` version {version}")
                    }
                    why => format!("{why}: `{name}`"),
                });
            }
            // Of an earlier session, whose end did not reach the port: it would keep the credit for ever.
            Body::Grant { session, .. }
                if self.session.as_ref().is_none_or(|it| it.id != session) =>
            {
                let body = Body::Close { session };
                self.node
                    .send(&frame.from, frame.from_route, self.id, &body);
            }
            body => self.session_frame(body, &frame.items, cx),
        }
    }

    fn session_frame(&mut self, body: Body, items: &[u8], cx: &mut Context<Self>) {
        let Some(session) = &mut self.session else {
            return;
        };
        match body {
            Body::Grant {
                session: id,
                limit,
                reclaim,
            } if id == session.id => {
                if reclaim == 0 {
                    session.limit = session.limit.max(limit);
                } else {
                    session.limit = limit.max(session.sent).min(session.limit);
                    let limit = session.limit;
                    self.flush(cx);
                    let sent = self.sent();
                    let body = Body::Reclaimed {
                        session: id,
                        reclaim,
                        sent,
                        limit,
                    };
                    self.say(&body);
                }
                if let Some(session) = &mut self.session {
                    session.wants = false;
                }
                self.go_on(cx);
            }
            Body::Replies {
                session: id,
                number,
                count,
            } if id == session.id => {
                if number > session.replies {
                    self.lose(0, u64::MAX, "replies were lost");
                }
                if let Some(session) = &mut self.session {
                    session.replies = number.saturating_add(1);
                }
                self.replies(count, items);
                // Those that are sent again wait.
                self.go_on(cx);
            }
            Body::Probed {
                session: id,
                replies,
            } if id == session.id && replies > session.replies => {
                session.replies = replies;
                self.lose(0, u64::MAX, "replies were lost");
                self.go_on(cx);
            }
            Body::Gap {
                session: id,
                first,
                end,
            } if id == session.id => {
                self.lose(first, end, "the message was lost");
                self.go_on(cx);
            }
            Body::Closed { session: id, why } if id == session.id => {
                let exit = match why {
                    Refusal::Terminated => RemoteExit::Terminated,
                    _ => RemoteExit::Disconnected,
                };
                self.end_session(exit, &why.to_string(), cx);
            }
            _ => {}
        }
    }

    /// The asks at these positions have no answer.
    fn lose(&mut self, first: u64, end: u64, why: &str) {
        let Some(session) = &mut self.session else {
            return;
        };
        // Those in the frame that is being filled are not sent yet.
        let end = match self.filling.count {
            0 => end,
            _ => end.min(self.filling.before.messages),
        };
        let lost: Vec<_> = session
            .asks
            .range(first..end.max(first))
            .map(|it| *it.0)
            .collect();
        for sequence in lost {
            let Some(Sent { reply, again, .. }) = session.asks.remove(&sequence) else {
                continue;
            };
            match again {
                Some(mut msg) => {
                    msg.attempts -= 1;
                    msg.was_sent = true;
                    self.held.push_back((msg, reply));
                }
                None => {
                    self.shared.lost.add(1);
                    reply.reply(Err(Failure::Lost(why.to_owned())));
                }
            }
        }
    }

    fn replies(&mut self, count: u32, mut items: &[u8]) {
        let Some(session) = &mut self.session else {
            return;
        };
        for _ in 0..count {
            let Ok((head, payload)) = wire::take::<ReplyHead>(&mut items, |it| it.len) else {
                self.node.counters.garbage.add(1);
                return;
            };
            if let Some(sent) = session.asks.remove(&head.sequence) {
                self.shared.replied.add(1);
                sent.reply.reply(match head.failure {
                    None => Ok(Bytes::copy_from_slice(payload)),
                    // Of this attempt. An earlier one may have been handled, by this receiver or another one.
                    Some(failure) if sent.was_sent => Err(failure.into_lost()),
                    Some(failure) => Err(failure),
                });
            }
        }
    }
}
