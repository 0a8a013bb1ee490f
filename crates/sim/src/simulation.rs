//! Runs a test in a world, and makes a failing run smaller.

use std::{
    any::Any,
    cell::Cell,
    env, fmt,
    fmt::Write as _,
    ops::Range,
    panic::{self, AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Once,
    time::Duration,
};

use freeboard_actor::{
    System,
    testing::{self, TestSystem},
};

use crate::{
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
    /// A line for each actor, if the run stopped at a step: see [`Simulation::until`].
    pub actors: Vec<String>,
    sizes: Vec<(String, Size)>,
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

    /// Stops the run behind this step. The report then has the actors.
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
        let run = Rc::new(Run::new(self.reduction, self.has_trace, until));
        let _current = Current::enter(run.clone());
        let _quiet = Quiet::enter();
        let choose = self.policy.choose(seed);
        let system = TestSystem::build_with(seed, choose, System::builder());
        let system = system.expect("the default settings are valid");
        let executor = system.executor().clone();
        let mut world = World::new(system, seed, run.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            watch_steps(&world);
            test(&mut world);
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
            actors: Vec::new(),
            sizes: run.sizes.take().into_iter().collect(),
        };
        let Err(panic) = outcome else {
            return Ok(report);
        };
        report.actors = world.actors();
        let mut message = panic_text(&*panic);
        if !message.contains("last steps") {
            message = format!("{message}\n{}", world.report());
        }
        world.nodes.kill_all();
        // Its destructors would run what has failed.
        catch_unwind(AssertUnwindSafe(|| drop(world))).ok();
        if run.has_stopped.get() {
            return Ok(report);
        }
        Err(Box::new(Failure {
            seed,
            reduction: run.reduction.clone(),
            message,
            report,
        }))
    }

    /// Makes a failing run smaller: leaves out faults, and reduces sizes, as long as it still fails. Tries up to 200 runs.
    pub fn minimise(&self, failure: Failure, test: impl Fn(&mut World)) -> Failure {
        let mut best = failure;
        let mut tries = 0;
        let mut still_fails = |reduction: &Reduction| {
            tries += 1;
            if tries > TRIES_MAX {
                return None;
            }
            let run = self.clone().reduced(reduction.clone());
            run.try_run(&test).err().map(|failure| *failure)
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

/// Traces each step, checks what must hold behind it, and stops the run where it shall.
fn watch_steps(world: &World) {
    world.executor().on_step(|step| {
        let Some(run) = run::current() else { return };
        let checked = run.after_step(step);
        if let Err(text) = checked {
            testing::fail(&text);
        }
        if run.until.is_some_and(|until| step.step >= until) {
            run.has_stopped.set(true);
            testing::fail("the run stopped where it should");
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
    let name = thread.name().unwrap_or("<test>");
    format!(
        "{RUN_VARIABLE}='seed={seed}{space}{left_out}' cargo test{package} {name} -- --exact --nocapture"
    )
}

#[expect(clippy::print_stderr, reason = "the user asked for it by a variable")]
#[track_caller]
fn repeat(one: OneRun, test: impl Fn(&mut World)) {
    let until = one.simulation.until;
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
    if until.is_some() {
        eprintln!("after {} steps, at {:?}:", report.steps, report.time);
        for line in &report.actors {
            eprintln!("  {line}");
        }
    }
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// While it exists, panics on this thread are not printed: the run reports them.
struct Quiet(bool);

impl Quiet {
    fn enter() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let others = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                    others(info);
                }
            }));
        });
        Self(IS_QUIET.replace(true))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}
