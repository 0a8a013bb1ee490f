//! The counters add up for random small programs: one worker, one lane each, and a plain list of sent messages.

use std::{sync::Arc, time::Duration};

use crate::common::{AFTER_ACCEPTANCE, LIMIT, Ledger, Token, count_of, system_of};
use freeboard_actor::{
    Actor, ActorRef, Context, Handler, SpawnOptions, Supervision, System, TellError,
};
use freeboard_flow::{LaneConfig, Overload};
use freeboard_meter::LaneSnapshot;
use proptest::{collection::vec, prelude::*};

const ACTORS: usize = 3;

/// An instruction to the handler.
#[derive(Debug, Clone)]
enum Step {
    Nothing,
    /// Tells an actor so many messages that do nothing.
    Tell {
        to: usize,
        count: usize,
    },
    Stop,
    StopWhenDrained,
    Panic,
}

/// One actor of a program.
#[derive(Debug, Clone, Copy)]
struct Plan {
    bound: usize,
    overload: Overload,
    outbox: usize,
    restarts: bool,
}

struct Runner {
    others: Arc<std::sync::OnceLock<Vec<ActorRef<Self>>>>,
    ledger: Ledger,
    came_back: Ledger,
}

struct Order(Step, Token);

impl Actor for Runner {}

impl Handler<Order> for Runner {
    type Reply = ();

    fn handle(&mut self, order: Order, cx: &mut Context<Self>) {
        let others = self.others.get().expect("set before the first message");
        match order.0 {
            Step::Nothing => {}
            Step::Tell { to, count } => {
                for _ in 0..count {
                    let order = Order(Step::Nothing, self.ledger.token());
                    note(&self.came_back, others[to].tell(order));
                }
            }
            Step::Stop => cx.stop(),
            Step::StopWhenDrained => cx.stop_gracefully(),
            Step::Panic => std::panic::resume_unwind(Box::new("on purpose")),
        }
        drop(order.1);
    }
}

/// Counts messages that came back and that no lane counts.
fn note(came_back: &Ledger, outcome: Result<(), TellError<Order>>) {
    if matches!(outcome, Err(TellError::Closed(_))) {
        drop(came_back.token());
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Nothing),
        5 => (0..ACTORS, 1..12_usize).prop_map(|(to, count)| Step::Tell { to, count }),
        1 => Just(Step::Stop),
        1 => Just(Step::StopWhenDrained),
        1 => Just(Step::Panic),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let overload = prop_oneof![
        4 => Just(Overload::Wait),
        1 => Just(Overload::Reject),
        1 => Just(Overload::DropNewest),
        1 => Just(Overload::DropOldest),
    ];
    (1..6_usize, overload, 0..8_usize, any::<bool>()).prop_map(
        |(bound, overload, outbox, restarts)| Plan {
            bound,
            overload,
            outbox,
            restarts,
        },
    )
}

fn spawn(
    system: &System,
    plan: Plan,
    ledger: &Ledger,
    came_back: &Ledger,
    others: &Others,
) -> ActorRef<Runner> {
    let supervision = if plan.restarts {
        Supervision::restart().backoff(Duration::ZERO, Duration::ZERO)
    } else {
        Supervision::stop()
    };
    let options = SpawnOptions::new()
        .lane(LaneConfig::bounded(plan.bound).overload(plan.overload))
        .outbox(plan.outbox)
        .supervision(supervision);
    let (ledger, came_back, others) = (ledger.clone(), came_back.clone(), others.clone());
    let factory = move || Runner {
        others: others.clone(),
        ledger: ledger.clone(),
        came_back: came_back.clone(),
    };
    system.spawn_with(options, factory).expect("valid options")
}

type Others = Arc<std::sync::OnceLock<Vec<ActorRef<Runner>>>>;

fn sum(lanes: &[LaneSnapshot], count: impl Fn(&LaneSnapshot) -> u64) -> u64 {
    lanes.iter().map(count).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_sent_is_handled_shed_or_came_back(
        plans in vec(plan(), ACTORS),
        program in vec((0..ACTORS, step()), 0..30),
    ) {
        let system = system_of(1);
        let (ledger, came_back, others) = (Ledger::default(), Ledger::default(), Others::default());
        let actors = plans.iter().map(|plan| spawn(&system, *plan, &ledger, &came_back, &others));
        let actors: Vec<_> = actors.collect();
        prop_assert!(others.set(actors.clone()).is_ok());
        for (to, step) in program {
            note(&came_back, actors[to].tell(Order(step, ledger.token())));
        }
        let report = system.shutdown(LIMIT);
        // What an older actor told a newer one may find it drained: undelivered, but by no deadline.
        prop_assert_eq!(count_of(&system.dead_letters(), "sender_stopped"), 0);
        prop_assert!(report.unfinished.is_empty());
        ledger.settle(ledger.made());

        let lanes: Vec<_> = actors.iter().flat_map(|it| it.snapshot().lanes).collect();
        let shed = |lane: &LaneSnapshot| lane.shed.iter().map(|it| it.count).sum::<u64>();
        let handled = sum(&lanes, |lane| lane.handled);
        prop_assert_eq!(
            ledger.made(),
            handled + sum(&lanes, shed) + came_back.made(),
            "{:?}, {} came back", &lanes, came_back.made()
        );
        for lane in &lanes {
            let after = AFTER_ACCEPTANCE.iter().filter(|it| **it != "stopped");
            let left = lane.handled + after.map(|it| count_of(&lane.shed, it)).sum::<u64>();
            let stopped = count_of(&lane.shed, "stopped");
            prop_assert!((left..=left + stopped).contains(&lane.accepted), "{lane:?}");
            prop_assert_eq!(lane.depth, 0);
            prop_assert!(lane.high_water <= lane.bound);
        }
        // Full ones come back, or are dropped for it and counted so: both stay out of the dead letters.
        let dead = system.dead_letters();
        for reason in ["stopped", "handler_panicked", "dropped_newest", "dropped_oldest"] {
            let counted = sum(&lanes, |lane| count_of(&lane.shed, reason));
            prop_assert_eq!(count_of(&dead, reason), counted, "{}", reason);
        }
    }
}
