//! The run: from the first process spawned to the last one ended.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use freeboard::{
    Fault, System,
    meter::{WorkerSnapshot, clock},
};

use super::{
    Elapsed, Record, daytime, lines,
    nest::{Hatch, Nest},
    outcome::{Ending, Outcome},
    plan::{FaultKind, NativeKind, Place, Plan, YieldKind},
    plots, record,
    tally::{Event, Tally},
    watch::{Subject, Watch},
};
use crate::{
    board,
    console::Console,
    figures::{count, seconds},
    interrupt::Interrupt,
    processor,
    scene::Run,
    section::Side,
};

/// A run in which not one native call returned for so long has lost what would have gone on.
const STALL_MAX: Duration = Duration::from_secs(60);
const SAMPLES: &str = "Samples are printed when they change: {H,M,S} {class,longest/median} {queue of each worker}; \
                       times UTC.";
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// Runs the plan.
pub(crate) fn run(plan: &Plan, console: &Console, interrupt: &Interrupt) -> Result<Run<Record>> {
    let (events, inbox) = mpsc::channel();
    let told = events.clone();
    let _listening = interrupt.listen(move || {
        let _ = told.send(Event::Interrupted);
    });
    let system = build_system(plan, &events)?;
    console.line(SAMPLES);
    console.line(&format!("{} start: {}", daytime::now(), plan.parameters()));
    console.line(&format!(
        "{} a sample each {} ms, calls counted over {}",
        daytime::now(),
        plan.sample_every.as_millis(),
        seconds(plan.interval.as_secs_f64())
    ));
    let before = iterate(plan, &system, &events, &inbox, console)?;
    let tally = Arc::new(Tally::new(plan, events));
    if before == Ending::Interrupted {
        tally.stop();
    }
    if let Some(online) = plan.online.filter(|_| plan.iterations > 0) {
        system.set_workers_online(online)?;
        console.line(&format!(
            "{} workers online {} -> {online}",
            daytime::now(),
            plan.schedulers
        ));
    }
    let rows: Vec<String> = (0..plan.schedulers)
        .map(|worker| format!("worker {worker:>2}"))
        .collect();
    console.start_bars("repetitions", plan.repetitions(), &rows);
    let subject = Subject {
        system: system.clone(),
        tally: tally.clone(),
    };
    let watch = Watch::start(subject, plan, console.clone())?;

    hatch(plan, &system, &tally)?;
    let mut conductor = Conductor {
        plan,
        tally: &tally,
        system: &system,
        console,
        ending: before,
        cut_at_ns: None,
    };
    let conducted = conductor.conduct(&inbox);
    let (ended_ns, ending, mut cut_at_ns) =
        (clock::now_ns(), conductor.ending, conductor.cut_at_ns);
    let workers = system.workers_snapshot();
    let seen = watch.stop();
    console.end_bars();
    conducted?;
    let seen = seen?;
    console.line(&format!("{} end", daytime::now()));

    let release = tally.released().context("nobody was released")?;
    if plan.iterations > 0 && plan.online.is_some() {
        cut_at_ns = Some(release.at_ns);
    }
    let between = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    // Of workers beyond the cores nothing more can be asked.
    let cores = processor::cores();
    let change_ns = cut_at_ns.unwrap_or(ended_ns);
    let online_after = plan.online.unwrap_or(plan.schedulers);
    let outcome = Outcome {
        plan: plan.clone(),
        ending,
        elapsed: tally.elapsed(),
        makespan: between(release.at_ns, ended_ns),
        processor_seconds: processor::seconds_since(release.processor_time),
        capacity: between(release.at_ns, change_ns) * plan.schedulers.min(cores) as f64
            + between(change_ns, ended_ns) * online_after.min(cores) as f64,
        calls: tally.calls(),
        calls_by_worker: tally.calls_by_worker(),
        native_times: tally.native_times(),
        workers: since(workers, &release.workers),
        scheduler: system.scheduler_snapshot(),
        seen,
    };
    let report = system.shutdown(SHUTDOWN_MAX);
    if !report.is_clean() {
        bail!("not everybody ended in time: {report:?}");
    }
    for line in lines::result(&outcome) {
        console.line(&line);
    }
    Ok(finish(&outcome))
}

/// Bears and releases the processes.
fn hatch(plan: &Plan, system: &System, tally: &Arc<Tally>) -> Result<()> {
    let nest = Nest::new(plan, tally);
    match plan.place {
        Place::Spread => nest.hatch(system),
        Place::One => system.spawn(nest).tell(Hatch)?,
    }
    Ok(())
}

/// The runs before the one that is measured, each with its pause.
fn iterate(
    plan: &Plan,
    system: &System,
    events: &mpsc::Sender<Event>,
    inbox: &mpsc::Receiver<Event>,
    console: &Console,
) -> Result<Ending> {
    let quiet = console.quiet();
    for iteration in 1..=plan.iterations {
        let tally = Arc::new(Tally::new(plan, events.clone()));
        hatch(plan, system, &tally)?;
        let mut conductor = Conductor {
            plan,
            tally: &tally,
            system,
            console: &quiet,
            ending: Ending::Done,
            cut_at_ns: None,
        };
        conductor.conduct(inbox)?;
        let elapsed = Elapsed::of(&tally.elapsed()).map_or(0.0, |it| it.max);
        console.line(&format!(
            "{} run {iteration} of {} before: {}",
            daytime::now(),
            plan.iterations,
            seconds(elapsed)
        ));
        if conductor.ending == Ending::Interrupted {
            return Ok(Ending::Interrupted);
        }
        match inbox.recv_timeout(plan.pause) {
            Ok(Event::Interrupted) => return Ok(Ending::Interrupted),
            Ok(Event::Panicked(text)) => bail!("an actor panicked: {text}"),
            Ok(event) => bail!("{event:?} after the end of a run"),
            Err(_) => {}
        }
    }
    Ok(Ending::Done)
}

