//! Groups whose members terminate, fill up or refuse: nothing is lost, and the counts add up.

use crate::common::*;

/// Notes the numbers it gets, waits at gates, panics at [`FATAL`].
struct Shard {
    notes: Notes<(usize, u64)>,
    index: usize,
}

const FATAL: u64 = u64::MAX;

impl Actor for Shard {}

impl Handler<u64> for Shard {
    type Reply = usize;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> usize {
        assert_ne!(number, FATAL, "on purpose");
        self.notes.push((self.index, number));
        self.index
    }
}

impl Handler<Gate> for Shard {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

struct Bench {
    system: TestSystem,
    group: Group<Shard>,
    notes: Notes<(usize, u64)>,
}

/// Four members, by the number that the first byte of the key is, with lanes of this kind.
fn bench(lane: LaneConfig) -> Bench {
    let (system, notes) = (system(), Notes::default());
    let made = notes.clone();
    let options = GroupOptions::new(4)
        .router(Router::FirstBytesOfKey { bytes: 1 })
        .member(SpawnOptions::new().lane(lane));
    let group = system
        .spawn_group(options, move |index| Shard {
            notes: made.clone(),
            index,
        })
        .expect("valid options");
    Bench {
        system,
        group,
        notes,
    }
}

impl Bench {
    fn end_member(&self, index: usize) {
        let member = &self.group.members()[index];
        member.stop();
        ended(member);
    }

    /// Makes a member wait at the gate, and fills its lane of so many.
    fn fill(&self, index: usize, bound: u64) -> Gate {
        let member = &self.group.members()[index];
        let gate = hold(member);
        let mut accepted = 0;
        while member.try_tell(accepted).is_ok() {
            accepted += 1;
        }
        assert!(accepted <= bound);
        gate
    }

