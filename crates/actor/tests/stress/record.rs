//! One record per message: its receiver, the sender's result, and its outcome.

use crate::common::*;

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Dropped before a handler saw it, and not shown to the observer of dead letters.
    Unseen,
    /// A handler began and did not complete.
    Began,
    Finished,
    /// The observer of dead letters got it.
    Dead(ShedReason),
}

/// The sender's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sent {
    /// An outbox, a timer or a dropped future has it, or the lane's policy sheds silently.
    Unknown,
    Accepted,
    /// It came back as full, which the lane counts.
    Full,
    /// It came back because the outbox was full, which the lane counts.
    OutboxFull,
    /// It came back with an error that no lane counts, or never left its future.
    Unsent,
    /// It became a dead letter in `tell_or_log` because the lane was closed.
    Logged,
}

impl Sent {
    const ALL: [Self; 6] = [
        Self::Unknown,
        Self::Accepted,
        Self::Full,
        Self::OutboxFull,
        Self::Unsent,
        Self::Logged,
    ];
}

/// The asker's result.
const ANSWERED: u8 = 1;
const SHED: u8 = 2;

const BEGAN: u8 = 1;
const FINISHED: u8 = 2;
const DEAD: u8 = 3;

pub(crate) struct Record {
    pub(crate) to: ActorId,
    pub(crate) lane: usize,
    /// In the list of records.
    number: u64,
    fate: AtomicU8,
    sent: AtomicU8,
    asked: AtomicU8,
    is_taken: AtomicBool,
    drops: AtomicU8,
}

impl Record {
    pub(crate) fn fate(&self) -> Fate {
        match self.fate.load(Ordering::SeqCst) {
            0 => Fate::Unseen,
            BEGAN => Fate::Began,
            FINISHED => Fate::Finished,
            dead => Fate::Dead(ShedReason::ALL[usize::from(dead - DEAD)]),
        }
    }

    pub(crate) fn sent(&self) -> Sent {
        Sent::ALL[usize::from(self.sent.load(Ordering::SeqCst))]
    }

    pub(crate) fn set_sent(&self, sent: Sent) {
        self.sent.store(sent as u8, Ordering::SeqCst);
    }

    /// Whether its lane accepted it; `None` if unknown.
    pub(crate) fn was_accepted(&self) -> Option<bool> {
        match (self.fate(), self.sent()) {
            (Fate::Began | Fate::Finished, _) | (_, Sent::Accepted) => Some(true),
            (_, Sent::Full | Sent::OutboxFull | Sent::Unsent | Sent::Logged) => Some(false),
            (Fate::Unseen | Fate::Dead(ShedReason::Stopped), Sent::Unknown) => None,
            (
                Fate::Dead(
                    ShedReason::DroppedOldest
                    | ShedReason::Coalesced
                    | ShedReason::CoDel
                    | ShedReason::TooOld,
                ),
                _,
            ) => Some(true),
            (Fate::Dead(_), _) => Some(false),
        }
    }

    /// The contradictions, after everything has ended.
    pub(crate) fn fault(&self) -> Option<String> {
        let (fate, sent) = (self.fate(), self.sent());
        let came_back = matches!(sent, Sent::Full | Sent::OutboxFull | Sent::Unsent);
        let asked = self.asked.load(Ordering::SeqCst);
        let is_sound = self.drops.load(Ordering::SeqCst) == 1
            && !(came_back && fate != Fate::Unseen)
            && (asked != ANSWERED || fate == Fate::Finished)
            && (asked != SHED || fate != Fate::Finished || self.is_taken.load(Ordering::SeqCst))
            && (sent != Sent::Logged || fate == Fate::Dead(ShedReason::Stopped));
        (!is_sound).then(|| {
            let (to, lane) = (self.to, self.lane);
            let drops = self.drops.load(Ordering::SeqCst);
            format!("to {to} lane {lane}: {fate:?}, {sent:?}, asked {asked}, dropped {drops} times")
        })
    }
}

/// All records and their errors.
#[derive(Default)]
pub(crate) struct Records {
    all: Mutex<Vec<Arc<Record>>>,
    live: AtomicU64,
    asks_open: AtomicU64,
    faults: Mutex<Vec<String>>,
}

