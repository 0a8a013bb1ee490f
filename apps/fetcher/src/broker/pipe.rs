//! A broker of one process, used by another one of the same program: frames over a pair of pipes.
//!
//! ```text
//!   the process of the load               the process of the fetcher
//!   FarBroker ──publish, consume──▶ NearEnd ──▶ MemoryBroker
//!             ◀──confirm, refuse, delivery──
//!             ◀────── notes ──────▶
//!
//!   frame: kind (1 byte), queue (1 byte), length of the payload (4 bytes, little-endian), payload
//! ```
//!
//! Made for load and its account: a delivery is acknowledged when it is written to the pipe. Notes are messages of
//! the two programs to each other.

use std::{
    cell::Cell,
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    num::NonZeroU16,
    sync::{Arc, mpsc},
    thread,
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::{
    Broker, ConsumeError, Consumer, Inbox, Ledger, OnOutcome, PublishError, Queue, Unconfirmed,
    consumer::ConsumerControl,
    delivery::{Delivery, Message, Settle, Settlement},
};

/// The most bytes that wait to be written.
const OUTGOING_MAX: usize = 64 << 20;
/// The longest payload: a body and some more.
const PAYLOAD_MAX: usize = crate::message::BODY_BYTES_MAX + (1 << 10);
/// What is read at once.
const READ: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// A body for a queue.
    Publish,
    /// Consume a queue; the payload is the prefetch.
    Consume,
    /// The payload is the number of confirmed messages, in the order of their frames.
    Confirm,
    /// The same of messages that are refused.
    Refuse,
    /// A body from a queue.
    Delivery,
    /// For the other program.
    Note,
}

const KINDS: [Kind; 6] = [
    Kind::Publish,
    Kind::Consume,
    Kind::Confirm,
    Kind::Refuse,
    Kind::Delivery,
    Kind::Note,
];

/// Frames to be written, by a thread of its own.
#[derive(Debug, Default)]
struct Outgoing {
    frames: Mutex<Frames>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl Outgoing {
    fn start(mut to: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let outgoing = Arc::new(Self::default());
        let written = outgoing.clone();
        spawn("broker write", move || {
            let mut bytes = Vec::new();
            while written.take(&mut bytes) {
                if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
                    written.close();
                }
            }
        })?;
        Ok(outgoing)
    }

    /// Adds a frame. Whether there was room for it.
    fn push(&self, kind: Kind, queue: Queue, payload: &[u8]) -> bool {
        let mut frames = self.frames.lock();
        if frames.is_closed || frames.bytes.len() + payload.len() > OUTGOING_MAX {
            return false;
        }
        let length = u32::try_from(payload.len()).expect("a payload is shorter than the bound");
        frames.bytes.extend([kind as u8, queue.index() as u8]);
        frames.bytes.extend(length.to_le_bytes());
        frames.bytes.extend(payload);
        drop(frames);
        self.changed.notify_one();
        true
    }

    /// Waits for frames. Whether there are any; there are none once it is closed.
    fn take(&self, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        let mut frames = self.frames.lock();
        while frames.bytes.is_empty() && !frames.is_closed {
            self.changed.wait(&mut frames);
        }
        std::mem::swap(bytes, &mut frames.bytes);
        !bytes.is_empty()
    }

    /// Takes no more frames; those that were taken are written.
    fn close(&self) {
        self.frames.lock().is_closed = true;
        self.changed.notify_one();
    }
}

/// Reads frames to the end of the pipe. `rest` is called when all that was read at once is handled.
fn read(
    from: impl Read,
    mut frame: impl FnMut(Kind, Queue, Bytes),
    mut rest: impl FnMut(),
) -> io::Result<()> {
    let mut from = BufReader::with_capacity(READ, from);
    while !from.fill_buf()?.is_empty() {
        let mut head = [0; 6];
        from.read_exact(&mut head)?;
        let [kind, queue, length @ ..] = head;
        let kind = KINDS.get(usize::from(kind));
        let queue = Queue::ALL.get(usize::from(queue));
        let length = u32::from_le_bytes(length) as usize;
        let (Some(kind), Some(queue), ..=PAYLOAD_MAX) = (kind, queue, length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        frame(*kind, *queue, payload.into());
        if from.buffer().is_empty() {
            rest();
        }
    }
    Ok(())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(run).map(drop)
}

/// The notes of the other end. It ends with the pipe.
pub type Notes = mpsc::Receiver<Bytes>;

/// The end in the process of the broker.
#[derive(Debug)]
pub struct NearEnd(Arc<Outgoing>);

impl NearEnd {
    /// Serves the broker, which must confirm at once, to the process at the other ends of two pipes. It ends when
    /// `from` does, or when this is dropped.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(
        broker: Arc<dyn Broker>,
        from: impl Read + Send + 'static,
        to: impl Write + Send + 'static,
    ) -> io::Result<(Self, Notes)> {
        let outgoing = Outgoing::start(to)?;
        let (notes, noted) = mpsc::channel();
        let replies = outgoing.clone();
        spawn("broker read", move || {
            let confirmed = Cell::new(0_u64);
            let confirm = || {
                let count = confirmed.take();
                if count > 0 {
                    replies.push(Kind::Confirm, Queue::Replies, &count.to_le_bytes());
                }
            };
            let mut consumers = Vec::new();
            let frame = |kind, queue, payload: Bytes| match kind {
                Kind::Publish => match broker.publish_with(queue, payload, Box::new(|_| ())) {
                    Ok(()) => confirmed.set(confirmed.get() + 1),
                    Err(_) => {
                        confirm();
                        replies.push(Kind::Refuse, Queue::Replies, &1_u64.to_le_bytes());
                    }
                },
                Kind::Consume => {
                    let prefetch = payload.as_ref().try_into().map(u16::from_le_bytes);
                    let prefetch = NonZeroU16::new(prefetch.unwrap_or(1));
                    let replies = replies.clone();
                    let inbox = Box::new(move |delivery: Delivery| {
                        match replies.push(Kind::Delivery, queue, delivery.body()) {
                            true => delivery.ack(),
                            false => return Err(delivery),
                        }
                        Ok(())
                    });
                    // Without a thread for the consumer the other end gets nothing, which it sees.
                    consumers.extend(broker.consume(
                        queue,
                        prefetch.unwrap_or(NonZeroU16::MIN),
                        inbox,
                    ));
                }
                // The other end may have gone.
                Kind::Note => drop(notes.send(payload)),
                Kind::Confirm | Kind::Refuse | Kind::Delivery => {}
            };
            // After an error, as after the end, the other process has ended.
            let _ = read(from, frame, confirm);
            replies.close();
        })?;
        Ok((Self(outgoing), noted))
    }

    /// Sends a note.
    pub fn note(&self, text: &[u8]) {
        self.0.push(Kind::Note, Queue::Replies, text);
    }

    /// Bytes that wait to be written to the pipe.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.0.frames.lock().bytes.len() as u64
    }
}