    /// `(routed, redirected, taken over, refused)` of each member.
    fn books(&self) -> [(u64, u64, u64, u64); 4] {
        let members = self.group.snapshot().members;
        std::array::from_fn(|index| {
            let it = &members[index];
            (it.routed, it.redirected, it.taken_over, it.refused)
        })
    }
}

#[test]
fn messages_of_an_ended_member_go_to_the_next_living_one() {
    let bench = bench(LaneConfig::default());
    bench.end_member(1);
    bench.end_member(2);
    bench.group.route(&[1]).tell(10).expect("others live");
    bench.group.route(&[2]).try_tell(20).expect("others live");
    block_on(bench.group.route(&[1]).send(30)).expect("others live");
    assert_eq!(bench.group.route(&[2]).ask(40).wait(), Ok(3));
    let asking = bench.group.route(&[1]).ask(50).timeout(LIMIT);
    assert_eq!(block_on(asking.into_future()), Ok(3));
    assert_eq!(bench.group.route(&[0]).ask(60).wait(), Ok(0));
    bench.end_member(3);
    // After the last member comes the first.
    assert_eq!(bench.group.route(&[3]).ask(70).wait(), Ok(0));
    let mut handled = bench.notes.all();
    handled.sort_unstable();
    let wanted = [
        (0, 60),
        (0, 70),
        (3, 10),
        (3, 20),
        (3, 30),
        (3, 40),
        (3, 50),
    ];
    assert_eq!(handled, wanted);
    let books = [(1, 0, 1, 0), (3, 3, 0, 0), (2, 2, 0, 0), (1, 1, 5, 0)];
    assert_eq!(bench.books(), books);
    let alive: Vec<_> = bench.group.snapshot().members;
    let alive: Vec<_> = alive.iter().map(|member| member.is_alive).collect();
    assert_eq!(alive, [true, false, false, false]);
}

#[test]
fn with_all_members_ended_the_message_comes_back() {
    let bench = bench(LaneConfig::default());
    (0..4).for_each(|index| bench.end_member(index));
    let route = bench.group.route(&[2]);
    assert_eq!(route.tell(1), Err(TellError::Closed(1)));
    assert_eq!(route.try_tell(2), Err(TellError::Closed(2)));
    assert_eq!(block_on(route.send(3)), Err(TellError::Closed(3)));
    assert_eq!(route.ask(4).wait(), Err(AskError::Closed(4)));
    let asked = block_on(route.ask(5).into_future());
    assert_eq!(asked, Err(AskError::Closed(5)));
    let none = (0, 0, 0, 0);
    assert_eq!(bench.books(), [none, none, (5, 0, 0, 5), none]);
    let all = [Router::LeastLoaded, Router::PowerOfTwoChoices { seed: 1 }];
    for router in all {
        let options = GroupOptions::new(3).router(router);
        let group = bench
            .system
            .spawn_group(options, |_| Probe::default())
            .expect("valid options");
        group.stop();
        group.members().iter().for_each(|member| {
            ended(member);
        });
        assert_eq!(group.any().tell(6), Err(TellError::Closed(6)), "{router}");
    }
}

#[test]
fn a_full_member_does_what_its_policy_says_and_its_messages_stay_with_it() {
    let bench = bench(LaneConfig::bounded(8).overload(Overload::Reject));
    let gate = bench.fill(1, 8);
    let route = bench.group.route(&[1]);
    assert_eq!(route.tell(100), Err(TellError::Full(100)));
    assert_eq!(route.ask(101).wait(), Err(AskError::Full(101)));
    assert_eq!(route.tell_lane(1, 102), Err(TellError::NoLane(102)));
    let asked = route.ask(103).lane(1).wait();
    assert_eq!(asked, Err(AskError::NoLane(103)));
    let none = (0, 0, 0, 0);
    assert_eq!(bench.books(), [none, (4, 0, 0, 4), none, none]);
    // Redirected to it, it comes back from it.
    bench.end_member(0);
    assert_eq!(bench.group.route(&[0]).tell(104), Err(TellError::Full(104)));
    assert_eq!(bench.books()[0], (1, 1, 0, 0));
    assert_eq!(bench.books()[1], (4, 0, 1, 5));
    gate.open();
}

#[test]
fn senders_that_wait_for_a_full_member_go_on_when_it_ends() {
    let bench = bench(LaneConfig::bounded(4));
    let gate = bench.fill(1, 4);
    let (route, wakes) = (bench.group.route(&[1]), Arc::<Wakes>::default());
    let mut send: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(route.send(200));
    let mut ask = route.ask(201).into_future();
    let mut given_up = Box::pin(route.send(202));
    assert!(poll_once(&mut send, &wakes).is_pending());
    assert!(poll_once(&mut ask, &wakes).is_pending());
    assert!(poll_once(&mut given_up, &wakes).is_pending());
    drop(given_up);
    assert_eq!(bench.books()[1], (3, 0, 0, 1));
    thread::scope(|scope| {
        let blocked = scope.spawn(|| route.tell(203));
        eventually("the thread has routed", || bench.books()[1].0 == 4);
        let member = &bench.group.members()[1];
        member.stop();
        gate.open();
        ended(member);
        assert_eq!(blocked.join().expect("no panic"), Ok(()));
    });
    assert_eq!(block_on(send), Ok(()));
    assert_eq!(block_on(ask), Ok(2));
    let (routed, redirected, _, refused) = bench.books()[1];
    assert_eq!((routed, refused), (4, 1));
    // The thread may have come in before the stop, and then its message is a dead letter.
    assert!((2..=3).contains(&redirected));
    assert_eq!(bench.books()[2].2, redirected);
}

#[test]
fn an_ask_that_finds_no_capacity_in_time_comes_back_and_is_counted_as_refused() {
    let bench = bench(LaneConfig::bounded(4));
    let gate = bench.fill(1, 4);
    let short = Duration::from_millis(1);
    let route = bench.group.route(&[1]);
    let asked = block_on(route.ask(300).timeout(short).into_future());
    assert_eq!(asked, Err(AskError::Full(300)));
    let asked = route.ask(301).timeout(short).wait();
    assert_eq!(asked, Err(AskError::Full(301)));
    assert_eq!(bench.books()[1], (2, 0, 0, 2));
    gate.open();
}

/// A message that is counted until it is dropped.
struct Parcel(u64, #[expect(dead_code, reason = "only dropped")] Token);

impl Handler<Parcel> for Shard {
    type Reply = usize;
    fn handle(&mut self, parcel: Parcel, cx: &mut Context<Self>) -> usize {
        Handler::<u64>::handle(self, parcel.0, cx)
    }
}

/// The senders' results.
#[derive(Default)]
struct Outcomes {
    returned: AtomicU64,
    answered: AtomicU64,
}

const SENDERS: u64 = 4;
const MESSAGES: u64 = 3_000;

/// One sender's messages, sent in all ways.
fn send_all(group: &Group<Shard>, ledger: &Ledger, outcomes: &Outcomes, mut random: Random) {
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    for number in 0..MESSAGES {
        let route = group.route(&[random.below(4) as u8]);
        let parcel = Parcel(number, ledger.token());
        let told = match random.below(5) {
            0 => route.try_tell(parcel),
            1 => block_on(route.send(parcel)),
            2 | 3 => {
                let asked = if random.below(2) == 0 {
                    route.ask(parcel).timeout(LIMIT).wait()
                } else {
                    block_on(route.ask(parcel).timeout(LIMIT).into_future())
                };
                match asked {
                    Ok(_) => count(&outcomes.answered),
                    Err(error) => error.into_inner().map_or(0, |_| count(&outcomes.returned)),
                };
                continue;
            }
            _ => route.tell(parcel),
        };
        if told.is_err() {
            count(&outcomes.returned);
        }
    }
}

/// Members terminate in every possible way, one after the other, while senders continue.
fn end_members(bench: &Bench, random: &mut Random) {
    let handled = |count: usize| {
        bench.notes.wait_len(count);
    };
    let members = bench.group.members();
    let first = random.below(4) as usize;
    handled(200 + random.below(200) as usize);
    members[first].stop();
    handled(1_000 + random.below(500) as usize);
    // Not through the group: it is none of the messages that are counted.
    members[(first + 1) % 4].tell(FATAL).expect("alive");
    ended(&members[(first + 1) % 4]);
    handled(2_000 + random.below(500) as usize);
    members[(first + 2) % 4].stop_gracefully();
    handled(3_000 + random.below(500) as usize);
}

fn check_that_nothing_is_lost(seed: u64) {
    let bench = bench(LaneConfig::bounded(16));
    let (ledger, outcomes) = (Ledger::default(), Outcomes::default());
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let random = Random::new(seed ^ (sender + 1) << 32);
            let (group, ledger, outcomes) = (&bench.group, &ledger, &outcomes);
            scope.spawn(move || send_all(group, ledger, outcomes, random));
        }
        end_members(&bench, &mut Random::new(seed));
    });
    finish(&bench.system);
    let sent = SENDERS * MESSAGES;
    let handled = bench.notes.len() as u64;
    let dead: u64 = ["stopped", "asker_gone", "expired"]
        .iter()
        .map(|reason| count_of(&bench.system.dead_letters(), reason))
        .sum();
    let returned = outcomes.returned.into_inner();
    assert_eq!(
        handled + dead + returned,
        sent,
        "seed {seed}: handled {handled} + dead {dead} + returned {returned}"
    );
    assert!(outcomes.answered.into_inner() > 0, "seed {seed}");
    ledger.settle(sent);
    check_books(&bench, seed, sent, returned);
}

