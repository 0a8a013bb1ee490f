//! The test kit: order by seed, virtual time, deadlocks, probes, accounting.

use freeboard_actor::testing::{self, Probe, TestSystem, each_seed};

use crate::common::{Arc, Duration, Mutex, Notes, Poll, eventually, poll_fn, thread};
use freeboard_actor::*;
use freeboard_flow::{LaneConfig, Overload};
use freeboard_meter::clock;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// The text of the panic of `test`, which must panic.
#[track_caller]
fn panic_of(test: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    let panic = panic.expect_err("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a text")).to_owned(),
    }
}

#[track_caller]
fn check_text(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no \"{part}\" in: {text}");
    }
}

/// Passes a number on, one less, to an actor of its choice, and remembers it.
struct Player {
    others: Arc<Mutex<Vec<ActorRef<Player>>>>,
    seen: Notes<(u64, u64)>,
    number: u64,
}

#[derive(Debug, PartialEq)]
struct Ball(u64);

impl Actor for Player {
    fn started(&mut self, cx: &mut Context<Self>) {
        let period = MS * (1 + self.number as u32 % 3);
        cx.send_after(period, Ball(2)).expect("a timer");
    }
}

impl Handler<Ball> for Player {
    type Reply = u64;
    fn handle(&mut self, ball: Ball, _cx: &mut Context<Self>) -> u64 {
        self.seen.push((self.number, ball.0));
        let others = self.others.lock().expect("no panic");
        if ball.0 > 0 && !others.is_empty() {
            let to = (self.number + ball.0) as usize % others.len();
            others[to].tell_or_log(Ball(ball.0 - 1));
        }
        self.number
    }
}

/// Several players that tell each other; returns what they saw.
fn play(system: &TestSystem) -> Notes<(u64, u64)> {
    let (others, seen) = (Arc::default(), Notes::default());
    let spawn = |number| {
        let (others, seen) = (Arc::clone(&others), seen.clone());
        system.spawn(Player {
            others,
            seen,
            number,
        })
    };
    let players: Vec<_> = (0..5).map(spawn).collect();
    *others.lock().expect("no panic") = players.clone();
    for player in &players {
        player.tell(Ball(3)).expect("alive");
    }
    assert_eq!(players[3].ask(Ball(1)).wait(), Ok(3));
    system.advance(10 * MS);
    seen
}

#[test]
fn a_seed_repeats_its_run_and_seeds_differ() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..1_000 {
        let run = |_| {
            let system = TestSystem::new(seed);
            let seen = play(&system).all();
            let trace: Vec<_> = system.trace().iter().map(ToString::to_string).collect();
            let checksum = system.trace_checksum();
            system.finish();
            (seen, trace.join("\n"), checksum)
        };
        let (first, second) = (run(1), run(2));
        assert_eq!(first, second, "seed {seed}");
        orders.insert(first.0);
    }
    assert!(orders.len() > 900, "only {} orders", orders.len());
}

#[test]
fn timers_fire_at_their_time_and_in_order() {
    each_seed(0..20, |system| {
        let probe = Probe::<u64>::spawn(system);
        let times = Notes::default();
        for (number, delay) in [(3, 30), (1, 10), (2, 20), (4, 30)] {
            let (to, noted) = (probe.recipient(), times.clone());
            system.spawn(Later(
                Some(Box::new(move || {
                    noted.push(clock::now_ns() - 1);
                    to.tell_or_log(number);
                })),
                delay * HOUR,
            ));
        }
        system.run_until_idle();
        probe.expect_none(10 * HOUR - Duration::from_nanos(1));
        assert_eq!(system.now(), 10 * HOUR - Duration::from_nanos(1));
        probe.expect_eq(1);
        assert_eq!(system.now(), 10 * HOUR);
        probe.expect_none(Duration::ZERO);
        system.advance(15 * HOUR);
        probe.expect_eq(2);
        assert_eq!(system.now(), 25 * HOUR);
        system.run_until(|| times.len() == 4);
        system.run_until_idle();
        let mut last = probe.drain();
        last.sort_unstable();
        assert_eq!(last, [3, 4]);
        let hours = times
            .all()
            .into_iter()
            .map(|it| it / HOUR.as_nanos() as u64);
        assert!(hours.eq([10, 20, 30, 30]));
    });
}

