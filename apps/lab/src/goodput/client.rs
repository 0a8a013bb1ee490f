//! The clients: one thread that sends each request when it is due, whether or not answers come (open loop).
//!
//! ```text
//!   schedule ──▶ Client::send ──▶ AskFuture in a slot ──▶ mailbox ──▶ service
//!                                      ▲                                 │ reply, refusal, deadline
//!                                      └── numbers of woken slots ◄──────┘
//! ```

use std::{
    pin::Pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use freeboard::{
    ActorRef, Ask, AskError, AskFuture, Group, GroupAsk, GroupAskFuture, flow::random,
};

use super::service::{Mailbox, Request, Service, URGENT};
use crate::interrupt::Interrupt;

/// A shorter pause is spent without sleeping: to wake a thread takes as long.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// How long the last asks may take to end after the service has stopped.
const END_MAX: Duration = Duration::from_secs(10);
/// One of this number of requests is urgent.
const URGENT_EVERY: usize = 10;

/// How a request ended, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It never did.
    None,
    Answered,
    /// The mailbox was full, or gave its place to a newer one.
    Refused,
    /// Its deadline passed.
    Expired,
    /// It still waited in the mailbox when the run ended.
    Queued,
}

/// A request. Times count from the beginning of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) due: Duration,
    /// When its client knew.
    pub(super) ended: Duration,
    pub(super) end: End,
    pub(super) is_urgent: bool,
}

/// All requests of a run.
pub(super) fn schedule(seed: u64, phases: &[(f64, Duration)]) -> Vec<Asked> {
    let dues = arrivals(seed, phases).into_iter().enumerate();
    let asked = |(number, due): (usize, Duration)| Asked {
        due,
        ended: Duration::ZERO,
        end: End::None,
        is_urgent: number.is_multiple_of(URGENT_EVERY),
    };
    dues.map(asked).collect()
}

/// When requests are due: a Poisson process that has each of these rates, a second, for a time.
pub(crate) fn arrivals(seed: u64, phases: &[(f64, Duration)]) -> Vec<Duration> {
    let mut turn = 0;
    let mut gap = |rate: f64| {
        turn += 1;
        // Within (0, 1].
        let share = ((random::number(seed, turn) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -share.ln() / rate
    };
    let (mut all, mut begin) = (Vec::new(), 0.0);
    for (rate, time) in phases {
        let end = begin + time.as_secs_f64();
        let mut at = begin + gap(*rate);
        while at < end {
            all.push(Duration::from_secs_f64(at));
            at += gap(*rate);
        }
        begin = end;
    }
    all
}

/// Puts the number of a slot where the client finds it.
struct Ready {
    slot: usize,
    ready: mpsc::Sender<usize>,
    client: Thread,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        // Nobody listens any more if the run has ended.
        let _ = self.ready.send(self.slot);
        self.client.unpark();
    }
}

/// Where requests are sent.
pub(super) enum Target {
    Actor(ActorRef<Service>),
    Group(Group<Service>),
}

impl Target {
    fn ask(&self, number: usize, timeout: Option<Duration>, lane: usize) -> Asking<'_> {
        let request = Request(number);
        match self {
            Self::Actor(service) => {
                let ask: Ask<_, _, _> = service.ask(request).lane(lane);
                Asking::Actor(match timeout {
                    Some(timeout) => ask.timeout(timeout).into_future(),
                    None => ask.into_future(),
                })
            }
            Self::Group(group) => {
                let ask: GroupAsk<'_, _, _> = group.any().ask(request).lane(lane);
                Asking::Group(match timeout {
                    Some(timeout) => ask.timeout(timeout).into_future(),
                    None => ask.into_future(),
                })
            }
        }
    }

    fn stop(&self) {
        match self {
            Self::Actor(service) => service.stop(),
            Self::Group(group) => group.stop(),
        }
    }
}

enum Asking<'a> {
    Actor(AskFuture<Service, Request, ()>),
    Group(GroupAskFuture<'a, Service, Request>),
}

impl Asking<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AskError<Request>>> {
        match self {
            Self::Actor(asking) => Pin::new(asking).poll(context),
            Self::Group(asking) => Pin::new(asking).poll(context),
        }
    }
}

/// A request that waits for its answer. A late wake of the one before polls the next one once more.
struct Slot<'a> {
    waker: Waker,
    asking: Option<(usize, Asking<'a>)>,
}

