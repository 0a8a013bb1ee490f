//! Runs a test in a world, and makes a failing run smaller.

use std::{
    env, fmt,
    fmt::Write as _,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use freeboard_actor::{
    System,
    testing::{self, TestSystem},
};

use freeboard_sched::manual::STOPPED;

use crate::{
    panics::{self, Quiet},
    policy::Policy,
    reduction::Reduction,
    run::{self, Current, Run, Size},
    world::World,
};

/// The environment variable with the only run that [`each_seed`] shall do: `seed=7 without=1,4 clients=2`. It may also
/// have `until=STEP`, `follow=TEXT` and `trace=FILE`.
pub const RUN_VARIABLE: &str = "FREEBOARD_SIM";

/// Runs that the minimiser tries at most.
const TRIES_MAX: usize = 200;

/// A run of one seed.
///
/// ```
/// use freeboard_sim::{FaultRates, Simulation};
/// use std::time::Duration;
///
/// let report = Simulation::seed(7).run(|world| {
///     let node = world.node("server", |machine| machine.starts);
///     assert_eq!(node.state(), Some(0));
///     node.kill();
///     node.start();
///     world.advance(Duration::from_secs(1));
///     assert_eq!(node.state(), Some(1));
/// });
/// assert_eq!(report.time, Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Simulation {
    seed: u64,
    policy: Policy,
    reduction: Reduction,
    until: Option<u64>,
    has_trace: bool,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its steps.
    pub steps: u64,
    /// Its virtual time.
    pub time: Duration,
    /// Of all lines of its trace.
    pub checksum: u64,
    /// The lines, if they were wanted.
    pub trace: Option<String>,
    /// The planned faults, by their numbers.
    pub faults: Vec<String>,
    /// Whether the run stopped at the step of [`Simulation::until`]. A test that fails there is a failure.
    pub has_stopped: bool,
    /// A line for each actor, behind the step of [`Simulation::until`] or at the failure.
    pub actors: Vec<String>,
    sizes: Vec<(String, Size)>,
}

impl Report {
    /// The step at which the run stopped, and each actor with its mailbox.
    #[must_use]
    pub fn actors_text(&self) -> String {
        let actors = self.actors.iter().map(|line| format!("\n  {line}"));
        let actors: String = actors.collect();
        format!("after {} steps, at {:?}:{actors}", self.steps, self.time)
    }

    /// The faults and sizes of a reduction that the run does not have; `None` if it has all, or stopped early.
    #[must_use]
    pub fn without_effect(&self, reduction: &Reduction) -> Option<String> {
        let has_size = |name: &String| self.sizes.iter().any(|(known, _)| known == name);
        let faults = reduction.without.iter();
        let faults = faults.filter(|number| **number >= self.faults.len());
        let faults = faults.map(|number| format!("no fault {number}"));
        let sizes = reduction.sizes.keys().filter(|name| !has_size(name));
        let sizes = sizes.map(|name| format!("no size `{name}`"));
        let all: Vec<_> = faults.chain(sizes).collect();
        (!all.is_empty() && !self.has_stopped).then(|| format!("the run has {}", all.join(", ")))
    }
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What the run left out.
    pub reduction: Reduction,
    /// Why it failed.
    pub message: String,
    /// Until it failed.
    pub report: Report,
    /// Where it panicked; `None` for a failure that the simulator found.
    location: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.message)?;
        let planned = self.report.faults.iter().enumerate();
        let planned: Vec<_> = planned
            .filter(|(number, _)| !self.reduction.without.contains(number))
            .collect();
        if !planned.is_empty() {
            write!(formatter, "\nfaults:")?;
        }
        for (number, fault) in planned {
            write!(formatter, "\n  {number:>3}  {fault}")?;
        }
        for (name, size) in &self.report.sizes {
            write!(formatter, "\n  {name} = {}", size.value)?;
        }
        Ok(())
    }
}

impl Failure {
    /// Two runs with the same kind have the same failure: they panicked at the same place, or violated the same invariant.
    fn kind(&self) -> String {
        let first = || self.message.lines().next().unwrap_or_default();
        let without_numbers = || first().replace(|it: char| it.is_ascii_digit(), "");
        self.location.clone().unwrap_or_else(without_numbers)
    }
}

impl Simulation {
    /// The run of this seed.
    pub fn seed(seed: u64) -> Self {
        Self {
            seed,
            policy: Policy::default(),
            reduction: Reduction::default(),
            until: None,
            has_trace: false,
        }
    }

    /// How the next step is chosen; default [`Policy::BySeed`].
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Leaves faults out, and makes sizes smaller.
    pub fn reduced(self, reduction: Reduction) -> Self {
        Self { reduction, ..self }
    }

