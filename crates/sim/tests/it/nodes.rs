//! Nodes: crashes, pauses, clocks, and equal traces.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use freeboard_actor::{Actor, ActorRef, AsyncHandler, Context, Handler, Recipient};
use freeboard_net::{
    datagram::{DatagramOptions, DatagramSocket, Received, SendTo},
    poller::Poller,
    tcp::{Peer, ReadCredit},
};
use freeboard_platform::{clock, thread};
use freeboard_sim::{FaultRates, Machine, Reduction, Report, Simulation, World, each_seed};
use freeboard_stream::storage::{Access, Storage};

const SECOND: Duration = Duration::from_secs(1);
const PORT: u16 = 7;

/// Writes the number of its start into a file.
fn count_starts(machine: &Machine) -> io::Result<u64> {
    let file = match machine.disk.open("starts", Access::Cached) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            machine.disk.create("starts", 0, Access::Cached)?
        }
        opened => opened?,
    };
    let mut found = [0; 1];
    file.read_at(&mut found, 0)?;
    file.write_at(&[&[found[0] + 1]], 0)?;
    Ok(found[0].into())
}

#[test]
fn a_kill_keeps_files_and_a_power_loss_keeps_what_was_synced() {
    let mut lost = 0;
    for seed in 0..40 {
        Simulation::seed(seed).run(|world| {
            let node = world.node("server", |it| count_starts(it).map_err(|it| it.kind()));
            node.kill();
            assert_eq!(node.state(), None);
            node.start();
            world.run_until(|| node.state().is_some());
            assert_eq!(node.state(), Some(Ok(1)));
            node.lose_power();
            node.start();
            world.run_until(|| node.state().is_some());
            lost += u32::from(node.state() == Some(Ok(0)));
        });
    }
    assert!(
        (1..40).contains(&lost),
        "{lost} of 40 power losses lost the file"
    );
}

/// Sends a datagram each second.
struct Client {
    socket: Recipient<SendTo>,
    to: std::net::SocketAddr,
}

#[derive(Clone)]
struct Tick;

impl Actor for Client {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.every(SECOND, Tick).expect("a timer");
    }
}

impl Handler<Tick> for Client {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<Self>) {
        let (to, bytes) = (self.to, "question".into());
        self.socket.tell_or_log(SendTo { to, bytes });
    }
}

struct Counter(Arc<AtomicU64>);

impl Actor for Counter {}

impl Handler<Received> for Counter {
    type Reply = ();

    fn handle(&mut self, received: Received, _: &mut Context<Self>) {
        let _ = received.socket.tell(ReadCredit(1));
        let answers = received.datagrams.len() as u64;
        self.0.fetch_add(answers, Ordering::Relaxed);
    }
}

struct Echo(Option<DatagramSocket>);

struct Opened(DatagramSocket);

impl Actor for Echo {}

impl Handler<Opened> for Echo {
    type Reply = ();

    fn handle(&mut self, Opened(socket): Opened, _: &mut Context<Self>) {
        self.0 = Some(socket);
    }
}

impl Handler<Received> for Echo {
    type Reply = ();

    fn handle(&mut self, received: Received, _: &mut Context<Self>) {
        let _ = received.socket.tell(ReadCredit(1));
        if let Some(socket) = &self.0 {
            for datagram in received.datagrams {
                if let Peer::Ip(to) = datagram.from {
                    let bytes = datagram.bytes;
                    let _ = socket.actor().tell(SendTo { to, bytes });
                }
            }
        }
    }
}

fn bind(machine: &Machine, port: u16, owner: Recipient<Received>) -> DatagramSocket {
    let (poller, options): (&Poller, _) = (&machine.poller, DatagramOptions::default());
    let bound = DatagramSocket::bind_udp(
        &machine.system,
        poller,
        machine.host.at(port),
        options,
        owner,
    );
    bound.expect("a free port")
}

/// A client asks a server once a second. Returns the answers.
fn ask_for_a_minute(world: &World, rates: FaultRates) -> u64 {
    let server = world.node("server", |machine| {
        let echo = machine.system.spawn(Echo(None));
        let socket = bind(machine, PORT, echo.recipient());
        echo.tell(Opened(socket)).expect("an empty mailbox");
    });
    let answers = Arc::new(AtomicU64::new(0));
    let (to, counter) = (server.at(PORT), answers.clone());
    let client = world.node("client", move |machine| {
        let answers = counter.clone();
        let counter = machine.system.spawn(Counter(answers));
        let socket = bind(machine, 0, counter.recipient());
        let sends = socket.actor().recipient();
        machine.system.spawn(Client { socket: sends, to });
        Arc::new(socket)
    });
    world.inject(rates, SECOND * 60);
    world.advance(SECOND * 60);
    world.end_faults();
    drop(client);
    answers.load(Ordering::Relaxed)
}