/// Calls a function once, after a time.
struct Later(Option<Box<dyn FnOnce() + Send>>, Duration);

struct Now;

impl Actor for Later {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.send_after(self.1, Now).expect("a timer");
    }
}

impl Handler<Now> for Later {
    type Reply = ();
    fn handle(&mut self, _msg: Now, cx: &mut Context<Self>) {
        self.0.take().expect("once")();
        cx.stop();
    }
}

#[test]
fn timers_of_one_instant_fire_in_any_order() {
    let mut firsts = [0; 2];
    for seed in 0..40 {
        let system = TestSystem::new(seed);
        let probe = Probe::<usize>::spawn(&system).timeout(2 * HOUR);
        for number in 0..2 {
            let to = probe.recipient();
            system.spawn(Later(Some(Box::new(move || to.tell_or_log(number))), HOUR));
        }
        firsts[probe.expect_any()] += 1;
        let _ = probe.expect_any();
    }
    assert!(firsts[0] > 5 && firsts[1] > 5, "{firsts:?}");
}

/// Asks another actor, in each way.
struct Asker(Option<ActorRef<Asker>>);

#[derive(Debug, PartialEq)]
struct Block(Option<Duration>);
#[derive(Debug, PartialEq)]
struct Await;
struct Nothing;

impl Actor for Asker {}

impl Handler<Block> for Asker {
    type Reply = bool;
    fn handle(&mut self, msg: Block, _cx: &mut Context<Self>) -> bool {
        let Some(other) = &self.0 else { return true };
        let ask = other.ask(Block(None));
        match msg.0 {
            Some(timeout) => ask.timeout(timeout).wait() == Ok(true),
            None => ask.wait() == Ok(true),
        }
    }
}

impl AsyncHandler<Await> for Asker {
    type Reply = bool;
    async fn handle(&mut self, _msg: Await, _cx: &mut Context<Self>) -> bool {
        let Some(other) = &self.0 else { return true };
        other.ask(Await).await.unwrap_or(false)
    }
}

impl AsyncHandler<Nothing> for Asker {
    type Reply = ();
    async fn handle(&mut self, _msg: Nothing, _cx: &mut Context<Self>) {
        std::future::pending::<()>().await;
    }
}

#[test]
fn handlers_may_wait_and_await() {
    each_seed(0..50, |system| {
        let last = system.spawn(Asker(None));
        let middle = system.spawn(Asker(Some(last)));
        let first = system.spawn(Asker(Some(middle)));
        assert_eq!(first.ask(Block(None)).wait(), Ok(true));
        assert!(first.ask(Await).wait().expect("a reply"));
        testing::expect_counts(system);
        system.expect_no_dead_letters();
        system.expect_no_failures();
    });
}

#[test]
fn a_wait_that_nothing_can_end_is_a_deadlock() {
    let text = panic_of(|| {
        let system = TestSystem::new(7);
        let silent = system.spawn(Asker(None));
        let _ = silent.ask(Nothing).wait();
    });
    check_text(
        &text,
        &["deadlock", "seed 7", "Asker#1 suspended", "Asker#1 Nothing"],
    );
}

#[test]
fn handlers_that_ask_each_other_get_an_error() {
    each_seed(0..10, |system| {
        let middle = system.spawn(Asker(None));
        let first = system.spawn(Asker(Some(middle.clone())));
        middle.tell(SetOther(first.clone())).expect("alive");
        let _ = first.ask(Block(None)).wait();
        system.expect_no_failures();
    });
}

struct SetOther(ActorRef<Asker>);

impl Handler<SetOther> for Asker {
    type Reply = ();
    fn handle(&mut self, msg: SetOther, _cx: &mut Context<Self>) {
        self.0 = Some(msg.0);
    }
}

#[test]
fn a_deadline_ends_a_wait_in_virtual_time() {
    each_seed(0..20, |system| {
        let silent = system.spawn(Asker(None));
        let reply = silent.ask(Nothing).timeout(HOUR).wait();
        assert!(matches!(reply, Err(AskError::Expired)));
        assert_eq!(system.now(), HOUR);
        let probe = Probe::<Block>::spawn(system);
        let deadline = clock::now() + HOUR;
        assert!(probe.actor().wait_ended_until(deadline).is_none());
        assert_eq!(system.now(), 2 * HOUR);
    });
}

