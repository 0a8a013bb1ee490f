//! Random sequences of callers, answers and time: every caller has one outcome, and nobody waits for ever.

use std::sync::Arc;

use bytes::Bytes;
use freeboard_flow::Backoff;
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::{
    call::Reply,
    error::CacheError,
    flight::{Caller, Ending},
    flights::{Due, Flights, Joined, Limits, Served},
};

const WAIT_MAX_NS: u64 = 100;

const LIMITS: Limits = Limits {
    waiters_max: 5,
    flights_max: 2,
    poll: Backoff {
        min_ns: 10,
        max_ns: 40,
        factor: 2,
    },
    lease_ns: 150,
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Join {
        key: u8,
    },
    /// One of the pending requests is answered.
    Resolve {
        question: prop::sample::Index,
        how: u8,
    },
    Notify {
        key: u8,
    },
    Pass {
        time_ns: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0_u8..2;
    prop_oneof![
        4 => key().prop_map(|key| Step::Join { key }),
        6 => (any::<prop::sample::Index>(), 0_u8..5)
            .prop_map(|(question, how)| Step::Resolve { question, how }),
        1 => key().prop_map(|key| Step::Notify { key }),
        2 => (0_u64..60).prop_map(|time_ns| Step::Pass { time_ns }),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Get,
    Lease,
    /// How many callers there had been when the fetch began.
    Held(usize),
    Filling {
        began: usize,
        /// And when what was fetched left.
        left: usize,
    },
}

struct World {
    flights: Flights,
    now_ns: u64,
    questions: Vec<(Bytes, u64, Kind)>,
    /// Of each caller.
    outcomes: Arc<Mutex<Vec<u32>>>,
}

impl World {
    fn new() -> Self {
        Self {
            flights: Flights::new(LIMITS),
            now_ns: 0,
            questions: Vec::new(),
            outcomes: Arc::default(),
        }
    }

    fn caller(&self) -> Caller {
        let outcomes = self.outcomes.clone();
        let number = outcomes.lock().len();
        outcomes.lock().push(0);
        let reply = Box::new(move |_| outcomes.lock()[number] += 1);
        Caller {
            reply: Reply::Function(reply),
            since_ns: self.now_ns,
            deadline_ns: self.now_ns + WAIT_MAX_NS,
        }
    }

    fn told(callers: impl IntoIterator<Item = Caller>) {
        let tell = |caller: Caller| caller.reply.complete(Err(CacheError::Closed));
        callers.into_iter().for_each(tell);
    }

    fn ask(&mut self, key: &Bytes, turn: Option<u64>, kind: Kind) {
        let question = turn.map(|turn| (key.clone(), turn, kind));
        self.questions.extend(question);
    }

    fn served(&mut self, key: &Bytes, served: Served) {
        Self::told(served.callers);
        self.ask(key, served.next, Kind::Get);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Join { key } => {
                let key = Bytes::from(vec![key]);
                match self.flights.join(&key, self.caller()) {
                    Joined::Waits => {}
                    Joined::Asks(turn) => self.ask(&key, Some(turn), Kind::Get),
                    Joined::Refused(caller, _) => Self::told([caller]),
                }
            }
            Step::Resolve { .. } if self.questions.is_empty() => {}
            Step::Resolve { question, how } => {
                let index = question.index(self.questions.len());
                let question = self.questions.swap_remove(index);
                self.resolve(question, how);
            }
            Step::Notify { key } => {
                let key = Bytes::from(vec![key]);
                let turn = self.flights.notified(&key);
                self.ask(&key, turn, Kind::Lease);
            }
            Step::Pass { time_ns } => {
                self.now_ns += time_ns;
                for due in self.flights.due(self.now_ns).0 {
                    match due {
                        Due::Ask(key, turn) => self.ask(&key, Some(turn), Kind::Lease),
                        Due::Expired(callers) => Self::told(callers),
                    }
                }
            }
        }
    }

    fn resolve(&mut self, (key, turn, kind): (Bytes, u64, Kind), how: u8) {
        let flights = &self.flights;
        match (kind, how) {
            (Kind::Get, 0..3) => {
                let turn = flights.leasing(&key, turn).then_some(turn);
                self.ask(&key, turn, Kind::Lease);
            }
            (Kind::Lease, 0 | 1) => {
                let granted = flights.granted(&key, turn, how == 1, self.now_ns);
                Self::told(granted.leader);
                self.served(&key, granted.served);
                let began = self.outcomes.lock().len();
                self.ask(&key, granted.turn, Kind::Held(began));
            }
            (Kind::Lease, 2) => {
                let waits = flights.waits(&key, turn, self.now_ns + 25, self.now_ns);
                Self::told(waits.expired);
                self.ask(&key, waits.again, Kind::Lease);
            }
            (Kind::Get | Kind::Lease, 3) => Self::told(flights.failed(&key, turn)),
            (Kind::Get | Kind::Lease, _) => {
                let served = flights.answered(&key, turn);
                self.served(&key, served);
            }
            (Kind::Held(_), 0) => flights.given_up(&key, turn, self.now_ns),
            (Kind::Held(began), _) => {
                flights.filling(&key, turn);
                let left = self.outcomes.lock().len();
                self.ask(&key, Some(turn), Kind::Filling { began, left });
            }
            (Kind::Filling { began, left }, how) => {
                let (ending, end) = match how {
                    0..2 => (Ending::NotStored, began),
                    _ => (Ending::Stored, left),
                };
                let served = flights.filled(&key, turn, ending);
                let late = self.outcomes.lock()[end..].to_vec();
                self.served(&key, served);
                let outcomes = self.outcomes.lock();
                assert_eq!(outcomes[end..], late, "who came later is handed nothing");
            }
        }
    }

    /// Answers all requests and advances the time until no caller is left.
    fn settle(&mut self) {
        const ROUNDS_MAX: u32 = 100;
        for _ in 0..ROUNDS_MAX {
            while let Some(question) = self.questions.pop() {
                self.resolve(question, 4);
            }
            self.step(Step::Pass {
                time_ns: WAIT_MAX_NS,
            });
        }
    }
}

proptest! {
    #[test]
    fn every_caller_has_one_outcome(steps in prop::collection::vec(step(), 0..200)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            prop_assert!(world.flights.len() <= 2);
        }
        world.settle();
        prop_assert_eq!(world.flights.len(), 0);
        prop_assert!(world.flights.due(u64::MAX).1.is_none());
        prop_assert!(world.outcomes.lock().iter().all(|outcomes| *outcomes == 1));
    }
}

/// Not in the order of a map, which differs from run to run.
#[test]
fn callers_are_told_of_the_end_in_the_order_of_their_requests() {
    let limits = Limits {
        flights_max: 100,
        ..LIMITS
    };
    let flights = Flights::new(limits);
    for number in 0..100 {
        let caller = Caller {
            reply: Reply::Function(Box::new(drop)),
            since_ns: number,
            deadline_ns: WAIT_MAX_NS,
        };
        let joined = flights.join(&Bytes::from(vec![number as u8]), caller);
        assert!(matches!(joined, Joined::Asks(_)));
    }
    let told = flights.close();
    assert!(told.iter().map(|caller| caller.since_ns).eq(0..100));
}