/// A run beyond it is unfair. Without turns, the last of n processes takes n times as long as the first.
const MAX_OVER_MIN_FAIR: f64 = 2.0;

fn finish(outcome: &Outcome) -> Run<Record> {
    let plan = &outcome.plan;
    let side = side(outcome);
    let has_failed = outcome.ending == Ending::Done && !outcome.is_whole();
    Run {
        title: plan.title(),
        side,
        record: record::record(outcome),
        parameters: plan.parameters(),
        figures: plots::figures(outcome, side),
        tables: vec![plots::workers(outcome)],
        failure: has_failed.then(|| {
            let (calls, all) = (outcome.calls, plan.repetitions());
            format!("{calls} of {all} repetitions were done")
        }),
    }
}

/// Whether the run shows a failure or a cure.
fn side(outcome: &Outcome) -> Side {
    let plan = &outcome.plan;
    let is_fair = || {
        let elapsed = Elapsed::of(&outcome.elapsed);
        elapsed.is_some_and(|it| it.max_over_min() <= MAX_OVER_MIN_FAIR)
    };
    if outcome.scheduler.collapses > 0 || (plan.yields == YieldKind::Never && !is_fair()) {
        return Side::Failure;
    }
    let is_cure = match plan.native {
        NativeKind::Cpu => plan.is_plain() && is_fair(),
        NativeKind::Sleep => outcome.scheduler.rescues > 0 && outcome.makespan < outcome.waited(),
    };
    if is_cure { Side::Cure } else { Side::Neither }
}

fn build_system(plan: &Plan, events: &mpsc::Sender<Event>) -> Result<System> {
    let failed = events.clone();
    let mut builder = System::builder()
        .name("balance")
        .workers(plan.schedulers)
        .on_failure(move |failure| {
            // Nobody listens any more once the run is over.
            let _ = failed.send(Event::Panicked(failure.to_string()));
        });
    if let Some(fault) = plan.fault {
        builder = builder.fault(match fault {
            FaultKind::DropWakes => Fault::DropWakes,
        });
    }
    let system = builder.build().context("cannot start the actor system")?;
    board::watch(&system);
    Ok(system)
}

/// What was added to the workers' times and counts since `earlier`.
fn since(mut workers: Vec<WorkerSnapshot>, earlier: &[WorkerSnapshot]) -> Vec<WorkerSnapshot> {
    for (worker, earlier) in workers.iter_mut().zip(earlier) {
        worker.times = worker.times.since(&earlier.times);
        worker.runs -= earlier.runs;
        worker.steals -= earlier.steals;
        worker.wakes -= earlier.wakes;
        worker.parks -= earlier.parks;
        worker.budget_expiries -= earlier.budget_expiries;
    }
    workers
}

/// Leads the run to its end.
struct Conductor<'a> {
    plan: &'a Plan,
    tally: &'a Tally,
    system: &'a System,
    console: &'a Console,
    ending: Ending,
    /// When workers were taken off-line.
    cut_at_ns: Option<u64>,
}

impl Conductor<'_> {
    /// Until every process has ended.
    fn conduct(&mut self, inbox: &mpsc::Receiver<Event>) -> Result<()> {
        let mut moved = (self.tally.calls(), Instant::now());
        loop {
            match inbox.recv_timeout(STALL_MAX) {
                Ok(Event::AllEnded) => return Ok(()),
                Ok(Event::Born) => {
                    self.say(&format!(
                        "{} processes are born",
                        count(u64::from(self.plan.procs))
                    ));
                }
                Ok(Event::Released) => self.say("they are released"),
                Ok(Event::Half) => self.cut()?,
                Ok(Event::Interrupted) => self.interrupt(),
                Ok(Event::Panicked(text)) => bail!("an actor panicked: {text}"),
                Err(_) => {}
            }
            let calls = self.tally.calls();
            if calls != moved.0 {
                moved = (calls, Instant::now());
            } else if moved.1.elapsed() >= STALL_MAX {
                bail!(
                    "no native call returned for {} s; {calls} of {} did before",
                    STALL_MAX.as_secs(),
                    self.plan.repetitions()
                );
            }
        }
    }

    fn say(&self, text: &str) {
        self.console.line(&format!("{} {text}", daytime::now()));
    }

    fn cut(&mut self) -> Result<()> {
        let Some(online) = self.plan.online.filter(|_| self.plan.iterations == 0) else {
            return Ok(());
        };
        self.system.set_workers_online(online)?;
        self.cut_at_ns = Some(clock::now_ns());
        self.console.line(&format!(
            "{} half is done: workers online {} -> {online}",
            daytime::now(),
            self.plan.schedulers
        ));
        Ok(())
    }

    fn interrupt(&mut self) {
        self.console
            .line("Ctrl-C: each process ends before its next native call (again: exit at once)");
        self.tally.stop();
        self.ending = Ending::Interrupted;
    }
}