#[test]
fn an_endless_run_is_found() {
    struct Again;
    struct Endless;
    impl Actor for Endless {}
    impl Handler<Again> for Endless {
        type Reply = ();
        fn handle(&mut self, _msg: Again, cx: &mut Context<Self>) {
            cx.actor_ref().tell_or_log(Again);
        }
    }
    let text = panic_of(|| {
        let system = TestSystem::new(0);
        system.spawn(Endless).tell(Again).expect("alive");
        system.run_until_idle();
    });
    check_text(
        &text,
        &["run_until_idle", "number of steps", "Endless#1 Again"],
    );
}

#[test]
fn another_thread_may_not_send() {
    let system = TestSystem::new(0);
    let probe = Probe::<u64>::spawn(&system);
    system.run_until_idle();
    let to = probe.recipient();
    assert!(thread::spawn(move || to.tell(1)).join().is_err());
    let text = panic_of(|| system.run_until_idle());
    check_text(&text, &["another thread"]);
}

#[test]
fn a_thread_has_one_test_system_and_may_have_further_systems() {
    let first = TestSystem::new(1);
    check_text(&panic_of(|| drop(TestSystem::new(2))), &["build_another"]);
    let second = first.build_another(System::builder().name("second"));
    let second = second.expect("valid settings");
    let probe = Probe::<u64>::spawn(&second).timeout(2 * HOUR);
    let to = probe.recipient();
    first.spawn(Later(Some(Box::new(move || to.tell_or_log(5))), HOUR));
    probe.expect_eq(5);
    assert!(second.shutdown(HOUR).is_clean());
    first.finish();
    assert!(clock::now_ns() > 1, "the real clock is back");
}

#[test]
fn probes_answer_and_see_terminations() {
    each_seed(0..10, |system| {
        let prices = Probe::spawn_replying(system, |article: &u64| article * 2);
        assert_eq!(prices.actor().ask(4).wait(), Ok(8));
        prices.expect(|article| *article == 4);
        let later = system.spawn(Later(Some(Box::new(|| ())), 5 * MS));
        assert_eq!(prices.expect_terminated(&later).reason, ExitReason::Stopped);
        let gone = later.ask(Now).wait();
        assert!(matches!(gone, Err(AskError::Closed(_))));
    });
}

#[test]
fn a_probe_says_what_came_instead() {
    let check = |parts: &[&str], test: fn(&Probe<u64>)| {
        let text = panic_of(|| {
            let system = TestSystem::new(4);
            let probe = Probe::spawn(&system);
            for number in 1..=3 {
                probe.actor().tell(number).expect("alive");
            }
            test(&probe);
        });
        check_text(&text, parts);
        check_text(&text, &["seed 4", "last steps", "ProbeActor#1 u64"]);
    };
    check(&["expected 5, got 1"], |probe| probe.expect_eq(5));
    check(
        &["expected no message, got 1; then 2 more: [2, 3]"],
        |probe| {
            probe.expect_none(MS);
        },
    );
    check(&["the condition holds, got 1"], |probe| {
        probe.expect(|number| *number > 1);
    });
    check(&["no message came within 30s", "at 30s"], |probe| {
        (0..4).for_each(|_| _ = probe.expect_any());
    });
    check(&["the termination of", "it is alive"], |probe| {
        probe.expect_terminated(probe.actor());
    });
}

#[test]
fn a_probe_works_with_threads() {
    let system = System::builder()
        .workers(2)
        .build()
        .expect("valid settings");
    let probe = Probe::<u64>::spawn(&system);
    let to = probe.recipient();
    system.spawn(Later(Some(Box::new(move || to.tell_or_log(1))), MS));
    probe.expect_eq(1);
    probe.expect_none(MS);
    probe.actor().stop();
    probe.expect_terminated(probe.actor());
    let impatient = Probe::<u64>::spawn(&system).timeout(MS);
    let text = panic_of(|| _ = impatient.expect_any());
    check_text(&text, &["no message came within 1ms"]);
    eventually("the counts settle", || system.actors_alive() == 1);
    testing::expect_counts(&system);
}

