//! `InFlight` against a plain model: one list, searched from the front for every operation.

use bytes::BytesMut;
use proptest::prelude::*;

use crate::{
    error::RedisError,
    in_flight::{Amount, Awaits, CommandOutcome, InFlight, Slot},
    pieces::{PIECE_BYTES, Pieces},
    protocol::{Malformed, ServerError, Value},
};

const OVERDUE_NS: u64 = 20;
/// A command of this length or more has its own piece.
const OWN_PIECE_BYTES: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Accept(Vec<(Awaits, usize, u64)>),
    Batch { commands: usize, bytes: usize },
    Reply,
    Refusal,
    Confirm,
    Wait(u64),
    Lose,
}

/// Bytes of one command, and the time until its deadline.
fn command() -> impl Strategy<Value = (Awaits, usize, u64)> {
    let awaits = prop_oneof![
        4 => Just(Awaits::Reply),
        2 => Just(Awaits::ReplyAfterAsking),
        1 => Just(Awaits::Confirmation),
    ];
    (awaits, 1_usize..6, 1_u64..30)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(command(), 0..5).prop_map(Step::Accept),
        4 => (1_usize..6, 1_usize..12).prop_map(|(commands, bytes)| Step::Batch { commands, bytes }),
        6 => Just(Step::Reply),
        1 => Just(Step::Refusal),
        2 => Just(Step::Confirm),
        3 => (0_u64..15).prop_map(Step::Wait),
        1 => Just(Step::Lose),
    ]
}

#[derive(Clone, Debug)]
struct Command {
    id: usize,
    awaits: Awaits,
    bytes: usize,
    deadline_ns: u64,
    is_sent: bool,
    has_outcome: bool,
}

impl Command {
    fn has_expired(&self, now_ns: u64) -> bool {
        self.awaits != Awaits::Confirmation && self.deadline_ns <= now_ns
    }
}

/// All commands that hold credit, sent ones first.
#[derive(Default)]
struct Model {
    commands: Vec<Command>,
    outcomes: Vec<(usize, Result<Value, RedisError>)>,
    /// Bytes sent.
    wire: Vec<u8>,
    now_ns: u64,
    /// Credit held.
    credit: (usize, usize),
}

impl Model {
    fn end(&mut self, index: usize, outcome: Result<Value, RedisError>) {
        let command = self.commands.remove(index);
        self.credit.0 -= 1;
        self.credit.1 -= command.bytes;
        if !command.has_outcome {
            self.outcomes.push((command.id, outcome));
        }
    }

    fn batch(&mut self, max: Amount) {
        let (mut commands, mut bytes) = (0, 0);
        while let Some(index) = self.commands.iter().position(|it| !it.is_sent) {
            let next = &mut self.commands[index];
            if next.has_outcome || next.has_expired(self.now_ns) {
                self.end(index, Err(RedisError::Expired));
                continue;
            }
            let is_first = commands == 0;
            commands += 1;
            bytes += next.bytes;
            if !is_first && (commands > max.commands || bytes > max.bytes) {
                return;
            }
            next.is_sent = true;
            self.wire.extend(vec![next.id as u8; next.bytes]);
        }
    }

    /// Takes a reply. Returns the protocol error, if any.
    fn reply(&mut self, value: Value) -> Option<Malformed> {
        let Some(oldest) = self.commands.first_mut().filter(|it| it.is_sent) else {
            return Some(Malformed::Unasked);
        };
        match (oldest.awaits, value) {
            (Awaits::Reply, value) => self.end(0, Ok(value)),
            (Awaits::ReplyAfterAsking, _) => oldest.awaits = Awaits::Reply,
            (Awaits::Confirmation, Value::Error(error)) => {
                self.end(0, Err(RedisError::Server(error)));
            }
            (Awaits::Confirmation, _) => return Some(Malformed::Unasked),
        }
        None
    }

    fn confirm(&mut self) {
        let oldest = self.commands.first();
        if oldest.is_some_and(|it| it.is_sent && it.awaits == Awaits::Confirmation) {
            self.end(0, Ok(Value::Null));
        }
    }