impl Records {
    pub(crate) fn token(self: &Arc<Self>, to: ActorId, lane: usize) -> Token {
        self.live.fetch_add(1, Ordering::SeqCst);
        let mut all = lock(&self.all);
        let record = Arc::new(Record {
            to,
            lane,
            number: all.len() as u64,
            fate: AtomicU8::new(0),
            sent: AtomicU8::new(0),
            asked: AtomicU8::new(0),
            is_taken: AtomicBool::new(false),
            drops: AtomicU8::new(0),
        });
        all.push(record.clone());
        Token {
            record,
            records: self.clone(),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Record>> {
        lock(&self.all).clone()
    }

    pub(crate) fn len(&self) -> u64 {
        lock(&self.all).len() as u64
    }

    /// Messages that have not been dropped.
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::SeqCst)
    }

    /// Asks without an answer or an error whose future or thread still waits.
    pub(crate) fn asks_open(&self) -> u64 {
        self.asks_open.load(Ordering::SeqCst)
    }

    pub(crate) fn open_ask(self: &Arc<Self>) -> OpenAsk {
        self.asks_open.fetch_add(1, Ordering::SeqCst);
        OpenAsk(self.clone())
    }

    pub(crate) fn report(&self, fault: String) {
        lock(&self.faults).push(fault);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        lock(&self.faults).clone()
    }
}

/// An asker waits, until this is dropped.
pub(crate) struct OpenAsk(Arc<Records>);

impl Drop for OpenAsk {
    fn drop(&mut self) {
        self.0.asks_open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The content of each message.
pub(crate) struct Token {
    pub(crate) record: Arc<Record>,
    records: Arc<Records>,
}

impl Token {
    fn step(&self, from: u8, to: u8) {
        let fate = &self.record.fate;
        let step = fate.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        if let Err(found) = step {
            let number = self.record.number;
            self.records
                .report(format!("message {number}: {found} before {to}"));
        }
    }

    pub(crate) fn begin(&self) {
        self.step(0, BEGAN);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.step(BEGAN, FINISHED);
        self.record.number
    }

    /// A handler takes the message out of its mailbox. If it was asked, its asker gets no reply.
    pub(crate) fn take(&self) {
        self.begin();
        self.finish();
        self.record.is_taken.store(true, Ordering::SeqCst);
    }

    pub(crate) fn bury(&self, reason: ShedReason) {
        self.step(0, DEAD + reason.index() as u8);
    }

    /// The message of another record to the same lane.
    pub(crate) fn another(&self) -> Self {
        self.records.token(self.record.to, self.record.lane)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.record.drops.fetch_add(1, Ordering::SeqCst);
        self.records.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A message with a token.
pub(crate) trait Carrier {
    fn token(&self) -> &Token;
}

impl Records {
    fn came_back(&self, record: &Arc<Record>, message: &impl Carrier, sent: Sent) {
        if !Arc::ptr_eq(record, &message.token().record) {
            self.report("another message came back".to_owned());
        }
        record.set_sent(sent);
    }

    /// Records the result of a tell. `is_certain`: `Ok` means that the lane has accepted it.
    pub(crate) fn told<M: Carrier>(
        &self,
        record: &Arc<Record>,
        outcome: Result<(), TellError<M>>,
        is_certain: bool,
    ) {
        match outcome {
            Ok(()) if is_certain => record.set_sent(Sent::Accepted),
            Ok(()) => {}
            Err(TellError::Full(message)) => self.came_back(record, &message, Sent::Full),
            Err(TellError::OutboxFull(message)) => {
                self.came_back(record, &message, Sent::OutboxFull);
            }
            Err(error) => self.came_back(record, &error.into_inner(), Sent::Unsent),
        }
    }

    /// Records the result of an ask.
    pub(crate) fn asked<M: Carrier>(
        &self,
        record: &Arc<Record>,
        outcome: Result<u64, AskError<M>>,
    ) {
        match outcome {
            Ok(number) => {
                if number != record.number {
                    self.report(format!("the reply to {} is {number}", record.number));
                }
                record.set_sent(Sent::Accepted);
                record.asked.store(ANSWERED, Ordering::SeqCst);
            }
            Err(AskError::Shed | AskError::NoReply) => record.asked.store(SHED, Ordering::SeqCst),
            Err(AskError::Expired | AskError::Circle { unsent: None, .. }) => {}
            Err(AskError::Full(message)) => self.came_back(record, &message, Sent::Full),
            Err(error) => match error.into_inner() {
                Some(message) => self.came_back(record, &message, Sent::Unsent),
                None => self.report("an error without its message".to_owned()),
            },
        }
    }
}