#[test]
fn pinned_actors_and_blocking_calls_run_on_the_thread_of_the_test() {
    let system = TestSystem::new(9);
    let here = thread::current().id();
    let probe = Probe::spawn(&system);
    let to = probe.recipient();
    let options = SpawnOptions::new().dispatcher(Dispatcher::pinned(Blocking::default()));
    let pinned = system.spawn_with(options, move || {
        to.tell_or_log(thread::current().id());
        Asker(None)
    });
    probe.expect_eq(here);
    assert_eq!(
        pinned.expect("valid options").ask(Block(None)).wait(),
        Ok(true)
    );
    system.finish();
}

#[test]
fn dead_letters_are_listed() {
    let system = TestSystem::new(1);
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1).overload(Overload::DropNewest));
    let full = system
        .spawn_once(options, Asker(None))
        .expect("valid options");
    for _ in 0..3 {
        full.tell(Nothing).expect("alive");
    }
    let text = panic_of(|| system.expect_no_dead_letters());
    check_text(
        &text,
        &["dead letters: 2", "Nothing to", "Asker: dropped_newest"],
    );
    system.forget_dead_letters();
    system.expect_no_dead_letters();
    system.run_until_idle();
    testing::expect_counts(&system);
}

#[test]
fn a_waiting_sender_goes_on_when_there_is_capacity() {
    each_seed(0..20, |system| {
        let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
        let probe = Probe::<u64>::spawn(system);
        let to = probe.recipient();
        let slow = system
            .spawn_once(options, Relay(to))
            .expect("valid options");
        // This thread's tells block while the lane is full.
        for number in 0..10 {
            slow.tell(number).expect("alive");
        }
        (0..10).for_each(|number| probe.expect_eq(number));
        system.expect_no_dead_letters();
    });
}

struct Relay(Recipient<u64>);

impl Actor for Relay {}

impl Handler<u64> for Relay {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
        self.0.tell_or_log(number);
    }
}

