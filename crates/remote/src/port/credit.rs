//! The credit that a port grants and takes back. The page of `port` has the sum that always holds.

use std::time::Duration;

use freeboard_actor::{Actor, Context, Receives};
use freeboard_platform::{clock, planted};

use super::{Port, Session};
use crate::{
    message::RemoteMessage,
    wire::{Amount, Body},
};

/// The time that unused credit stays with a session while others wait.
const RECLAIM_TIME: Duration = Duration::from_millis(20);

impl<A, M> Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    pub(super) fn window(&self) -> Amount {
        Amount::new(self.options.messages, self.options.bytes)
    }

    /// The sum of the credit, as in the page of `port`.
    pub(super) fn assert_sum(&self) {
        let mut sum = self.spare;
        for session in self.sessions.values() {
            sum.add(session.outstanding());
        }
        sum.add(Amount::new(
            self.in_use.len() as u64,
            self.in_use.iter().sum(),
        ));
        let is_whole = sum == self.window() || planted!("remote-credit-granted-twice");
        assert!(is_whole, "{sum:?} of {:?}", self.window());
    }

    /// Collects the credit that has come back.
    pub(super) fn collect(&mut self) {
        let returned = self.credit.take();
        self.spare.messages += returned;
        for _ in 0..returned {
            self.spare.bytes += self.in_use.pop_front().unwrap_or(0);
        }
    }

    /// The most that one session may have.
    fn share(&self) -> Amount {
        let sessions = self.sessions.len().max(1) as u64;
        let window = self.window();
        Amount::new(
            (window.messages / sessions).max(1),
            (window.bytes / sessions).max(1),
        )
    }

    /// Takes credit for a session out of what is spare: up to its share, once it has used half of that.
    pub(super) fn draw(&mut self, id: u64) -> bool {
        let share = self.share();
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        if session.reclaiming.is_some() || self.is_draining {
            return false;
        }
        let has = session.outstanding();
        // A message that is larger than the share of bytes gets what it needs.
        let bytes = share.bytes.max(session.wants.unwrap_or(0));
        let lacks = Amount::new(
            share.messages.saturating_sub(has.messages),
            bytes.saturating_sub(has.bytes),
        );
        let is_low = lacks.messages * 2 >= share.messages || lacks.bytes * 2 >= bytes;
        let mut grant = lacks.min(self.spare);
        if planted!("remote-credit-granted-twice") {
            grant.messages *= 2;
        }
        let helps = match session.wants {
            Some(bytes) => has.messages + grant.messages > 0 && has.bytes + grant.bytes >= bytes,
            None => is_low && grant.messages > 0,
        };
        if !helps {
            return false;
        }
        session.limit.add(grant);
        session.wants = None;
        self.spare = self.spare.minus(grant);
        true
    }

    pub(super) fn grant(&mut self, id: u64) {
        if self.draw(id)
            && let Some(session) = self.sessions.get(&id)
        {
            let body = Body::Grant {
                session: id,
                limit: session.limit,
                reclaim: 0,
            };
            self.say(session, &body);
        }
    }

    /// Credit has come back, or a session was closed: those who wait get it.
    pub(super) fn refill(&mut self, cx: &mut Context<Self>) {
        self.collect();
        let mut waiting: Vec<_> = self
            .sessions
            .values()
            .filter(|it| it.wants.is_some() || it.outstanding().messages == 0)
            .map(|it| (it.wants.is_none(), it.wants_turn, it.id))
            .collect();
        // Those with messages first: what is taken back from an idle session must not return to it.
        waiting.sort_unstable();
        for (.., id) in &waiting {
            self.grant(*id);
        }
        let is_short = |it: &Session| it.wants.is_some() || it.outstanding().messages == 0;
        if self.sessions.values().any(is_short) {
            if !self.credit.wait(|| cx.waker_fn(Self::refill)) && !waiting.is_empty() {
                // Half a window is there already, and it is less than somebody needs: others have to give back.
                let _ = cx.wake_after(RECLAIM_TIME, Self::refill);
            }
            self.reclaim_later(cx);
        }
    }

    fn reclaim_later(&mut self, cx: &mut Context<Self>) {
        let is_wanted = self.sessions.values().any(|it| it.wants.is_some());
        if is_wanted && !self.is_reclaiming {
            self.is_reclaiming = true;
            let _ = cx.wake_after(RECLAIM_TIME, Self::reclaim);
        }
    }

    /// Takes unused credit back from sessions that have been idle, and from those with more than their share.
    fn reclaim(&mut self, cx: &mut Context<Self>) {
        self.is_reclaiming = false;
        self.collect();
        if self.sessions.values().any(|it| it.wants.is_some()) {
            self.take_idle_back();
        }
        self.refill(cx);
    }

    pub(super) fn take_idle_back(&mut self) {
        let now_ns = clock::now_ns();
        let share = self.share();
        let idle_ns = RECLAIM_TIME.as_nanos() as u64;
        let wanting = self.sessions.values().filter(|it| it.wants.is_some());
        let first = wanting.map(|it| it.wants_turn).min();
        let candidates: Vec<_> = self
            .sessions
            .values()
            .filter(|it| it.reclaiming.is_none())
            .filter(|it| {
                let has = it.outstanding();
                let is_idle = now_ns.saturating_sub(it.used_ns) >= idle_ns;
                let is_over = has.messages > share.messages || has.bytes > share.bytes;
                // Of those that want more than they have, only the first one keeps what it has: else all could wait.
                let is_useless = it.wants.is_some() && first != Some(it.wants_turn);
                let may_lose = is_useless || it.wants.is_none() && (is_idle || is_over);
                has.messages > 0 && may_lose
            })
            .map(|it| it.id)
            .collect();
        for id in candidates {
            self.take_back(id);
        }
        self.ask_back_again();
    }

    /// A request to give back, or its answer, may have been lost.
    pub(super) fn ask_back_again(&mut self) {
        let now_ns = clock::now_ns();
        let wait_ns = self.node.options.heartbeat.as_nanos() as u64;
        if now_ns.saturating_sub(self.asked_back_ns) < wait_ns {
            return;
        }
        self.asked_back_ns = now_ns;
        // A session may have opened behind the end of its node.
        let (table, spare) = (&self.node.table, &mut self.spare);
        self.sessions.retain(|_, it| {
            let is_gone = it.reclaiming.is_some() && !table.is_up(&it.peer);
            if is_gone {
                spare.add(it.outstanding());
            }
            !is_gone
        });
        for session in self.sessions.values() {
            if let Some(reclaim) = session.reclaiming {
                self.ask_back(session.id, reclaim);
            }
        }
    }

    /// Asks a session to give back what it has not used.
    pub(super) fn take_back(&mut self, id: u64) {
        self.next_reclaim += 1;
        let reclaim = self.next_reclaim;
        if let Some(session) = self.sessions.get_mut(&id) {
            session.reclaiming = Some(reclaim);
            self.shared.reclaims.add(1);
            self.ask_back(id, reclaim);
        }
    }

    pub(super) fn ask_back(&self, id: u64, reclaim: u64) {
        let session = &self.sessions[&id];
        let body = Body::Grant {
            session: id,
            limit: session.received,
            reclaim,
        };
        self.say(session, &body);
    }

    pub(super) fn want(&mut self, id: u64, bytes: u64, cx: &mut Context<Self>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            if session.wants.is_none() {
                self.next_want += 1;
                session.wants_turn = self.next_want;
            }
            session.wants = Some(bytes.min(self.options.bytes));
            session.used_ns = clock::now_ns();
            self.refill(cx);
        }
    }
}