    /// Stops the run where the step behind this one would begin. The report then has the actors.
    pub fn until(self, step: u64) -> Self {
        let until = Some(step);
        Self { until, ..self }
    }

    /// Keeps the lines of the trace.
    pub fn with_trace(self) -> Self {
        Self {
            has_trace: true,
            ..self
        }
    }

    /// Runs `test`. At its end all nodes drop their state and shut down.
    ///
    /// # Panics
    /// If the test panics, an invariant does not hold, or a node does not shut down cleanly.
    #[track_caller]
    pub fn run(self, test: impl FnOnce(&mut World)) -> Report {
        match self.try_run(test) {
            Ok(report) => report,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// As [`Simulation::run`], with the failure as a value.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn try_run(self, test: impl FnOnce(&mut World)) -> Result<Report, Box<Failure>> {
        let Self { seed, until, .. } = self;
        assert!(run::current().is_none(), "a world runs in no other world");
        let run = Rc::new(Run::new(self.reduction, self.has_trace));
        let _current = Current::enter(run.clone());
        let _quiet = Quiet::enter();
        let choose = self.policy.choose(seed);
        let system = TestSystem::build_with(seed, choose, System::builder());
        let system = system.expect("the default settings are valid");
        let executor = system.executor().clone();
        executor.stop_behind(until.unwrap_or(u64::MAX));
        let mut world = World::new(system, seed, run.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            watch_steps(&world);
            test(&mut world);
            run.is_ending.set(true);
            if let Err(error) = world.nodes.stop() {
                testing::fail(&error.to_string());
            }
        }));
        let mut report = Report {
            steps: executor.steps(),
            time: world.now(),
            checksum: run.trace.checksum(),
            trace: run.trace.take_text(),
            faults: run.faults.take(),
            has_stopped: false,
            actors: Vec::new(),
            sizes: run.sizes.take().into_iter().collect(),
        };
        // A failure of the executor may have been caught.
        let failed = outcome.err().map(|it| panics::panic_text(&*it));
        let Some(mut message) = executor.failure().or(failed) else {
            world.nodes.erase_disks();
            return Ok(report);
        };
        report.actors = world.actors();
        let has_stopped = message == STOPPED;
        // Invariants and the end of a run fail here.
        let location = panics::location(&message).filter(|it| !it.starts_with(file!()));
        if let Some(location) = &location {
            message = format!("{location}: {message}");
        }
        if !message.contains("last steps") {
            message = format!("{message}\n{}", world.report().trim_start());
        }
        world.nodes.kill_all();
        world.nodes.erase_disks();
        // Its destructors would run what has failed.
        catch_unwind(AssertUnwindSafe(|| drop(world))).ok();
        if has_stopped {
            report.has_stopped = true;
            return Ok(report);
        }
        Err(Box::new(Failure {
            seed,
            reduction: run.reduction.clone(),
            message,
            report,
            location,
        }))
    }

    /// Makes a failing run smaller: leaves out faults, and reduces sizes, as long as the same failure comes. Tries up to 200
    /// runs.
    pub fn minimise(&self, failure: Failure, test: impl Fn(&mut World)) -> Failure {
        let mut best = failure;
        let kind = best.kind();
        let mut tries = 0;
        let mut still_fails = |reduction: &Reduction| {
            tries += 1;
            if tries > TRIES_MAX {
                return None;
            }
            let run = self.clone().reduced(reduction.clone());
            let failure = run.try_run(&test).err().map(|failure| *failure);
            failure.filter(|failure| failure.kind() == kind)
        };
        loop {
            let before = best.reduction.clone();
            for (name, size) in best.report.sizes.clone() {
                // The least one, and then upwards.
                let halves = std::iter::successors(Some(size.value), |size| Some(size / 2));
                let halves: Vec<_> = halves.take_while(|it| *it > size.least).collect();
                let smaller = std::iter::once(size.least).chain(halves.into_iter().rev());
                for value in smaller.take_while(|it| *it < size.value) {
                    let mut reduction = best.reduction.clone();
                    reduction.sizes.insert(name.clone(), value);
                    if let Some(smaller) = still_fails(&reduction) {
                        best = smaller;
                        break;
                    }
                }
            }
            let mut part = best.report.faults.len();
            while part > 0 {
                let all = 0..best.report.faults.len();
                let left: Vec<_> = all
                    .filter(|it| !best.reduction.without.contains(it))
                    .collect();
                for numbers in left.chunks(part) {
                    let mut reduction = best.reduction.clone();
                    reduction.without.extend(numbers);
                    if let Some(smaller) = still_fails(&reduction) {
                        best = smaller;
                    }
                }
                part /= 2;
            }
            if best.reduction == before {
                return best;
            }
        }
    }
}