#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    struct Spin(u32);
    struct Spinner;
    impl Actor for Spinner {}
    impl AsyncHandler<Spin> for Spinner {
        type Reply = ();
        async fn handle(&mut self, msg: Spin, _cx: &mut Context<Self>) {
            let mut left = msg.0;
            poll_fn(|context| {
                left -= 1;
                context.waker().wake_by_ref();
                if left == 0 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }
    each_seed(0..10, |system| {
        let spinner = system.spawn(Spinner);
        let probe = Probe::<u64>::spawn(system);
        spinner.tell(Spin(20)).expect("alive");
        probe.actor().tell(1).expect("alive");
        probe.expect_eq(1);
        assert!(spinner.ask(Spin(3)).wait().is_ok());
    });
}

#[test]
fn a_shutdown_takes_no_time_and_stops_what_hangs() {
    let system = TestSystem::new(2);
    let hung = system.spawn(Asker(None));
    hung.tell(Nothing).expect("alive");
    hung.tell(Block(None)).expect("alive");
    let report = system.shutdown(HOUR);
    assert_eq!(report.stopped_at_deadline, 1);
    assert!(report.unfinished.is_empty() && report.stuck_workers.is_empty());
    assert!(system.now() >= HOUR);
    testing::expect_counts(&system);
}

#[test]
#[cfg(feature = "tokio")]
fn piped_futures_run_in_the_order_of_the_seed() {
    struct Piper(Recipient<u64>);
    struct Pipe(ActorRef<Asker>, bool);
    impl Actor for Piper {}
    impl Handler<Pipe> for Piper {
        type Reply = ();
        fn handle(&mut self, msg: Pipe, cx: &mut Context<Self>) {
            let asked = async move {
                assert!(msg.1, "on purpose");
                msg.0.ask(Await).await
            };
            let piped = cx.pipe(asked, |reply| u64::from(reply == Ok(true)));
            piped.expect("no runtime is needed");
        }
    }
    impl Handler<u64> for Piper {
        type Reply = ();
        fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
            self.0.tell_or_log(number);
        }
    }
    each_seed(0..20, |system| {
        let probe = Probe::<u64>::spawn(system);
        let (asker, piper) = (
            system.spawn(Asker(None)),
            system.spawn(Piper(probe.recipient())),
        );
        piper.tell(Pipe(asker.clone(), true)).expect("alive");
        probe.expect_eq(1);
        system.expect_no_dead_letters();
        // A panic of a piped future is a dead letter.
        piper.tell(Pipe(asker, false)).expect("alive");
        probe.expect_none(MS);
        let text = panic_of(|| system.expect_no_dead_letters());
        check_text(&text, &["u64 to", "Piper: handler_panicked"]);
    });
}

#[test]
fn a_timer_of_tokio_fails_its_handler_with_a_clear_text() {
    struct Sleeper;
    struct Sleep;
    impl Actor for Sleeper {}
    impl AsyncHandler<Sleep> for Sleeper {
        type Reply = ();
        async fn handle(&mut self, _msg: Sleep, _cx: &mut Context<Self>) {
            tokio::time::sleep(MS).await;
        }
    }
    let system = TestSystem::new(1);
    let sleeper = system.spawn(Sleeper);
    assert!(matches!(sleeper.ask(Sleep).wait(), Err(AskError::NoReply)));
    let text = panic_of(|| system.expect_no_failures());
    check_text(&text, &["Sleeper", "no reactor running"]);
}

/// An activation, which replies with its key.
struct Keyed(u64);

impl Actor for Keyed {}

impl Handler<Ball> for Keyed {
    type Reply = u64;
    fn handle(&mut self, _ball: Ball, _cx: &mut Context<Self>) -> u64 {
        self.0
    }
}

#[test]
fn a_full_directory_searches_for_an_idle_activation_every_ten_milliseconds() {
    let system = TestSystem::new(1);
    let options = DirectoryOptions::new()
        .activations_max(1)
        .at_bound(AtBound::PassivateIdle);
    let directory = system.directory(options, |of: &Activation<u64>| Keyed(of.key));
    let directory = directory.expect("valid options");
    directory.tell(&1, Ball(0)).expect("free");
    // It has not run yet.
    assert_eq!(directory.tell(&2, Ball(0)), Err(TellError::Full(Ball(0))));
    assert_eq!(directory.ask(&1, Ball(0)).wait(), Ok(1));
    system.run_until_idle();
    assert_eq!(directory.tell(&2, Ball(0)), Err(TellError::Full(Ball(0))));
    system.advance(10 * MS);
    assert_eq!(directory.ask(&2, Ball(0)).wait(), Ok(2));
}

#[test]
fn a_seed_repeats_the_order_in_which_a_directory_saves() {
    let run = |seed| {
        let system = TestSystem::new(seed);
        let saved = Notes::default();
        let store = SavesKeys(saved.clone());
        let options = DirectoryOptions::new().idle_after(100 * MS);
        let directory = system.directory(options, store).expect("valid options");
        for key in 0..40 {
            directory.tell(&key, Ball(0)).expect("accepted");
        }
        system.run_until_idle();
        for key in 0..20 {
            directory.tell(&key, Ball(0)).expect("accepted");
        }
        system.advance(200 * MS);
        assert_eq!((directory.activations(), saved.len()), (0, 40));
        for key in 0..40 {
            directory.tell(&key, Ball(0)).expect("accepted");
        }
        directory.passivate_all();
        system.run_until_idle();
        saved.all()
    };
    for seed in 0..3 {
        let saved = run(seed);
        assert_eq!(saved.len(), 80);
        assert_eq!(saved, run(seed), "seed {seed}");
    }
}

/// Notes the order of the saves.
struct SavesKeys(Notes<u64>);

impl Store<u64, Keyed> for SavesKeys {
    type Error = std::convert::Infallible;

    fn load(&self, of: &Activation<u64>) -> Result<Keyed, Self::Error> {
        Ok(Keyed(of.key))
    }

    fn save(&self, of: &Activation<u64>, _keyed: &mut Keyed) -> Result<(), Self::Error> {
        self.0.push(of.key);
        Ok(())
    }
}

#[test]
fn calls_of_the_executor_are_steps_at_their_time() {
    each_seed(0..20, |system| {
        let called = Notes::<u64>::default();
        for ms in [2, 1, 2] {
            let called = called.clone();
            let due_ns = clock::now_ns() + ms * 1_000_000;
            system
                .executor()
                .call_at(due_ns, "packet", move || called.push(ms));
        }
        system.run_until_idle();
        assert!(called.all().is_empty());
        system.advance(MS * 2);
        assert_eq!(called.all(), [1, 2, 2]);
        let mut names: Vec<_> = system.trace().iter().map(ToString::to_string).collect();
        names.retain(|step| step.ends_with("packet"));
        assert_eq!(names.len(), 3);
    });
}