fn check_books(bench: &Bench, seed: u64, sent: u64, returned: u64) {
    let snapshot = bench.group.snapshot();
    let sum =
        |field: fn(&MemberSnapshot) -> u64| -> u64 { snapshot.members.iter().map(field).sum() };
    assert_eq!(sum(|member| member.routed), sent, "seed {seed}");
    assert_eq!(sum(|member| member.refused), returned, "seed {seed}");
    let redirected = sum(|member| member.redirected);
    assert_eq!(redirected, sum(|member| member.taken_over), "seed {seed}");
    assert!(redirected > 0, "seed {seed}: {snapshot:?}");
    let members = bench.group.members();
    let fatal = snapshot.members.iter().zip(&members);
    let direct = fatal
        .map(|(member, actor)| {
            let accepted: u64 = actor.snapshot().lanes.iter().map(|it| it.accepted).sum();
            let given = member.routed + member.taken_over - member.redirected - member.refused;
            accepted.checked_sub(given).expect("all were accepted")
        })
        .collect::<Vec<_>>();
    // The message that one member panicked at was not routed.
    assert_eq!(direct.iter().sum::<u64>(), 1, "seed {seed}: {direct:?}");
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "a run that hangs must have said its seed"
)]
fn members_that_end_while_routed_to_lose_nothing() {
    for seed in 1..=6 {
        eprintln!("seed {seed}");
        check_that_nothing_is_lost(seed);
    }
}
