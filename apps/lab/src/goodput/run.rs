//! One run: a system with the service, and its clients under one load, then under half the capacity.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use freeboard::{GroupOptions, SpawnOptions, System};

use super::{
    Record,
    account::Account,
    client::{Asked, Client, Target, schedule},
    service::{Mailbox, Service},
};
use crate::{
    board,
    figures::{count, short, three_figures},
    interrupt::Interrupt,
    memory,
    scene::Run,
    section::Side,
};

const SHUTDOWN_MAX: Duration = Duration::from_secs(5);
/// The load by which the capacity is measured, as a multiple of what the processor time of a request allows.
const CAPACITY_FACTOR: f64 = 3.0;
const CAPACITY_TIME: Duration = Duration::from_millis(300);
const CAPACITY_ROUNDS: u32 = 3;
/// A service that gives less of its capacity as answers in time has collapsed.
const COLLAPSED_BELOW: f64 = 0.5;
/// The load after the overload.
const RECOVERY_FACTOR: f64 = 0.5;

/// What the run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) side: Mailbox,
    pub(super) factor: f64,
    pub(super) cpu: Duration,
    pub(super) deadline: Duration,
    pub(super) bound: usize,
    pub(super) time: Duration,
    pub(super) recovery: Duration,
    pub(super) seed: u64,
}

impl Plan {
    fn title(&self) -> String {
        format!("{}, {} x", self.side.name(), short(self.factor))
    }

    /// The service's queue when it holds what can be answered within half a deadline. The other half is for a service
    /// that is slower than it was when its capacity was measured.
    fn in_time(&self, capacity: f64) -> usize {
        ((capacity * self.deadline.as_secs_f64() / 2.0) as usize).max(1)
    }

    fn parameters(&self, capacity: f64) -> String {
        let requests = |bound: usize| format!("{} requests", count(bound as u64));
        let queue = match self.side {
            Mailbox::Unbounded => "without a bound".to_owned(),
            Mailbox::Bounded => format!("of {}, full: refuse", requests(self.bound)),
            Mailbox::Deadline => {
                format!(
                    "of {}, full: drop the oldest; deadlines",
                    requests(self.in_time(capacity))
                )
            }
            Mailbox::Priority => format!(
                "of two lanes of {}, full: drop the oldest; deadlines",
                requests(self.in_time(capacity))
            ),
            Mailbox::CoDel => format!(
                "of two lanes of {} that shed by age, target {} ms, interval {} ms; deadlines",
                requests(self.bound),
                (self.deadline / 5).as_secs_f64() * 1e3,
                self.deadline.as_millis()
            ),
            Mailbox::Adaptive => {
                "of two lanes behind an adaptive limit of the requests in flight; deadlines"
                    .to_owned()
            }
        };
        format!(
            "{}: a queue {queue}; {} requests/s for {} s, then {} requests/s for {} s; {} us of processor time a \
             request; deadline {} ms; seed {}",
            self.title(),
            three_figures(self.factor * capacity),
            self.time.as_secs_f64(),
            three_figures(RECOVERY_FACTOR * capacity),
            self.recovery.as_secs_f64(),
            self.cpu.as_micros(),
            self.deadline.as_millis(),
            self.seed
        )
    }
}

/// The most of some measurements: other programs can only take from it.
///
/// # Errors
/// The system does not start.
pub(super) fn capacity(plan: &Plan, interrupt: &Interrupt) -> Result<f64> {
    let mut most = 0.0_f64;
    for _ in 0..CAPACITY_ROUNDS {
        most = most.max(answers_per_second(plan, interrupt)?);
    }
    Ok(most)
}

/// Answers a second when more is asked for than the service can answer.
fn answers_per_second(plan: &Plan, interrupt: &Interrupt) -> Result<f64> {
    let rate = CAPACITY_FACTOR / plan.cpu.as_secs_f64();
    let mut asked = schedule(plan.seed, &[(rate, CAPACITY_TIME)]);
    let plan = Plan {
        side: Mailbox::Bounded,
        bound: 64,
        ..plan.clone()
    };
    let (sent, handled) = perform(&plan, 1, &mut asked, interrupt)?;
    // Clients that are late send on after the last request was due; all of it is measured.
    let seconds = asked[..sent].iter().map(|it| it.ended).max();
    let seconds = seconds.unwrap_or_default().as_secs_f64().max(1e-3);
    let answers: u64 = handled.iter().map(|it| u64::from(*it)).sum();
    Ok((answers as f64 / seconds).max(1.0))
}

/// Sends these requests to a service of its own. Returns how many were sent, and how often each was handled.
fn perform(
    plan: &Plan,
    in_time: usize,
    asked: &mut [Asked],
    interrupt: &Interrupt,
) -> Result<(usize, Vec<u8>)> {
    let handled: Arc<[AtomicU8]> = asked.iter().map(|_| AtomicU8::new(0)).collect();
    let system = System::builder().name("goodput").workers(1).build()?;
    board::watch(&system);
    let lanes = plan.side.lanes(plan.bound, in_time, plan.deadline);
    let service = Service {
        handled: handled.clone(),
        cpu: plan.cpu,
    };
    let options = SpawnOptions::new().name("service").lanes(lanes);
    let target = match plan.side.limit() {
        None => Target::Actor(system.spawn_once(options, service)?),
        Some(limit) => {
            let options = GroupOptions::new(1).member(options).adaptive(limit);
            Target::Group(system.spawn_group(options, move |_| service.clone())?)
        }
    };
    let sent = Client::new(asked).run(&target, plan.side, plan.deadline, interrupt);
    let report = system.shutdown(SHUTDOWN_MAX);
    if !report.is_clean() {
        bail!("the service did not end in time: {report:?}");
    }
    // Ordering: Relaxed, the system has ended.
    let handled = handled.iter().map(|it| it.load(Ordering::Relaxed));
    Ok((sent, handled.collect()))
}

/// Runs one plan at this capacity.
pub(super) fn run(plan: &Plan, capacity: f64, interrupt: &Interrupt) -> Result<Run<Record>> {
    let phases = [
        (plan.factor * capacity, plan.time),
        (RECOVERY_FACTOR * capacity, plan.recovery),
    ];
    memory::reset_peak();
    let mut asked = schedule(plan.seed, &phases);
    let in_time = plan.in_time(capacity);
    let (sent, handled) =
        perform(plan, in_time, &mut asked, interrupt).context("cannot run the service")?;
    let account = Account::new(&asked[..sent], &handled, plan.deadline);
    let lost = account.counts(&(Duration::ZERO..Duration::MAX)).lost;
    let measured = plan.time / 5..plan.time * 4 / 5;
    let record = Record::new(plan, capacity, &account, &measured);
    let is_overload = plan.factor > 1.0;
    let has_collapsed = record.goodput_per_s < COLLAPSED_BELOW * capacity;
    Ok(Run {
        title: plan.title(),
        side: match (plan.side.has_deadlines(), has_collapsed) {
            (true, false) if is_overload => Side::Cure,
            (false, true) if is_overload => Side::Failure,
            _ => Side::Neither,
        },
        record,
        parameters: plan.parameters(capacity),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: (lost > 0).then(|| format!("{} requests were lost", count(lost))),
    })
}