/// The thread that sends.
pub(super) struct Client<'a> {
    asked: &'a mut [Asked],
    begun: Instant,
    slots: Vec<Slot<'a>>,
    free: Vec<usize>,
    woken: mpsc::Receiver<usize>,
    ready: mpsc::Sender<usize>,
    is_ending: bool,
}

impl<'a> Client<'a> {
    pub(super) fn new(asked: &'a mut [Asked]) -> Self {
        let (ready, woken) = mpsc::channel();
        Self {
            asked,
            begun: Instant::now(),
            slots: Vec::new(),
            free: Vec::new(),
            woken,
            ready,
            is_ending: false,
        }
    }

    /// Sends all requests when they are due, waits for answers until the last one's deadline, stops the service, and
    /// returns how many were sent.
    pub(super) fn run(
        mut self,
        service: &'a Target,
        mailbox: Mailbox,
        deadline: Duration,
        interrupt: &Interrupt,
    ) -> usize {
        let mut sent = 0;
        while let Some(due) = self.asked.get(sent).map(|it| it.due)
            && !interrupt.has_come()
        {
            self.wait_until(due);
            self.send(sent, service, mailbox, deadline);
            sent += 1;
        }
        let last = self.begun.elapsed() + deadline;
        while !self.is_idle() && self.begun.elapsed() < last && !interrupt.has_come() {
            self.wait_until(last.min(self.begun.elapsed() + Duration::from_millis(1)));
        }
        // What the service sheds from here on was still queued.
        self.poll_woken();
        self.is_ending = true;
        service.stop();
        let last = self.begun.elapsed() + END_MAX;
        while !self.is_idle() && self.begun.elapsed() < last {
            self.wait_until(self.begun.elapsed() + Duration::from_millis(1));
        }
        sent
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    fn send(&mut self, number: usize, service: &'a Target, mailbox: Mailbox, deadline: Duration) {
        let asked = self.asked[number];
        // It counts from when the request was due; a client that is late has less time left.
        let left = (asked.due + deadline).saturating_sub(self.begun.elapsed());
        let timeout = mailbox.has_deadlines().then_some(left);
        let lane = match mailbox.has_urgent_lane() && !asked.is_urgent {
            true => URGENT + 1,
            false => URGENT,
        };
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.slots[slot].asking = Some((number, service.ask(number, timeout, lane)));
        self.poll(slot);
    }

    fn add_slot(&mut self) -> usize {
        let slot = self.slots.len();
        let ready = Ready {
            slot,
            ready: self.ready.clone(),
            client: thread::current(),
        };
        let waker = Arc::new(ready).into();
        self.slots.push(Slot {
            waker,
            asking: None,
        });
        slot
    }

    /// Takes answers meanwhile.
    fn wait_until(&mut self, due: Duration) {
        loop {
            self.poll_woken();
            let left = due.saturating_sub(self.begun.elapsed());
            match left {
                Duration::ZERO => return,
                _ if left > PAUSE_MIN => thread::park_timeout(left - PAUSE_MIN),
                _ => thread::yield_now(),
            }
        }
    }

    fn poll_woken(&mut self) {
        while let Ok(slot) = self.woken.try_recv() {
            self.poll(slot);
        }
    }

    fn poll(&mut self, slot: usize) {
        let Slot { waker, asking } = &mut self.slots[slot];
        let Some((number, future)) = asking else {
            return;
        };
        let Poll::Ready(reply) = future.poll(&mut Context::from_waker(waker)) else {
            return;
        };
        let asked = &mut self.asked[*number];
        asked.ended = self.begun.elapsed();
        asked.end = match reply {
            Ok(()) => End::Answered,
            Err(AskError::Shed | AskError::NoReply) if self.is_ending => End::Queued,
            Err(AskError::Full(_) | AskError::Shed) => End::Refused,
            Err(AskError::Expired) => End::Expired,
            Err(_) => End::None,
        };
        *asking = None;
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_its_rates_and_depends_on_its_seed_alone() {
        let second = Duration::from_secs(1);
        let phases = [(10_000.0, second), (1_000.0, second)];
        let due =
            |seed| -> Vec<Duration> { schedule(seed, &phases).iter().map(|it| it.due).collect() };
        let one = due(1);
        assert_eq!(one, due(1));
        assert_ne!(one, due(2));
        assert!(one.is_sorted());
        // Five standard deviations.
        let first = one.iter().filter(|due| **due < second).count();
        assert!(first.abs_diff(10_000) < 500, "{first}");
        assert!((one.len() - first).abs_diff(1_000) < 160, "{}", one.len());
        assert!(one.iter().all(|due| *due < 2 * second));
    }
}
