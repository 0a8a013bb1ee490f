//! A connection, as an actor.
//!
//! ```text
//!   Resting ──time──▶ Connecting ──connected──▶ Greeting ──answered──▶ Up
//!      ▲                  │                        │                   │
//!      └──────────────────┴── failed, too late ────┴── lost, stuck ────┘
//! ```
//!
//! While it is up, each round takes the whole intake, reads, and writes what the socket takes; so it
//! always reads while writing, and a server that is busy sending to us cannot wait for us for ever. It
//! reads before it looks at deadlines: a reply that is there in time counts, however late this runs.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use bytes::BytesMut;
use freeboard_actor::{Actor, Context, Recipient};
use freeboard_meter::now_ns;
use freeboard_net::poller::Poller;
use freeboard_net::tcp::Arrived;

use crate::{
    alarm::Alarm,
    error::{DownReason, RedisError},
    failure::Failure,
    intake::{Intake, Line},
    options::RedisOptions,
    outstanding::{BatchMax, Outcome, Outstanding, Slot},
    pieces::Pieces,
    protocol::{Malformed, ProtocolError, Value},
    pubsub::PubSub,
    random,
    reply::{Handed, Reply},
    subscribers::{Subscribers, is_confirmation},
    wire::{READ_BYTES, Wire},
};

/// Rounds of one run, so that others have their turn.
const ROUNDS_MAX: usize = 16;
/// Batches of one round, so that it reads in between.
const BATCHES_MAX: usize = 16;
/// The shortest rest between two attempts.
const REST_MIN_NS: u64 = 1_000_000;

/// Where the connection is, and until when it may be there.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Resting { until_ns: u64 },
    Connecting { until_ns: u64 },
    Greeting { until_ns: u64 },
    Up { since_ns: u64 },
}

/// The actor of one connection.
pub(crate) struct Connection {
    options: Arc<RedisOptions>,
    poller: Poller,
    intake: Arc<Intake>,
    subscribers: Arc<Subscribers>,
    phase: Phase,
    wire: Option<Wire>,
    outstanding: Outstanding<Reply>,
    /// Of the present round, until they are handed over.
    outcomes: Vec<Outcome<Reply>>,
    pushes: Vec<Vec<Value>>,
    /// What the intake is swapped with.
    slots: Vec<Slot<Reply>>,
    bytes: Pieces,
    /// When something last came.
    heard_ns: u64,
    /// Attempts since the connection was last up for long.
    attempt: u32,
    /// For chance.
    turn: u64,
    alarm: Alarm,
}

impl Connection {
    pub(crate) fn new(
        options: Arc<RedisOptions>,
        poller: Poller,
        intake: Arc<Intake>,
        subscribers: Arc<Subscribers>,
        seed: u64,
    ) -> Self {
        let overdue_ns = nanoseconds(options.overdue);
        let outstanding = Outstanding::new(overdue_ns, options.limits.reply_bytes);
        Self {
            options,
            poller,
            intake,
            subscribers,
            phase: Phase::Resting { until_ns: 0 },
            wire: None,
            outstanding,
            outcomes: Vec::new(),
            pushes: Vec::new(),
            slots: Vec::new(),
            bytes: Pieces::default(),
            heard_ns: 0,
            attempt: 0,
            turn: seed,
            alarm: Alarm::default(),
        }
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        if let Some(wire) = &mut self.wire {
            wire.socket.refresh();
            self.run(cx);
        }
    }

    fn alarmed(&mut self, cx: &mut Context<Self>) {
        self.alarm.fired();
        self.run(cx);
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        if let Err(failure) = self.go_on(cx) {
            self.fail(failure);
        }
        self.deliver();
        if self.is_down_and_closing() {
            return cx.stop();
        }
        let due_ns = match self.phase {
            Phase::Resting { until_ns }
            | Phase::Connecting { until_ns }
            | Phase::Greeting { until_ns } => until_ns,
            Phase::Up { .. } => self.outstanding.due_ns().min(self.idle_ns()),
        };
        self.alarm.set(due_ns, now_ns(), cx, Self::alarmed);
    }