impl Drop for NearEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The broker of another process. Deliveries are acknowledged already: settling them does nothing.
#[derive(Debug)]
pub struct FarBroker(Arc<Far>);

#[derive(Default)]
struct Far {
    outgoing: Arc<Outgoing>,
    inboxes: Mutex<[Option<Inbox>; Queue::ALL.len()]>,
    unconfirmed: Mutex<VecDeque<(Queue, OnOutcome)>>,
    ledgers: Mutex<[Ledger; Queue::ALL.len()]>,
}

opaque_debug!(Far);

impl FarBroker {
    /// Uses the broker at the other ends of two pipes.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(
        from: impl Read + Send + 'static,
        to: impl Write + Send + 'static,
    ) -> io::Result<(Self, Notes)> {
        let far = Arc::new(Far {
            outgoing: Outgoing::start(to)?,
            ..Far::default()
        });
        let (notes, noted) = mpsc::channel();
        let reader = far.clone();
        spawn("broker read", move || {
            let frame = |kind, queue, payload: Bytes| match kind {
                Kind::Confirm => reader.conclude(&payload, Ok(())),
                Kind::Refuse => reader.conclude(&payload, Err(Unconfirmed::Refused)),
                Kind::Delivery => reader.deliver(queue, payload),
                Kind::Note => drop(notes.send(payload)),
                Kind::Publish | Kind::Consume => {}
            };
            // After an error, as after the end, the other process has ended.
            let _ = read(from, frame, || ());
            reader.outgoing.close();
        })?;
        Ok((Self(far), noted))
    }

    /// Sends a note, after all that was published before.
    pub fn note(&self, text: &[u8]) {
        self.0.outgoing.push(Kind::Note, Queue::Replies, text);
    }
}

impl Drop for FarBroker {
    fn drop(&mut self) {
        self.0.outgoing.close();
    }
}

impl Far {
    fn conclude(&self, payload: &[u8], outcome: Result<(), Unconfirmed>) {
        let count = payload.try_into().map_or(0, u64::from_le_bytes);
        for _ in 0..count {
            let Some((queue, on_outcome)) = self.unconfirmed.lock().pop_front() else {
                return;
            };
            self.ledgers.lock()[queue.index()].conclude(outcome);
            on_outcome(outcome);
        }
    }

    fn deliver(&self, queue: Queue, body: Bytes) {
        let settle: Arc<dyn Settle> = Arc::new(Settled);
        let mut delivery = Delivery::new(Message::now(body), 0, settle);
        {
            let ledger = &mut self.ledgers.lock()[queue.index()];
            ledger.deliver(1);
            ledger.ack();
        }
        while let Some(inbox) = &mut self.inboxes.lock()[queue.index()] {
            match inbox(delivery) {
                Ok(()) => return,
                Err(refused) => delivery = refused,
            }
        }
    }
}

impl Broker for FarBroker {
    fn consume(
        &self,
        queue: Queue,
        prefetch: NonZeroU16,
        inbox: Inbox,
    ) -> Result<Consumer, ConsumeError> {
        self.0.inboxes.lock()[queue.index()] = Some(inbox);
        let prefetch = prefetch.get().to_le_bytes();
        self.0.outgoing.push(Kind::Consume, queue, &prefetch);
        Ok(Consumer::new(Consuming(self.0.clone(), queue)))
    }

    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError> {
        // In the order of the frames.
        let mut unconfirmed = self.0.unconfirmed.lock();
        if !self.0.outgoing.push(Kind::Publish, queue, &body) {
            return Err(PublishError::Full(body));
        }
        self.0.ledgers.lock()[queue.index()].publish();
        unconfirmed.push_back((queue, on_outcome));
        Ok(())
    }

    fn ledger(&self, queue: Queue) -> Ledger {
        self.0.ledgers.lock()[queue.index()]
    }
}

struct Settled;

impl Settle for Settled {
    fn settle(&self, _: u64, _: Settlement) {}
}

struct Consuming(Arc<Far>, Queue);

impl ConsumerControl for Consuming {
    fn pause(&self) {
        self.stop();
    }

    fn stop(&self) {
        self.0.inboxes.lock()[self.1.index()] = None;
    }
}