const RATES: FaultRates = FaultRates {
    kills: 2.0,
    power_losses: 1.0,
    pauses: 2.0,
    skews: 1.0,
    partitions: 1.0,
    resets: 1.0,
    silences: 1.0,
    slow_links: 1.0,
    disk_errors: 1.0,
    full_disks: 1.0,
    slow_disks: 1.0,
    panics: 0.5,
    slow_actors: 1.0,
    late_wakeups: 1.0,
};

#[test]
fn faults_cost_answers_and_none_costs_none() {
    let mut answers = Vec::new();
    Simulation::seed(1).run(|world| answers.push(ask_for_a_minute(world, FaultRates::default())));
    // The last answer may be under way.
    assert!((59..=60).contains(&answers[0]), "{answers:?}");
    for seed in 0..50 {
        Simulation::seed(seed).run(|world| answers.push(ask_for_a_minute(world, RATES)));
    }
    let worst = answers.iter().min().copied();
    assert!((1..55).contains(&worst.unwrap_or_default()), "{answers:?}");
}

#[test]
fn two_runs_of_one_seed_have_the_same_bytes() {
    for seed in 0..1_000 {
        let run = || -> Report {
            let simulation = Simulation::seed(seed).with_trace();
            simulation.run(|world| _ = ask_for_a_minute(world, RATES))
        };
        let (first, again) = (run(), run());
        assert!(first == again, "seed {seed}");
        assert!(first.trace.is_some_and(|text| text.contains("server")));
    }
}