    fn expire(&mut self) {
        for command in &mut self.commands {
            if !command.has_outcome && command.has_expired(self.now_ns) {
                command.has_outcome = true;
                let error = if command.is_sent {
                    RedisError::TimedOut
                } else {
                    RedisError::Expired
                };
                self.outcomes.push((command.id, Err(error)));
            }
        }
        // Expired commands at the front are removed at once.
        while let Some(index) = self.commands.iter().position(|it| !it.is_sent) {
            if !self.commands[index].has_outcome {
                return;
            }
            self.end(index, Err(RedisError::Expired));
        }
    }

    fn lose(&mut self) {
        while let Some(oldest) = self.commands.first() {
            let error = if oldest.is_sent {
                lost()
            } else {
                RedisError::Closed
            };
            self.end(0, Err(error));
        }
    }

    fn is_stuck(&self) -> bool {
        let oldest = self.commands.first().filter(|it| it.is_sent);
        oldest.is_some_and(|it| it.deadline_ns + OVERDUE_NS <= self.now_ns)
    }
}

fn lost() -> RedisError {
    RedisError::Lost("gone".into())
}

struct Pair {
    real: InFlight<usize>,
    outcomes: Vec<CommandOutcome<usize>>,
    wire: Vec<u8>,
    credit: (usize, usize),
    model: Model,
    last_id: usize,
    last_reply: i64,
}

impl Pair {
    fn new() -> Self {
        Self {
            real: InFlight::new(OVERDUE_NS),
            outcomes: Vec::new(),
            wire: Vec::new(),
            credit: (0, 0),
            model: Model::default(),
            last_id: 0,
            last_reply: 0,
        }
    }

    fn accept(&mut self, commands: &[(Awaits, usize, u64)]) {
        let (mut slots, mut bytes) = (Vec::new(), Pieces::default());
        for &(awaits, length, time_ns) in commands {
            self.last_id += 1;
            let deadline_ns = self.model.now_ns + time_ns;
            let command = Command {
                id: self.last_id,
                awaits,
                bytes: length,
                deadline_ns,
                is_sent: false,
                has_outcome: false,
            };
            let command_bytes = vec![self.last_id as u8; length];
            if length >= OWN_PIECE_BYTES {
                bytes.push(command_bytes[..].into());
            } else {
                bytes.buffer(length).extend_from_slice(&command_bytes);
            }
            slots.push(Slot {
                reply: Some(self.last_id),
                awaits,
                bytes: length,
                deadline_ns,
                submitted_ns: self.model.now_ns,
                sent_ns: 0,
            });
            for credit in [&mut self.credit, &mut self.model.credit] {
                credit.0 += 1;
                credit.1 += length;
            }
            self.model.commands.push(command);
        }
        self.real.accept(&mut slots, &mut bytes);
        assert!(slots.is_empty() && bytes.is_empty());
    }

