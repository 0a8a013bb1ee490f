//! The actor of one connection.
//!
//! ```text
//!   Resting ──time──▶ Connecting ──connected──▶ Greeting ──answered──▶ Up
//!      ▲                  │                        │                   │
//!      └──────────────────┴── failed, too late ────┴── lost, stuck ────┘
//! ```
//!
//! While it is up, each round takes the whole queue, reads, and writes as much as the socket accepts. Because
//! it reads between writes, client and server cannot block each other with full socket buffers. It reads
//! before it checks deadlines: a reply that arrived in time counts, however late the actor runs.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use bytes::BytesMut;
use freeboard_actor::{Actor, Context, Recipient};
use freeboard_meter::now_ns;
use freeboard_net::{Alarm, poller::Poller, tcp::Arrived};
use freeboard_platform::planted;

use crate::{
    command::Command,
    error::{DownReason, RedisError},
    in_flight::{Amount, Awaits, CommandOutcome, InFlight, Slot},
    options::{RedisOptions, nanos},
    pieces::Pieces,
    protocol::{Malformed, ProtocolError, Value},
    reply::{Delivered, Reply},
    routing::random_number,
    submit_queue::{LinkState, Submission, SubmitQueue},
    subscribers::{PubSub, Subscribers, is_confirmation},
    wire::{Failure, READ_BYTES, Wire},
};

/// Rounds of one run, so that other actors get their turn.
const ROUNDS_MAX: usize = 16;
/// Batches of one round, so that reads are not delayed.
const BATCHES_MAX: usize = 16;
/// Limits of one write. A larger command is written alone.
const BATCH_MAX: Amount = Amount {
    commands: 256,
    bytes: 64 << 10,
};
/// Minimum time between two attempts.
const REST_MIN_NS: u64 = 1_000_000;

/// The connection's phase, and its time limit.
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
    queue: Arc<SubmitQueue>,
    subscribers: Arc<Subscribers>,
    phase: Phase,
    wire: Option<Wire>,
    in_flight: InFlight<Reply>,
    /// Outcomes and messages to deliver after the current round.
    outcomes: Vec<CommandOutcome<Reply>>,
    pushes: Vec<Vec<Value>>,
    /// Empty buffers to swap with the queue's.
    slots: Vec<Slot<Reply>>,
    bytes: Pieces,
    /// When bytes last arrived.
    heard_ns: u64,
    /// Attempts since the connection was last up for the longest back-off.
    attempt: u32,
    /// Turn of the random jitter.
    turn: u64,
    alarm: Alarm,
}