    fn go_on(&mut self, cx: &mut Context<Self>) -> Result<(), Failure> {
        if let Phase::Up { .. } = self.phase {
            return self.exchange(cx);
        }
        let now_ns = now_ns();
        if let Phase::Resting { until_ns } = self.phase
            && until_ns <= now_ns
        {
            self.connect(now_ns, cx)?;
        }
        if let Phase::Connecting { until_ns } = self.phase {
            self.see_whether_connected(until_ns, now_ns)?;
        }
        if let Phase::Greeting { until_ns } = self.phase {
            self.greet(until_ns, now_ns)?;
        }
        match self.phase {
            Phase::Up { .. } => self.exchange(cx),
            _ => Ok(()),
        }
    }

    fn connect(&mut self, now_ns: u64, cx: &mut Context<Self>) -> Result<(), Failure> {
        // Whatever comes of it, it has until then.
        let until_ns = now_ns.saturating_add(nanoseconds(self.options.connect_timeout));
        self.phase = Phase::Connecting { until_ns };
        let address = self.address(cx)?;
        let call = cx.waker_fn(|connection: &mut Self, cx| connection.ready(cx));
        self.wire = Some(Wire::connect(
            address,
            &self.poller,
            self.options.limits,
            call,
        )?);
        Ok(())
    }