/// Traces each step, and checks what must hold behind it.
fn watch_steps(world: &World) {
    world.executor().on_step(|step| {
        // The destructors of a test that has failed may wait. A second panic would end the process.
        if std::thread::panicking() {
            return;
        }
        let Some(run) = run::current() else { return };
        let checked = run.after_step(step);
        if let Err(text) = checked {
            testing::fail(&text);
        }
    });
}

/// A run as [`RUN_VARIABLE`] describes it.
struct OneRun {
    simulation: Simulation,
    follow: Option<String>,
    trace: Option<String>,
}

impl OneRun {
    fn parse(text: &str) -> Result<Self, String> {
        let (mut simulation, mut follow, mut trace) = (None, None, None);
        let (mut until, mut others) = (None, String::new());
        for word in text.split_whitespace() {
            let number = |text: &str| {
                text.parse::<u64>()
                    .map_err(|_| format!("`{word}`: no number"))
            };
            match word.split_once('=') {
                Some(("seed", seed)) => simulation = Some(Simulation::seed(number(seed)?)),
                Some(("until", step)) => until = Some(number(step)?),
                Some(("follow", text)) => follow = Some(text.to_owned()),
                Some(("trace", file)) => trace = Some(file.to_owned()),
                _ => _ = write!(others, " {word}"),
            }
        }
        let mut simulation = simulation.ok_or("`seed=NUMBER` is missing")?;
        simulation.reduction = others.parse().map_err(|error| format!("{error}"))?;
        simulation.until = until;
        simulation.has_trace = trace.is_some() || follow.is_some();
        Ok(Self {
            simulation,
            follow,
            trace,
        })
    }
}

/// Runs `test` in a world for each seed, or only the run that the environment variable [`RUN_VARIABLE`] names.
///
/// The first run that fails is made smaller ([`Simulation::minimise`]). The message of the panic names the command that
/// repeats it.
///
/// ```
/// freeboard_sim::each_seed(0..20, |world| {
///     assert_eq!(world.actors_alive(), 0);
/// });
/// ```
///
/// # Panics
/// If a run fails, or the variable cannot be read.
#[track_caller]
pub fn each_seed(seeds: Range<u64>, test: impl Fn(&mut World)) {
    if let Ok(text) = env::var(RUN_VARIABLE) {
        let one = OneRun::parse(&text);
        return repeat(
            one.unwrap_or_else(|error| panic!("{RUN_VARIABLE}: {error}")),
            test,
        );
    }
    for seed in seeds {
        let simulation = Simulation::seed(seed);
        let Err(failure) = simulation.clone().try_run(&test) else {
            continue;
        };
        let small = simulation.minimise(*failure, &test);
        panic!(
            "{small}\nto repeat this run:\n  {}\nadd until={} to the variable to see the mailboxes at a step, and trace=FILE for all steps",
            command(&small),
            small.report.steps
        );
    }
}

/// Repeats a run of the present test.
fn command(failure: &Failure) -> String {
    let Failure {
        seed, reduction, ..
    } = failure;
    let left_out = reduction.to_string();
    let space = if left_out.is_empty() { "" } else { " " };
    // Cargo tells the test its package.
    let package =
        env::var("CARGO_PKG_NAME").map_or_else(|_| String::new(), |it| format!(" -p {it}"));
    let thread = std::thread::current();
    // With one test thread, tests run on the main thread.
    let name = thread.name().filter(|it| *it != "main").unwrap_or("TEST");
    format!(
        "{RUN_VARIABLE}='seed={seed}{space}{left_out}' cargo test{package} {name} -- --exact --nocapture"
    )
}

#[expect(clippy::print_stderr, reason = "the user asked for it by a variable")]
#[track_caller]
fn repeat(one: OneRun, test: impl Fn(&mut World)) {
    let reduction = one.simulation.reduction.clone();
    let outcome = one.simulation.try_run(test);
    let report = match &outcome {
        Ok(report) => report,
        Err(failure) => &failure.report,
    };
    let text = report.trace.as_deref().unwrap_or_default();
    if let Some(file) = &one.trace {
        let written = std::fs::write(file, text);
        written.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    if let Some(follow) = &one.follow {
        for line in text.lines().filter(|line| line.contains(follow)) {
            eprintln!("{line}");
        }
    }
    if report.has_stopped {
        eprintln!("{}", report.actors_text());
    }
    if let Some(text) = report.without_effect(&reduction) {
        eprintln!("{RUN_VARIABLE}: {text}");
    }
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
