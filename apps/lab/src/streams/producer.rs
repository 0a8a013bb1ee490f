//! A producer: a thread or an actor that appends its share to a stream.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum;
use freeboard::{Actor, AsyncHandler, Context, SpawnOptions, System, stream::StreamWriter};

use super::{
    message::{Messages, Number},
    run::LOOK_EVERY,
};

/// Who appends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProducerKind {
    /// A thread, which waits while the stream's memory is full
    #[default]
    Thread,
    /// An actor, which waits without a thread
    Actor,
}

impl fmt::Display for ProducerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Actor => "actor",
        })
    }
}

/// What happens while producers append.
pub(super) enum Event {
    /// The records that a writer's stream has written.
    Written {
        writer: u32,
        records: u64,
    },
    Terminated(Terminated),
}

/// The end of a producer.
pub(super) struct Terminated {
    pub(super) writer: u32,
    pub(super) producer: u16,
    pub(super) appended: u64,
    /// When its last message was accepted, and when all were synced.
    pub(super) times: Result<(Instant, Instant)>,
}

pub(super) struct Producer {
    pub(super) writer: u32,
    pub(super) number: u16,
    pub(super) share: u64,
    pub(super) next: u64,
    pub(super) messages: Messages,
    pub(super) stream: StreamWriter,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) events: mpsc::Sender<Event>,
    /// Once it has terminated, as in [`Terminated`].
    pub(super) times: Option<Result<(Instant, Instant)>>,
}

impl Producer {
    /// Starts it, in the system if there is one.
    pub(super) fn start(self, system: Option<&System>) -> Result<()> {
        let Some(system) = system else {
            let name = format!("writer{}.{}", self.writer, self.number + 1);
            let thread = thread::Builder::new().name(name);
            let thread = thread.spawn(move || self.run());
            return thread.map(drop).context("cannot start a producer");
        };
        let name = format!("writer{}-producer{}", self.writer, self.number + 1);
        let options = SpawnOptions::new().name(name);
        let producer = system.spawn_once(options, self)?;
        let told = producer.tell(Append);
        told.map_err(|_| anyhow!("a producer has terminated"))
    }

    fn run(mut self) {
        let mut appended = Ok(());
        while let Some(end) = self.portion() {
            appended = (self.next..end).try_for_each(|index| {
                let message = self.messages.get(Number::new(self.number, index));
                // All tickets are waited for at the end, by the stream's flush.
                let _ticket = self.stream.append(message)?;
                self.next = index + 1;
                Ok(())
            });
            if appended.is_err() {
                break;
            }
        }
        let accepted_at = Instant::now();
        let times = appended.and_then(|()| {
            self.stream.flush()?;
            Ok((accepted_at, Instant::now()))
        });
        self.times = Some(times);
    }

    /// The end of the messages that it appends before the next check for a stop; `None` at its end.
    fn portion(&self) -> Option<u64> {
        let end = self.share.min(self.next + LOOK_EVERY);
        // Ordering: Relaxed, it is seen soon enough.
        (self.next < end && !self.stop.load(Ordering::Relaxed)).then_some(end)
    }

    async fn append_portion(&mut self, end: u64) -> Result<()> {
        while self.next < end {
            let message = self.messages.get(Number::new(self.number, self.next));
            let _ticket = self.stream.append_async(message).await?;
            self.next += 1;
        }
        Ok(())
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let panicked = || Err(anyhow!("a producer panicked"));
        // Nobody listens any more if the run was given up.
        let _ = self.events.send(Event::Terminated(Terminated {
            writer: self.writer,
            producer: self.number,
            appended: self.next,
            times: self.times.take().unwrap_or_else(panicked),
        }));
    }
}

/// Has the actor append the next messages. It tells itself the next one, so that other actors come in between.
struct Append;

impl Actor for Producer {}

impl AsyncHandler<Append> for Producer {
    type Reply = ();

    async fn handle(&mut self, _: Append, cx: &mut Context<Self>) {
        let times = match self.portion() {
            Some(end) => match self.append_portion(end).await {
                Ok(()) if cx.actor_ref().tell(Append).is_ok() => return,
                Ok(()) => Err(anyhow!("the producer was stopped")),
                Err(error) => Err(error),
            },
            None => {
                let accepted_at = Instant::now();
                let flushed = self.stream.flush_async().await;
                flushed
                    .map(|_| (accepted_at, Instant::now()))
                    .map_err(Into::into)
            }
        };
        self.times = Some(times);
        cx.stop();
    }
}