    /// Of several addresses, each attempt takes the next.
    fn address(&self, cx: &mut Context<Self>) -> io::Result<SocketAddr> {
        let (host, port) = (self.options.host.as_str(), self.options.port);
        let mut addresses: Vec<SocketAddr> = match host.parse() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => cx.blocking(|| (host, port).to_socket_addrs())?.collect(),
        };
        if addresses.is_empty() {
            return Err(io::Error::other("the host has no address"));
        }
        Ok(addresses.swap_remove(self.attempt as usize % addresses.len()))
    }

    fn see_whether_connected(&mut self, until_ns: u64, now_ns: u64) -> Result<(), Failure> {
        let Some(wire) = &mut self.wire else {
            return Ok(());
        };
        if !wire.socket.is_connected()? {
            let is_late = until_ns <= now_ns;
            let late = Failure::Late("connection", self.options.connect_timeout);
            return if is_late { Err(late) } else { Ok(()) };
        }
        wire.begin_greeting(&self.options);
        self.phase = Phase::Greeting { until_ns };
        Ok(())
    }

    fn greet(&mut self, until_ns: u64, now_ns: u64) -> Result<(), Failure> {
        let Some(wire) = &mut self.wire else {
            return Ok(());
        };
        if wire.greet()? {
            self.up(now_ns);
            return Ok(());
        }
        if until_ns <= now_ns {
            let time = self.options.connect_timeout;
            return Err(Failure::Late("answer to the greeting", time));
        }
        Ok(())
    }

    fn up(&mut self, now_ns: u64) {
        self.phase = Phase::Up { since_ns: now_ns };
        self.heard_ns = now_ns;
        self.intake.gauges.connects.bump(1);
        self.intake.set_line(Line::Up);
        self.change_subscriptions();
    }

    fn exchange(&mut self, cx: &mut Context<Self>) -> Result<(), Failure> {
        self.ask_if_idle();
        for _ in 0..ROUNDS_MAX {
            if self.intake.take(&mut self.slots, &mut self.bytes) {
                self.change_subscriptions();
            }
            self.outstanding.accept(&mut self.slots, &mut self.bytes);
            let now_ns = now_ns();
            if let Some(wire) = &mut self.wire
                && self.outstanding.due_ns() <= now_ns
            {
                // A reply may be there that the poller has not found yet, as after a pause of the process.
                wire.socket.assume_readable();
            }
            let has_read = self.read()?;
            self.outstanding.expire(now_ns, &mut self.outcomes);
            if !has_read && self.outstanding.is_stuck(now_ns) {
                self.intake.gauges.stuck.bump(1);
                return Err(Failure::Stuck(self.options.overdue));
            }
            let has_more = self.write(now_ns)?;
            self.settle();
            self.deliver();
            if !has_more && !has_read && self.intake.rest() {
                return self.see_whether_closing(cx);
            }
        }
        cx.waker_fn(|connection: &mut Self, cx| connection.run(cx))();
        Ok(())
    }

    /// A connection whose other end is gone without a word looks as one on which nothing happens: it is
    /// asked, and its answer has a deadline as every other.
    fn ask_if_idle(&self) {
        let now_ns = now_ns();
        if self.idle_ns() <= now_ns {
            let deadline_ns = now_ns.saturating_add(nanoseconds(self.options.timeout));
            self.intake.push_ping(now_ns, deadline_ns);
        }
    }

    /// When the server is to be asked whether it is there.
    fn idle_ns(&self) -> u64 {
        match self.outstanding.is_idle() {
            true => self.heard_ns.saturating_add(nanoseconds(self.options.idle)),
            false => u64::MAX,
        }
    }

    fn see_whether_closing(&self, cx: &mut Context<Self>) -> Result<(), Failure> {
        if self.outstanding.is_idle() && self.intake.is_closing() {
            cx.stop();
        }
        Ok(())
    }

    /// Writes batch by batch. Whether the socket may take more.
    fn write(&mut self, now_ns: u64) -> io::Result<bool> {
        let Some(wire) = &mut self.wire else {
            return Ok(false);
        };
        let max = BatchMax {
            commands: self.options.batch_commands,
            bytes: self.options.batch_bytes,
        };
        let gauges = &self.intake.gauges;
        for _ in 0..BATCHES_MAX {
            if !wire.socket.write(&mut wire.outgoing)? {
                return Ok(false);
            }
            let outgoing = &mut wire.outgoing;
            let write = |piece: BytesMut| outgoing.push(piece.freeze());
            let outcomes = &mut self.outcomes;
            let batch = self.outstanding.next_batch(now_ns, max, outcomes, write);
            if batch.commands == 0 {
                return Ok(false);
            }
            gauges.batches.bump(1);
            gauges.sent.bump(batch.commands as u64);
            gauges.sent_bytes.bump(batch.bytes as u64);
        }
        Ok(true)
    }

    /// Reads once. Whether anything came.
    fn read(&mut self) -> Result<bool, Failure> {
        let Some(wire) = &mut self.wire else {
            return Ok(false);
        };
        let parser = &mut wire.parser;
        let (outstanding, outcomes) = (&mut self.outstanding, &mut self.outcomes);
        let (gauges, pushes) = (&self.intake.gauges, &mut self.pushes);
        let mut taken = Ok(());
        let heard_ns = &mut self.heard_ns;
        let mut take = |mut bytes: &[u8]| -> Result<(), ProtocolError> {
            let now_ns = now_ns();
            *heard_ns = now_ns;
            gauges.received_bytes.bump(bytes.len() as u64);
            while let Some(value) = parser.next(&mut bytes)? {
                if let Value::Push(push) = value {
                    if is_confirmation(&push) {
                        outstanding.confirm(outcomes);
                    } else {
                        pushes.push(push);
                    }
                    continue;
                }
                let wrong = |what: Malformed| parser.error(what);
                let bytes = parser.last_reply_bytes();
                let times = outstanding.reply(value, bytes, outcomes);
                if let Some(times) = times.map_err(wrong)? {
                    gauges.replies.bump(times.commands as u64);
                    gauges
                        .from_tell
                        .record(now_ns.saturating_sub(times.told_ns));
                    gauges
                        .from_send
                        .record(now_ns.saturating_sub(times.sent_ns));
                }
            }
            Ok(())
        };
        let arrived = wire.socket.read(READ_BYTES, |bytes| taken = take(bytes))?;
        taken.map_err(Failure::Protocol)?;
        match arrived {
            Arrived::Bytes(_) => Ok(true),
            Arrived::End => Err(Failure::Ended),
            Arrived::Nothing if wire.socket.has_failed() => Err(Failure::Ended),
            Arrived::Nothing => Ok(false),
        }
    }

    /// Gives credit back, before callers learn of their outcomes and come with more.
    fn settle(&mut self) {
        self.intake.give_back(self.outstanding.take_freed());
        let in_flight = self.outstanding.sent_commands();
        let tombstones = self.outstanding.tombstones();
        self.intake.gauges.set_in_flight(in_flight, tombstones);
    }

    /// Hands outcomes and messages over. No lock is held: functions of users run.
    fn deliver(&mut self) {
        for (reply, outcome) in self.outcomes.drain(..) {
            if let Err(error) = &outcome {
                self.intake.gauges.failed(error);
            }
            match reply.complete(outcome) {
                Handed::Taken => {}
                Handed::Refused => self.intake.gauges.replies_refused.add(1),
                Handed::Own(asked, outcome) => {
                    tell(&self.intake, self.subscribers.settled(&asked, outcome));
                    // Something else may be wanted of it by now.
                    self.intake.nudge();
                }
            }
        }
        for push in self.pushes.drain(..) {
            tell(&self.intake, self.subscribers.received(push));
        }
    }

    /// Asks for what subscribers want, and ends what they do not want any more.
    fn change_subscriptions(&mut self) {
        let changes = self.subscribers.changes();
        let now_ns = now_ns();
        let deadline_ns = now_ns.saturating_add(nanoseconds(self.options.timeout));
        for asked in changes.subscribe {
            let command = asked.name.command("SUBSCRIBE", "PSUBSCRIBE");
            self.intake.push_asked(command, asked, now_ns, deadline_ns);
        }
        for asked in changes.unsubscribe {
            let command = asked.name.command("UNSUBSCRIBE", "PUNSUBSCRIBE");
            self.intake.push_asked(command, asked, now_ns, deadline_ns);
        }
        tell(&self.intake, changes.tell);
    }

    /// The connection, or the attempt, is over: all that is outstanding has its outcome, and the next
    /// attempt its time.
    fn fail(&mut self, failure: Failure) {
        let now_ns = now_ns();
        let reason = self.count_attempt(&failure, now_ns);
        self.wire = None;
        self.pushes.clear();
        self.subscribers.lost();
        self.lose(
            Line::Down(reason.clone()),
            RedisError::Down(reason),
            &failure,
        );
        let delay_ns = self.options.backoff.delay_ns(self.attempt);
        self.turn = self.turn.wrapping_add(1);
        let part = (u128::from(random::number(self.turn)) * u128::from(delay_ns)) >> 64;
        let rest_ns = (part as u64).max(REST_MIN_NS);
        let until_ns = now_ns.saturating_add(rest_ns);
        self.phase = Phase::Resting { until_ns };
    }

    fn count_attempt(&mut self, failure: &Failure, now_ns: u64) -> DownReason {
        if let Phase::Up { since_ns } = self.phase {
            // One that comes up and breaks at once is backed off from as one that does not come up.
            let was_long = now_ns - since_ns >= self.options.backoff.max_ns;
            self.attempt = if was_long {
                0
            } else {
                self.attempt.saturating_add(1)
            };
            return DownReason::Lost(failure.to_string().into());
        }
        self.attempt = self.attempt.saturating_add(1);
        self.intake.gauges.connect_failures.bump(1);
        match failure {
            Failure::Refused(reason) => reason.clone(),
            failure => {
                let (host, port) = (&self.options.host, self.options.port);
                DownReason::Unreachable(format!("{host}:{port}: {failure}").into())
            }
        }
    }

    fn lose(&mut self, line: Line, unsent: RedisError, failure: &Failure) {
        self.intake.set_line(line);
        self.intake.take(&mut self.slots, &mut self.bytes);
        self.outstanding.accept(&mut self.slots, &mut self.bytes);
        let first = match failure {
            Failure::Protocol(error) => Some(RedisError::Protocol(*error)),
            _ => None,
        };
        let sent = RedisError::Lost(failure.to_string().into());
        self.outstanding
            .lose(first, &sent, &unsent, &mut self.outcomes);
        self.settle();
    }

    /// Whether the last handle is gone, and nothing is left to wait for.
    fn is_down_and_closing(&self) -> bool {
        // Subscriptions are asked for when it is up again, all of them.
        !matches!(self.phase, Phase::Up { .. }) && self.intake.rest_down()
    }
}

fn tell(intake: &Intake, told: Vec<(Recipient<PubSub>, PubSub)>) {
    for (to, message) in told {
        let is_message = matches!(message, PubSub::Message { .. });
        intake.gauges.pushes.bump(u64::from(is_message));
        if to.try_tell(message).is_err() {
            intake.gauges.pushes_shed.bump(1);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Actor for Connection {
    fn started(&mut self, cx: &mut Context<Self>) {
        let call = cx.waker_fn(|connection: &mut Self, cx| connection.run(cx));
        self.intake.on_call(call);
        self.run(cx);
    }
}

/// However the actor ends, every command has its outcome.
impl Drop for Connection {
    fn drop(&mut self) {
        self.wire = None;
        self.lose(Line::Closed, RedisError::Closed, &Failure::Closed);
        self.deliver();
    }
}
