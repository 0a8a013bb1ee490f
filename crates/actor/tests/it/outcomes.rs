//! Random asks of actors that reply at once, later, from threads, through others or not at all, that panic, stop and
//! restart: each accepted ask has exactly one outcome, and each lane's counters agree.

use crate::common::*;

const ASKS: u64 = 2_000;
const REPLIERS: u64 = 4;

/// Replies in a way that its number chooses.
struct Replier {
    kept: Vec<Deferred<u64>>,
    others: Arc<OnceLock<Vec<ActorRef<Replier>>>>,
}

struct Question(u64);

impl Actor for Replier {}

impl DeferredHandler<Question> for Replier {
    type Reply = u64;
    fn handle(&mut self, question: Question, reply: Deferred<u64>, cx: &mut Context<Self>) {
        let mut random = Random::new(question.0);
        let others = self.others.get().expect("set before the first question");
        let other = &others[random.below(REPLIERS) as usize];
        match random.below(16) {
            0..6 => reply.reply(question.0),
            6..9 => self.kept.push(reply),
            9 => drop(reply),
            10 => drop(thread::spawn(move || reply.reply(question.0))),
            11..13 => {
                let next = Question(question.0.wrapping_add(REPLIERS << 32));
                let _ = cx.forward(other, next, reply);
            }
            13 => self.kept.drain(..).for_each(|reply| reply.reply(0)),
            14 => {
                // As a question of its own, whose reply answers the first one.
                let next = Question(question.0.wrapping_add(REPLIERS << 40));
                let _ = cx.ask(other, next, move |answer| Answered(answer.ok(), reply));
            }
            _ if random.below(8) == 0 => std::panic::resume_unwind(Box::new(())),
            _ => self.kept.clear(),
        }
    }
}

struct Answered(Option<u64>, Deferred<u64>);

impl Handler<Answered> for Replier {
    type Reply = ();
    fn handle(&mut self, answered: Answered, _cx: &mut Context<Self>) {
        if let Some(answer) = answered.0 {
            answered.1.reply(answer);
        }
    }
}

/// Asks the repliers by `cx.ask`, some with a deadline. Returns the accepted asks.
fn ask_repliers(
    asker: &ActorRef<Probe>,
    to: &[ActorRef<Replier>],
    seed: u64,
    notes: &Notes<u64>,
) -> u64 {
    let mut accepted = 0;
    for round in 0..ASKS / 100 {
        let (to, notes) = (to.to_vec(), notes.clone());
        accepted += within(asker, move |cx| {
            let mut random = Random::new(seed ^ round << 20);
            let mut asks = (0..100).map(|_| {
                let number = random.below(u64::MAX >> 12);
                let ask = to[(number % REPLIERS) as usize].ask(Question(number));
                let ask = match random.below(3) {
                    0 => ask.timeout(Duration::from_micros(random.below(2_000))),
                    _ => ask,
                };
                let notes = notes.clone();
                let noted = move |_: Result<u64, AskError<Question>>| {
                    Act(Box::new(move |_| notes.push(number)))
                };
                u64::from(cx.ask_with(ask, noted).is_ok())
            });
            asks.by_ref().sum::<u64>()
        });
    }
    accepted
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "a run that hangs must have said its seed"
)]
fn each_ask_has_exactly_one_outcome() {
    let since = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let seed = u64::from(since.subsec_nanos());
    eprintln!("seed {seed}");
    let system = system();
    let others = Arc::<OnceLock<Vec<ActorRef<Replier>>>>::default();
    let repliers: Vec<_> = (0..REPLIERS)
        .map(|index| {
            let overload = [Overload::Reject, Overload::DropOldest][index as usize % 2];
            let options = SpawnOptions::new()
                .lane(LaneConfig::bounded(64).overload(overload))
                .supervision(at_once().limit(1_000, Duration::from_millis(1)));
            let others = others.clone();
            let replier = system.spawn_with(options, move || Replier {
                kept: Vec::new(),
                others: others.clone(),
            });
            replier.expect("valid options")
        })
        .collect();
    assert!(others.set(repliers.clone()).is_ok());
    let options = || SpawnOptions::new().pending_asks(ASKS as usize);
    let askers: Vec<_> = (0..3).map(|_| probe_with(&system, options()).0).collect();
    let notes: Vec<Notes<u64>> = askers.iter().map(|_| Notes::default()).collect();

    let accepted: Vec<u64> = thread::scope(|scope| {
        let by_actors: Vec<_> = std::iter::zip(&askers, &notes)
            .enumerate()
            .map(|(index, (asker, notes))| {
                let repliers = &repliers;
                scope.spawn(move || ask_repliers(asker, repliers, seed + index as u64, notes))
            })
            .collect();
        // Threads and dropped futures ask meanwhile.
        let outside = scope.spawn(|| {
            let mut random = Random::new(seed ^ 77);
            for number in 0..ASKS {
                let to = &repliers[(number % REPLIERS) as usize];
                let ask = to.ask(Question(random.below(u64::MAX >> 12)));
                if random.below(2) == 0 {
                    let _ = poll_once(&mut ask.into_future(), &Arc::default());
                } else {
                    let _ = ask.timeout(Duration::from_millis(1)).wait();
                }
            }
        });
        // One stops in the middle.
        outside.join().expect("no panic");
        repliers[0].stop();
        by_actors
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect()
    });
    // What they still hold is dropped with them.
    repliers.iter().for_each(|replier| replier.stop());
    repliers.iter().for_each(|replier| drop(ended(replier)));
    for (notes, accepted) in std::iter::zip(&notes, accepted) {
        notes.wait_len(accepted as usize);
        assert_eq!(notes.len() as u64, accepted, "seed {seed}");
        assert!(accepted > 0, "every ask was refused, seed {seed}");
    }
    finish(&system);
    for replier in &repliers {
        check_balance(&lane(replier, 0));
    }
}