#[test]
fn a_paused_node_does_nothing_and_goes_on() {
    Simulation::seed(3).run(|world| {
        let ticks = Arc::new(AtomicU64::new(0));
        let counted = ticks.clone();
        let node = world.node("clock", move |_| {
            let ticks = counted.clone();
            thread::Builder::new()
                .name("ticker".to_owned())
                .spawn(move || {
                    for _ in 0..10 {
                        thread::sleep(SECOND);
                        ticks.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .map(drop)
                .map_err(|error| error.kind())
        });
        world.advance(SECOND * 3 + SECOND / 2);
        node.pause();
        world.advance(SECOND * 100);
        assert_eq!(ticks.load(Ordering::Relaxed), 3);
        node.resume();
        world.advance(SECOND * 10);
        assert_eq!(ticks.load(Ordering::Relaxed), 10);
    });
}

#[test]
fn each_plan_has_its_own_faults_until_all_end() {
    let kills = FaultRates {
        kills: 20.0,
        ..FaultRates::default()
    };
    let mut starts = Vec::new();
    let report = Simulation::seed(1).run(|world| {
        let node = world.node("server", |machine| machine.starts);
        let mut plan = |within: Duration| {
            world.inject(kills, SECOND * 30);
            world.advance(within);
            world.end_faults();
            starts.extend(node.state());
        };
        // The second one begins while faults of the first one are due.
        plan(SECOND * 15);
        plan(SECOND * 30);
    });
    assert!(0 < starts[0] && starts[0] < starts[1], "{starts:?}");
    let (first, second) = report.faults.split_at(10);
    assert_ne!(first, second);
}

#[test]
fn a_run_with_kills_frees_its_disks_stacks_and_trace() {
    let mut left = None;
    Simulation::seed(1).run(|world| {
        let node = world.node("server", |machine| {
            drop(thread::Builder::new().spawn(thread::park));
            machine.clone()
        });
        world.advance(SECOND);
        // What the node holds is leaked: its machine, and so the executor and the disk.
        node.kill();
        left = Some((world.executor().clone(), node.disk()));
    });
    let (executor, disk) = left.expect("the run has set it");
    assert!(executor.trace().is_empty() && !executor.has_threads());
    assert!(!disk.is_on());
}

/// Takes a minute to stop.
struct StopsLate;

impl Actor for StopsLate {
    fn stopped(&mut self, _: &mut Context<Self>) {
        thread::sleep(SECOND * 60);
    }
}

#[test]
fn no_fault_begins_behind_the_end_of_a_test() {
    let starts = Arc::new(AtomicU64::new(0));
    let counted = starts.clone();
    let report = Simulation::seed(1).run(|world| {
        world.node("server", move |machine| {
            counted.fetch_add(1, Ordering::Relaxed);
            machine.system.spawn(StopsLate)
        });
        let kills = FaultRates {
            kills: 20.0,
            ..FaultRates::default()
        };
        world.inject(kills, SECOND * 60);
    });
    assert_eq!(report.time, SECOND * 60);
    assert_eq!(starts.load(Ordering::Relaxed), 1);
}

/// Tells the time of day.
struct Clock;
struct Now;

impl Actor for Clock {}

impl Handler<Now> for Clock {
    type Reply = Duration;

    fn handle(&mut self, _: Now, _: &mut Context<Self>) -> Duration {
        clock::since_1970()
    }
}

#[test]
fn a_node_has_its_own_time_of_day() {
    Simulation::seed(4).run(|world| {
        let node = world.node("wrong", |machine| machine.system.spawn(Clock));
        let right = world.spawn(Clock);
        let wrong = node.state().expect("it is up");
        node.set_skew_ns(-5_000_000_000);
        let now = || {
            let time = |clock: &freeboard_actor::ActorRef<Clock>| clock.ask(Now).wait();
            (time(&right), time(&wrong))
        };
        let (right, wrong) = now();
        let difference = right.expect("a time") - wrong.expect("a time");
        assert_eq!(difference, SECOND * 5);
    });
}

#[test]
fn a_run_stops_at_a_step_and_shows_the_actors() {
    let run = |simulation: Simulation| simulation.run(|world| _ = ask_for_a_minute(world, RATES));
    let whole = run(Simulation::seed(5));
    let part = run(Simulation::seed(5).until(whole.steps / 2));
    assert_eq!(part.steps, whole.steps / 2);
    assert!(
        part.actors.iter().any(|line| line.contains("Client")),
        "{part:?}"
    );
}

#[test]
fn an_invariant_that_breaks_names_itself() {
    let failure = Simulation::seed(6).try_run(|world| {
        let start = world.now();
        let limit = SECOND * 10;
        world.invariant("it is early", move || {
            let now = Duration::from_nanos(clock::now_ns());
            (now < start + limit)
                .then_some(())
                .ok_or_else(|| "it is late".to_owned())
        });
        world.node("server", |_| thread::sleep(SECOND * 20));
    });
    let text = failure.expect_err("it is late").to_string();
    assert!(
        text.contains("the invariant \"it is early\" does not hold: it is late"),
        "{text}"
    );
}

#[test]
fn a_start_that_panics_after_a_crash_is_a_failure() {
    let failure = Simulation::seed(3).try_run(|world| {
        let node = world.node("server", |machine| assert!(machine.starts == 0, "no disk"));
        node.kill();
        node.start();
        world.run_until(|| node.state().is_some());
    });
    let text = failure.expect_err("its start panics").to_string();
    assert!(
        text.starts_with(file!()) && text.contains(": no disk"),
        "{text}"
    );
    let steps = text.split("last steps:").nth(1).expect("its last steps");
    assert!(steps.trim_end().ends_with("server: boot"), "{text}");
    assert_eq!(steps.matches("boot").count(), 2, "{text}");
}

#[test]
fn a_run_that_fails_behind_the_step_where_it_stops_is_a_failure() {
    let test = |world: &mut World| {
        world.advance(SECOND);
        world.node("server", |_| ());
        panic!("at the end");
    };
    let run = |simulation: Simulation| simulation.try_run(test);
    let whole = run(Simulation::seed(1)).expect_err("it fails").report;
    let last = run(Simulation::seed(1).until(whole.steps));
    let last = last.expect_err("it fails behind the last step");
    assert_eq!(last.report.steps, whole.steps);
    assert!(last.message.contains(": at the end"), "{last}");
}

#[test]
fn a_reduction_without_effect_is_known() {
    let test = |world: &mut World| assert!(world.size("clients", 1..=5) > 0);
    let reduction: Reduction = "clients=2 untl=7 without=3".parse().expect("a reduction");
    let report = Simulation::seed(1).reduced(reduction.clone()).run(test);
    let text = report.without_effect(&reduction);
    assert_eq!(
        text.as_deref(),
        Some("the run has no fault 3, no size `untl`")
    );
    assert_eq!(report.without_effect(&Reduction::default()), None);
}

/// Asks another one, if there is one.
struct Waiting(Option<ActorRef<Waiting>>);

impl Actor for Waiting {}

struct Question;

impl AsyncHandler<Question> for Waiting {
    type Reply = u64;

    async fn handle(&mut self, _: Question, _: &mut Context<Self>) -> u64 {
        match &self.0 {
            Some(other) => other.ask(Question).await.map_or(0, |it| it + 1),
            None => 1,
        }
    }
}

#[test]
fn a_message_of_an_async_handler_is_accounted_for() {
    each_seed(0..20, |world| {
        let node = world.node("server", |machine| {
            let last = machine.system.spawn(Waiting(None));
            machine.system.spawn(Waiting(Some(last)))
        });
        let first = node.state().expect("it is up");
        assert_eq!(first.ask(Question).wait().ok(), Some(2));
    });
}