    fn reply(&mut self, value: Value) {
        let wanted = self.model.reply(value.clone());
        let found = self.real.reply(value, &mut self.outcomes).err();
        assert_eq!(found, wanted);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Accept(commands) => self.accept(commands),
            Step::Batch { commands, bytes } => {
                let (commands, bytes) = (*commands, *bytes);
                let max = Amount { commands, bytes };
                self.model.batch(max);
                let wire = &mut self.wire;
                let before = wire.len();
                let write = |piece: BytesMut| wire.extend_from_slice(&piece);
                let now_ns = self.model.now_ns;
                let batch = self.real.next_batch(now_ns, max, &mut self.outcomes, write);
                assert_eq!(batch.bytes, self.wire.len() - before);
            }
            Step::Reply => {
                self.last_reply += 1;
                self.reply(Value::Integer(self.last_reply));
            }
            Step::Refusal => self.reply(Value::Error(ServerError::new("ERR no"))),
            Step::Confirm => {
                self.model.confirm();
                self.real.confirm(&mut self.outcomes);
            }
            Step::Wait(time_ns) => {
                self.model.now_ns += time_ns;
                self.model.expire();
                self.real.expire(self.model.now_ns, &mut self.outcomes);
            }
            Step::Lose => {
                self.model.lose();
                self.real
                    .lose(None, &lost(), &RedisError::Closed, &mut self.outcomes);
            }
        }
    }

    fn compare(&mut self) {
        let freed = self.real.take_freed();
        self.credit.0 -= freed.commands;
        self.credit.1 -= freed.bytes;
        assert_eq!(self.credit, self.model.credit, "credit");
        assert_eq!(self.outcomes, self.model.outcomes, "outcomes, in order");
        assert_eq!(self.wire, self.model.wire, "what was sent");
        let now_ns = self.model.now_ns;
        assert_eq!(self.real.is_stuck(now_ns), self.model.is_stuck());
        let commands = self.model.commands.iter();
        let sent = commands.clone().filter(|it| it.is_sent);
        assert_eq!(self.real.sent_commands(), sent.clone().count());
        let tombstones = sent.filter(|it| it.has_outcome).count();
        assert_eq!(self.real.tombstones(), tombstones);
        assert_eq!(self.real.is_idle(), self.model.commands.is_empty());
        let due = commands
            .filter(|it| !it.has_outcome && it.awaits != Awaits::Confirmation)
            .map(|it| it.deadline_ns);
        let due_ns = due.min().unwrap_or(u64::MAX);
        assert!(self.real.due_ns() <= due_ns, "a deadline without a timer");
    }
}

proptest! {
    #[test]
    fn each_command_has_one_outcome_in_order(steps in prop::collection::vec(step(), 0..80)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step);
            pair.compare();
        }
        pair.take(&Step::Lose);
        pair.compare();
        prop_assert_eq!(pair.credit, (0, 0));
        let mut ids: Vec<usize> = pair.outcomes.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let all: Vec<usize> = (1..=pair.last_id).collect();
        prop_assert_eq!(ids, all, "each once");
    }
}

#[test]
fn waiting_bytes_are_not_copied_when_more_arrive() {
    let mut in_flight = InFlight::<()>::new(OVERDUE_NS);
    let accept = |in_flight: &mut InFlight<()>| {
        let mut bytes = Pieces::default();
        let piece = BytesMut::zeroed(PIECE_BYTES);
        let at = piece.as_ptr() as usize;
        bytes.push(piece);
        let slot = Slot {
            reply: Some(()),
            awaits: Awaits::Reply,
            bytes: PIECE_BYTES,
            deadline_ns: u64::MAX,
            submitted_ns: 0,
            sent_ns: 0,
        };
        in_flight.accept(&mut vec![slot], &mut bytes);
        at
    };
    let max = Amount {
        commands: 1,
        bytes: PIECE_BYTES,
    };
    let (mut waiting, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..64 {
        waiting.push(accept(&mut in_flight));
        waiting.push(accept(&mut in_flight));
        // The socket still holds the bytes that were sent.
        let write = |piece| sent.push(piece);
        in_flight.next_batch(0, max, &mut Vec::new(), write);
    }
    let all = Amount {
        commands: waiting.len(),
        bytes: usize::MAX,
    };
    in_flight.next_batch(0, all, &mut Vec::new(), |piece| sent.push(piece));
    let sent: Vec<usize> = sent.iter().map(|piece| piece.as_ptr() as usize).collect();
    assert_eq!(sent, waiting, "where it was left");
}

#[test]
fn the_oldest_is_told_what_was_wrong_and_the_others_that_they_are_lost() {
    let mut pair = Pair::new();
    pair.accept(&[(Awaits::Reply, 1, 9); 3]);
    let (commands, bytes) = (2, 9);
    pair.take(&Step::Batch { commands, bytes });
    let first = Some(RedisError::QueueFull);
    pair.real
        .lose(first, &lost(), &RedisError::Closed, &mut pair.outcomes);
    let wanted = [RedisError::QueueFull, lost(), RedisError::Closed];
    let outcomes = pair.outcomes.into_iter().map(|(_, outcome)| outcome);
    assert!(outcomes.eq(wanted.into_iter().map(Err)));
}