impl Connection {
    pub(crate) fn new(
        options: Arc<RedisOptions>,
        poller: Poller,
        queue: Arc<SubmitQueue>,
        subscribers: Arc<Subscribers>,
        seed: u64,
    ) -> Self {
        let in_flight = InFlight::new(nanos(options.overdue));
        Self {
            options,
            poller,
            queue,
            subscribers,
            phase: Phase::Resting { until_ns: 0 },
            wire: None,
            in_flight,
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
        if let Err(failure) = self.advance(cx) {
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
            Phase::Up { .. } => self.in_flight.due_ns().min(self.idle_ns()),
        };
        // Without a timer, the next run tries again.
        let _ = self.alarm.set(due_ns, cx, Self::alarmed);
    }

    fn advance(&mut self, cx: &mut Context<Self>) -> Result<(), Failure> {
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
            self.check_connected(until_ns, now_ns)?;
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
        // Set first: a failure below must find this phase.
        let until_ns = now_ns.saturating_add(nanos(self.options.connect_timeout));
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

    /// Each attempt uses the next address of the host.
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

    fn check_connected(&mut self, until_ns: u64, now_ns: u64) -> Result<(), Failure> {
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
        self.queue.gauges.connects.bump(1);
        self.queue.set_link(LinkState::Up);
        self.change_subscriptions();
    }

    fn exchange(&mut self, cx: &mut Context<Self>) -> Result<(), Failure> {
        self.ping_if_idle();
        for _ in 0..ROUNDS_MAX {
            if self.queue.take(&mut self.slots, &mut self.bytes) {
                self.change_subscriptions();
            }
            self.in_flight.accept(&mut self.slots, &mut self.bytes);
            let now_ns = now_ns();
            if let Some(wire) = &mut self.wire
                && self.in_flight.due_ns() <= now_ns
            {
                // After a pause of the process, the socket may hold a reply that the poller has not reported.
                wire.socket.assume_readable();
            }
            let has_read = self.read()?;
            self.in_flight.expire(now_ns, &mut self.outcomes);
            if !has_read && self.in_flight.is_stuck(now_ns) {
                self.queue.gauges.stuck.bump(1);
                return Err(Failure::Stuck(self.options.overdue));
            }
            let has_more = self.write(now_ns)?;
            self.settle();
            self.deliver();
            if !has_more && !has_read && self.queue.rest() {
                return self.check_closing(cx);
            }
        }
        cx.waker_fn(|connection: &mut Self, cx| connection.run(cx))();
        Ok(())
    }

    /// Detects a peer that vanished without closing the connection: an idle connection sends a `PING`, whose
    /// reply has a deadline.
    fn ping_if_idle(&self) {
        if self.idle_ns() <= now_ns() {
            self.push_own(&Command::new("PING"), Awaits::Reply, Reply::Nobody);
        }
    }

    /// Queues a command of the connection itself.
    fn push_own(&self, command: &Command, awaits: Awaits, reply: Reply) {
        let submitted_ns = now_ns();
        let submission = Submission {
            command,
            awaits,
            submitted_ns,
            deadline_ns: submitted_ns.saturating_add(nanos(self.options.timeout)),
        };
        self.queue.push_own(submission, reply);
    }

    /// When to send a `PING`.
    fn idle_ns(&self) -> u64 {
        match self.in_flight.is_idle() {
            true => self.heard_ns.saturating_add(nanos(self.options.idle)),
            false => u64::MAX,
        }
    }

    fn check_closing(&self, cx: &mut Context<Self>) -> Result<(), Failure> {
        if self.in_flight.is_idle() && self.queue.is_closing() {
            cx.stop();
        }
        Ok(())
    }

    /// Writes batch by batch. Returns whether the socket may accept more.
    fn write(&mut self, now_ns: u64) -> io::Result<bool> {
        let Some(wire) = &mut self.wire else {
            return Ok(false);
        };
        let gauges = &self.queue.gauges;
        for _ in 0..BATCHES_MAX {
            if !wire.socket.write(&mut wire.outgoing)? {
                return Ok(false);
            }
            let outgoing = &mut wire.outgoing;
            let write = |piece: BytesMut| outgoing.push(piece.freeze());
            let outcomes = &mut self.outcomes;
            let batch = self
                .in_flight
                .next_batch(now_ns, BATCH_MAX, outcomes, write);
            if batch.commands == 0 {
                return Ok(false);
            }
            gauges.batches.bump(1);
            gauges.sent.bump(batch.commands as u64);
            gauges.sent_bytes.bump(batch.bytes as u64);
        }
        Ok(true)
    }

    /// Reads once. Returns whether any bytes arrived.
    fn read(&mut self) -> Result<bool, Failure> {
        let Some(wire) = &mut self.wire else {
            return Ok(false);
        };
        let parser = &mut wire.parser;
        let (in_flight, outcomes) = (&mut self.in_flight, &mut self.outcomes);
        let (gauges, pushes) = (&self.queue.gauges, &mut self.pushes);
        let mut taken = Ok(());
        let heard_ns = &mut self.heard_ns;
        let mut take = |mut bytes: &[u8]| -> Result<(), ProtocolError> {
            let now_ns = now_ns();
            *heard_ns = now_ns;
            gauges.received_bytes.bump(bytes.len() as u64);
            while let Some(value) = parser.next(&mut bytes)? {
                if let Value::Push(push) = value {
                    if is_confirmation(&push) {
                        in_flight.confirm(outcomes);
                    } else {
                        pushes.push(push);
                    }
                    continue;
                }
                let wrong = |what: Malformed| parser.error(what);
                if let Some(times) = in_flight.reply(value, outcomes).map_err(wrong)? {
                    gauges.replies.bump(1);
                    gauges
                        .from_tell
                        .record(now_ns.saturating_sub(times.submitted_ns));
                    gauges
                        .from_send
                        .record(now_ns.saturating_sub(times.sent_ns));
                }
            }
            Ok(())
        };
        let arrived = wire.socket.read(READ_BYTES, |bytes| taken = take(bytes))?;
        taken?;
        match arrived {
            Arrived::Bytes(_) => Ok(true),
            Arrived::End => Err(Failure::Ended),
            Arrived::Nothing if wire.socket.has_failed() => Err(Failure::Ended),
            Arrived::Nothing => Ok(false),
        }
    }

    /// Returns credit before outcomes are delivered, so that callers can submit more at once.
    fn settle(&mut self) {
        self.queue.give_back(self.in_flight.take_freed());
        let in_flight = self.in_flight.sent_commands();
        let tombstones = self.in_flight.tombstones();
        self.queue.gauges.set_in_flight(in_flight, tombstones);
    }

    /// Delivers outcomes and messages. It runs user code, so no lock is held.
    fn deliver(&mut self) {
        for (reply, outcome) in self.outcomes.drain(..) {
            if let Err(error) = &outcome {
                self.queue.gauges.failed(error);
            }
            match reply.complete(outcome) {
                Delivered::Taken => {}
                Delivered::Refused => self.queue.gauges.replies_refused.add(1),
                Delivered::Own(change, outcome) => {
                    tell(&self.queue, self.subscribers.settled(&change, outcome));
                    // The subscribers may have changed meanwhile.
                    self.queue.nudge();
                }
            }
        }
        for push in self.pushes.drain(..) {
            tell(&self.queue, self.subscribers.received(push));
        }
    }

    /// Sends the subscription commands that the subscribers need.
    fn change_subscriptions(&mut self) {
        let changes = self.subscribers.changes();
        for (command, change) in changes.commands {
            let reply = Reply::Subscribed(Box::new(change));
            self.push_own(&command, Awaits::Confirmation, reply);
        }
        tell(&self.queue, changes.tell);
    }

    /// The connection or the attempt failed: produces all outcomes, and schedules the next attempt.
    fn fail(&mut self, failure: Failure) {
        let now_ns = now_ns();
        let reason = self.count_attempt(&failure, now_ns);
        self.wire = None;
        self.pushes.clear();
        if !planted!("subscription-not-renewed") {
            self.subscribers.lost();
        }
        self.lose(
            LinkState::Down(reason.clone()),
            RedisError::Down(reason),
            &failure,
        );
        let delay_ns = self.options.backoff.delay_ns(self.attempt);
        self.turn = self.turn.wrapping_add(1);
        let part = (u128::from(random_number(self.turn)) * u128::from(delay_ns)) >> 64;
        let rest_ns = (part as u64).max(REST_MIN_NS);
        let until_ns = now_ns.saturating_add(rest_ns);
        self.phase = Phase::Resting { until_ns };
    }

    fn count_attempt(&mut self, failure: &Failure, now_ns: u64) -> DownReason {
        if let Phase::Up { since_ns } = self.phase {
            // A connection that breaks soon after it came up counts as a failed attempt for the back-off.
            let was_long = now_ns - since_ns >= self.options.backoff.max_ns;
            self.attempt = if was_long {
                0
            } else {
                self.attempt.saturating_add(1)
            };
            return DownReason::Lost(failure.to_string().into());
        }
        self.attempt = self.attempt.saturating_add(1);
        self.queue.gauges.connect_failures.bump(1);
        match failure {
            Failure::Refused(reason) => reason.clone(),
            failure => {
                let (host, port) = (&self.options.host, self.options.port);
                DownReason::Unreachable(format!("{host}:{port}: {failure}").into())
            }
        }
    }

    fn lose(&mut self, link: LinkState, unsent: RedisError, failure: &Failure) {
        self.queue.set_link(link);
        self.queue.take(&mut self.slots, &mut self.bytes);
        self.in_flight.accept(&mut self.slots, &mut self.bytes);
        let first = match failure {
            Failure::Protocol(error) => Some(RedisError::Protocol(*error)),
            _ => None,
        };
        let sent = RedisError::Lost(failure.to_string().into());
        self.in_flight
            .lose(first, &sent, &unsent, &mut self.outcomes);
        self.settle();
    }

    /// Whether the last handle was dropped and nothing is in flight.
    fn is_down_and_closing(&self) -> bool {
        // Pending subscription changes may be dropped: the next connect subscribes to all names again.
        !matches!(self.phase, Phase::Up { .. }) && self.queue.rest_down()
    }
}

fn tell(queue: &SubmitQueue, told: Vec<(Recipient<PubSub>, PubSub)>) {
    for (to, message) in told {
        let is_message = matches!(message, PubSub::Message { .. });
        queue.gauges.pushes.bump(u64::from(is_message));
        if to.try_tell(message).is_err() {
            queue.gauges.pushes_shed.bump(1);
        }
    }
}

impl Actor for Connection {
    fn started(&mut self, cx: &mut Context<Self>) {
        let wake = cx.waker_fn(|connection: &mut Self, cx| connection.run(cx));
        self.queue.set_waker(wake);
        self.run(cx);
    }
}

/// When the actor terminates, every command gets its outcome.
impl Drop for Connection {
    fn drop(&mut self) {
        self.wire = None;
        self.lose(LinkState::Closed, RedisError::Closed, &Failure::Closed);
        self.deliver();
    }
}
