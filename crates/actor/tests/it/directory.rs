//! Directories: one activation per key, passivation, loads and saves that fail, bounds, and a random test.

use crate::common::*;

/// In virtual time.
const IDLE: Duration = Duration::from_millis(20);

/// The numbers that it got since it was loaded, on top of the saved sum.
struct Account {
    key: u64,
    sum: u64,
    /// Shows that it exists, until it is dropped.
    _alive: Alive,
}

/// Panics on purpose.
struct Break;
#[derive(Debug, PartialEq)]
struct Sum;

impl Actor for Account {}

impl Handler<u64> for Account {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        self.sum += number;
        self.sum
    }
}

impl Handler<Sum> for Account {
    type Reply = u64;
    fn handle(&mut self, _sum: Sum, _cx: &mut Context<Self>) -> u64 {
        self.sum
    }
}

impl Handler<Break> for Account {
    type Reply = ();
    fn handle(&mut self, _break: Break, _cx: &mut Context<Self>) {
        panic!("on purpose");
    }
}

impl Handler<Gate> for Account {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

/// Adds half of a number before the probe has replied, and half afterwards.
struct AddTwice(u64, ActorRef<Probe>);

impl AsyncHandler<AddTwice> for Account {
    type Reply = u64;
    async fn handle(&mut self, add: AddTwice, _cx: &mut Context<Self>) -> u64 {
        self.sum += add.0 / 2;
        assert_eq!(add.1.ask(0_u64).await, Ok(0));
        self.sum += add.0 / 2;
        self.sum
    }
}

/// Asks the key 2 once the probe has replied.
struct AskOther(Accounts, ActorRef<Probe>);

impl AsyncHandler<AskOther> for Account {
    type Reply = Result<u64, AskError<Sum>>;
    async fn handle(&mut self, ask: AskOther, _cx: &mut Context<Self>) -> Self::Reply {
        assert_eq!(ask.1.ask(0_u64).await, Ok(0));
        ask.0.ask(&2, Sum).timeout(LIMIT).await
    }
}

#[derive(Clone, Default)]
struct Bank(Arc<BankInner>);

#[derive(Default)]
struct BankInner {
    saved: Mutex<HashMap<u64, u64>>,
    alive: Mutex<BTreeSet<u64>>,
    epochs: Notes<(u64, u64)>,
    fails_loads: AtomicBool,
    load_panics: AtomicBool,
    fails_saves: AtomicBool,
    save_panics: AtomicBool,
    /// The next save waits at this gate.
    save_gate: Mutex<Option<Gate>>,
}

type Flag = fn(&BankInner) -> &AtomicBool;

struct Alive(Bank, u64);

impl Drop for Alive {
    fn drop(&mut self) {
        assert!(lock(&self.0.0.alive).remove(&self.1));
    }
}

impl Bank {
    fn saved(&self, key: u64) -> Option<u64> {
        lock(&self.0.saved).get(&key).copied()
    }

    fn set(&self, flag: Flag, value: bool) {
        flag(&self.0).store(value, Ordering::SeqCst);
    }

    /// Holds the next save.
    fn hold_save(&self) -> Gate {
        let gate = Gate::default();
        *lock(&self.0.save_gate) = Some(gate.clone());
        gate
    }
}

impl Store<u64, Account> for Bank {
    type Error = &'static str;

    fn load(&self, activation: &Activation<u64>) -> Result<Account, &'static str> {
        let key = activation.key;
        self.0.epochs.push((key, activation.epoch));
        if self.0.fails_loads.load(Ordering::SeqCst) {
            return Err("no connection");
        }
        assert!(!self.0.load_panics.load(Ordering::SeqCst), "a bad cable");
        let is_alone = lock(&self.0.alive).insert(key);
        assert!(is_alone, "two activations of {key}");
        let sum = self.saved(key).unwrap_or(0);
        let _alive = Alive(self.clone(), key);
        Ok(Account { key, sum, _alive })
    }

    fn save(&self, _: &Activation<u64>, account: &mut Account) -> Result<(), &'static str> {
        let gate = lock(&self.0.save_gate).take();
        if let Some(gate) = gate {
            gate.pass();
        }
        assert!(!self.0.save_panics.load(Ordering::SeqCst), "a bad disk");
        if self.0.fails_saves.load(Ordering::SeqCst) {
            return Err("the disk is full");
        }
        lock(&self.0.saved).insert(account.key, account.sum);
        Ok(())
    }
}

type Accounts = Directory<u64, Account>;

fn is_idle(accounts: &Accounts, key: u64) -> bool {
    let actor = accounts.find(&key);
    actor.is_some_and(|it| it.depth() == 0 && it.snapshot().state == "idle")
}

fn accounts(system: &System, options: DirectoryOptions) -> (Accounts, Bank) {
    let bank = Bank::default();
    let accounts = system.directory(options, bank.clone());
    (accounts.expect("valid options"), bank)
}

#[test]
fn a_key_has_one_activation_for_all_senders() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..400 {
                    accounts.tell(&(number % 10), 1_u64).expect("accepted");
                }
            });
        }
    });
    for key in 0..10 {
        assert_eq!(accounts.ask(&key, Sum).wait(), Ok(160));
        assert_eq!(
            block_on(accounts.ask(&key, Sum).timeout(LIMIT).into_future()),
            Ok(160)
        );
    }
    assert_eq!((accounts.activations(), bank.0.epochs.len()), (10, 10));
    assert!(accounts.find(&11).is_none());
    assert_eq!(
        accounts.get(&3).map(|it| it.id()),
        Ok(accounts.find(&3).expect("active").id())
    );
    finish(&system);
    assert!(
        (0..10).all(|key| bank.saved(key) == Some(160)),
        "a shutdown saves all"
    );
    assert_eq!(accounts.activations(), 0);
    assert_eq!(accounts.tell(&3, 7_u64), Err(TellError::Closed(7)));
    assert!(matches!(
        accounts.ask(&3, 7_u64).wait(),
        Err(AskError::Closed(7))
    ));
    assert_eq!(accounts.get(&3).err(), Some(DirectoryError::Closed));
}

/// A probe that replies once the sender has sent.
fn late_probe(system: &System) -> (ActorRef<Probe>, tokio::sync::oneshot::Sender<()>) {
    let (probe, _) = probe(system);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    act_async(&probe, move |_| {
        Box::pin(async move { receiver.await.expect("sent") })
    });
    (probe, sender)
}

#[test]
fn an_idle_activation_is_saved_and_the_next_message_loads_it_again() {
    testing::each_seed(0..10, |system| {
        let options = DirectoryOptions::new().idle_after(IDLE).name("accounts");
        let (accounts, bank) = accounts(system, options);
        assert_eq!(accounts.ask(&1, 5_u64).wait(), Ok(5));
        system.advance(IDLE / 2);
        assert_eq!(accounts.activations(), 1);
        system.advance(2 * IDLE);
        assert_eq!((accounts.activations(), bank.saved(1)), (0, Some(5)));
        assert_eq!(block_on(accounts.send(&1, 2)), Ok(()));
        assert_eq!(accounts.ask(&1, Sum).wait(), Ok(7));
        let epochs = bank.0.epochs.all();
        assert!(epochs.is_sorted() && epochs.len() == 2, "{epochs:?}");
        // One that works is not idle.
        let (slow, reply) = late_probe(system);
        accounts.tell(&2, AddTwice(4, slow)).expect("accepted");
        let before = accounts.find(&2).expect("active");
        system.advance(9 * IDLE);
        assert_eq!(accounts.activations(), 1);
        assert_eq!(accounts.find(&2), Some(before));
        reply.send(()).expect("awaited");
        system.advance(2 * IDLE);
        assert_eq!((accounts.activations(), bank.saved(2)), (0, Some(4)));
        assert_eq!(system.snapshot().directories[0].passivated, 3);
        assert!(render(&system.snapshot()).contains("directory=\"accounts\""));
    });
}

#[test]
fn messages_during_a_passivation_wait_for_the_save() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    let held = Gate::default();
    accounts.tell(&1, held.clone()).expect("accepted");
    held.wait_arrived(1);
    let save = bank.hold_save();
    accounts
        .tell(&1, 1_u64)
        .expect("accepted before the passivation");
    let first = accounts.find(&1).expect("active");
    assert!(accounts.passivate(&1));
    assert!(!accounts.passivate(&1));
    accounts.tell(&1, 10_u64).expect("accepted by the next one");
    let second = accounts.find(&1).expect("the next one");
    assert_ne!(first, second);
    held.open();
    save.wait_arrived(1);
    assert_eq!(first.tell(0_u64), Err(TellError::Closed(0)));
    assert_eq!(bank.0.epochs.len(), 1, "not loaded before the save");
    // The next one ends before it begins, and a third must still wait for the save.
    second.stop();
    ended(&second);
    let (sender, replied) = mpsc::channel();
    let asking = accounts.clone();
    thread::spawn(move || sender.send(asking.ask(&1, 100_u64).wait()));
    eventually("the third waits", || {
        accounts.find(&1).is_some_and(|it| it.depth() == 1)
    });
    assert_eq!(bank.0.epochs.len(), 1);
    save.open();
    // The message of the stopped one is a dead letter.
    assert_eq!(replied.recv_timeout(LIMIT), Ok(Ok(101)));
    assert_eq!(count_of(&system.dead_letters(), "stopped"), 1);
}

#[test]
fn a_failed_load_is_an_error_for_those_who_wait_and_the_next_message_tries_again() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    let kinds: [(Flag, &str); 2] = [
        (|it| &it.fails_loads, "no connection"),
        (|it| &it.load_panics, "a panic: a bad cable"),
    ];
    for (flag, error) in kinds {
        bank.set(flag, true);
        let (failed, loads) = (accounts.snapshot().loads_failed, bank.0.epochs.len());
        assert_eq!(accounts.ask(&1, 1_u64).wait(), Err(AskError::Shed));
        // One that has terminated before the call has no error any more.
        eventually("a start is awaited in time", || {
            let activation = accounts.get(&1).expect("below the bound");
            let started = activation.wait_started().wait();
            matches!(started, Err(StartError::Failed(text)) if text == error)
        });
        eventually("they have ended", || accounts.activations() == 0);
        let failed = accounts.snapshot().loads_failed - failed;
        // Each activation has tried once.
        assert_eq!(failed, (bank.0.epochs.len() - loads) as u64);
        assert_eq!(accounts.snapshot().activated, bank.0.epochs.len() as u64);
        bank.set(flag, false);
    }
    assert_eq!(accounts.ask(&1, 1_u64).wait(), Ok(1));
}

#[test]
fn a_failed_save_keeps_the_actor_and_a_later_one_saves_it() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    for flag in [(|it| &it.fails_saves) as Flag, |it| &it.save_panics] {
        let before = accounts.ask(&1, 5_u64).wait().expect("a reply");
        bank.set(flag, true);
        let first = accounts.find(&1).expect("active");
        assert!(accounts.passivate(&1));
        ended(&first);
        // Nothing was saved, and nothing lost.
        assert_eq!(accounts.ask(&1, Sum).wait(), Ok(before));
        // With a successor that waits already.
        let save = bank.hold_save();
        let second = accounts.find(&1).expect("the kept one");
        assert!(accounts.passivate(&1));
        save.wait_arrived(1);
        accounts.tell(&1, 1_u64).expect("accepted");
        save.open();
        ended(&second);
        assert_eq!(accounts.ask(&1, Sum).wait(), Ok(before + 1));
        bank.set(flag, false);
    }
    assert_eq!(accounts.snapshot().saves_failed, 4);
    assert_eq!((bank.0.epochs.len(), bank.saved(1)), (1, None));
    assert!(accounts.passivate(&1));
    eventually("it is saved", || bank.saved(1) == Some(12));
    // At a shutdown there is no next one: the report says what is lost.
    accounts.tell(&2, 1_u64).expect("accepted");
    eventually("the first has ended", || accounts.activations() == 1);
    bank.set(|it| &it.fails_saves, true);
    let report = system.shutdown(LIMIT);
    assert!(!report.is_clean());
    let text = "its state was not saved, and is lost: the disk is full";
    assert_eq!(report.failures[0].reason, text);
    system.abandon();
}

#[test]
fn a_kept_actor_survives_a_stop_of_the_activation_that_should_get_it() {
    let system = system_within(1, 1);
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    assert_eq!(accounts.ask(&1, 5_u64).wait(), Ok(5));
    bank.set(|it| &it.fails_saves, true);
    let save = bank.hold_save();
    assert!(accounts.passivate(&1));
    save.wait_arrived(1);
    accounts.tell(&1, 1_u64).expect("the next one takes it");
    let second = accounts.find(&1).expect("it waits");
    // The only worker is in the save: the next one is not stopped before it has got the actor.
    second.stop();
    save.open();
    ended(&second);
    bank.set(|it| &it.fails_saves, false);
    assert_eq!(accounts.ask(&1, Sum).wait(), Ok(5));
    assert_eq!(count_of(&system.dead_letters(), "stopped"), 1);
    assert!(accounts.passivate(&1) || bank.saved(1).is_some());
    eventually("it is saved", || bank.saved(1) == Some(5));
    assert_eq!(
        (bank.0.epochs.len(), accounts.snapshot().saves_failed),
        (1, 2)
    );
}

#[test]
fn a_kept_actor_goes_to_the_next_activation_in_order() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    assert_eq!(accounts.ask(&1, 5_u64).wait(), Ok(5));
    bank.set(|it| &it.fails_saves, true);
    let save = bank.hold_save();
    assert!(accounts.passivate(&1));
    save.wait_arrived(1);
    accounts.tell(&1, 1_u64).expect("the second takes it");
    assert!(accounts.passivate(&1));
    accounts.tell(&1, 10_u64).expect("the third takes it");
    save.open();
    assert_eq!(accounts.ask(&1, Sum).wait(), Ok(16));
    assert_eq!(
        (bank.0.epochs.len(), accounts.snapshot().saves_failed),
        (1, 2)
    );
    bank.set(|it| &it.fails_saves, false);
}

#[test]
fn a_half_changed_actor_is_not_saved() {
    let failures = Notes::<String>::default();
    let noted = failures.clone();
    let system = build(
        System::builder()
            .workers(2)
            .on_failure(move |failure| noted.push(failure.reason.clone())),
    );
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    assert_eq!(accounts.ask(&1, 5_u64).wait(), Ok(5));
    assert!(accounts.passivate(&1));
    let (asked, gate, _) = held(&system, SpawnOptions::new());
    let add = AddTwice(6, asked.clone());
    accounts.tell(&1, add).expect("accepted");
    let actor = accounts.find(&1).expect("active");
    // Beside the message that holds it. (An activation that waits for the end of the one before is suspended, too.)
    eventually("its handler asks", || asked.depth() == 2);
    suspended(&actor);
    actor.stop();
    assert_eq!(ended(&actor).reason, ExitReason::Stopped);
    assert_eq!(accounts.ask(&1, Sum).wait(), Ok(5));
    assert_eq!(
        (bank.saved(1), accounts.snapshot().saves_failed),
        (Some(5), 1)
    );
    let text = "its state was not saved: a stop interrupted a handler";
    assert_eq!(failures.all(), [text]);
    // A graceful end waits for the handler.
    accounts.tell(&1, AddTwice(6, asked)).expect("accepted");
    assert!(accounts.passivate(&1));
    gate.open();
    eventually("it is saved", || bank.saved(1) == Some(11));
}

#[test]
fn a_panic_reloads_the_actor_and_keeps_its_messages() {
    let system = system();
    let options = DirectoryOptions::new().member(SpawnOptions::new().supervision(at_once()));
    let (accounts, bank) = accounts(&system, options);
    accounts.tell(&1, 3_u64).expect("accepted");
    accounts.passivate(&1);
    eventually("it is saved", || accounts.activations() == 0);
    let gate = Gate::default();
    accounts.tell(&1, gate.clone()).expect("accepted");
    accounts.tell(&1, Break).expect("accepted");
    accounts.tell(&1, 4_u64).expect("accepted");
    gate.open();
    assert_eq!(accounts.ask(&1, Sum).wait(), Ok(7));
    assert_eq!(bank.0.epochs.len(), 3);
    drop(accounts);
    // The last handle is gone: the activations are saved and end.
    eventually("it is saved", || bank.saved(1) == Some(7));
}

#[test]
fn at_the_bound_messages_are_refused_or_the_least_recent_is_passivated() {
    let system = system();
    let options = DirectoryOptions::new().activations_max(2);
    let (refusing, _) = accounts(&system, options.clone());
    refusing.tell(&1, 1_u64).expect("free");
    refusing.tell(&2, 1_u64).expect("free");
    assert_eq!(refusing.tell(&3, 1_u64), Err(TellError::Full(1)));
    assert_eq!(refusing.get(&3).err(), Some(DirectoryError::Full(2)));
    assert!(matches!(
        block_on(refusing.ask(&3, Sum).into_future()),
        Err(AskError::Full(_))
    ));
    refusing.tell(&2, 1_u64).expect("it is there");
    assert_eq!(refusing.snapshot().refused, 3);

    let (accounts, bank) = accounts(&system, options.at_bound(AtBound::PassivateIdle));
    for key in [1, 2] {
        assert_eq!(accounts.ask(&key, key * 10).wait(), Ok(key * 10));
    }
    let save = bank.hold_save();
    eventually("the first is idle", || is_idle(&accounts, 1));
    // The second is busy.
    let gate = Gate::default();
    accounts.tell(&2, gate.clone()).expect("active");
    gate.wait_arrived(1);
    accounts.tell(&2, 1_u64).expect("active");
    accounts.tell(&3, 7_u64).expect("it waits for the first");
    save.wait_arrived(1);
    assert!(!lock(&bank.0.alive).contains(&3));
    assert_eq!(
        accounts.tell(&4, 1_u64),
        Err(TellError::Full(1)),
        "none is idle"
    );
    assert_eq!(
        accounts.tell(&1, 1_u64),
        Err(TellError::Full(1)),
        "the third has its place"
    );
    save.open();
    assert_eq!(accounts.ask(&3, Sum).wait(), Ok(7));
    assert_eq!(bank.saved(1), Some(10));
    gate.open();
}

#[test]
fn the_bound_holds_when_keys_take_each_others_places() {
    testing::each_seed(0..20, |system| {
        let options = DirectoryOptions::new().activations_max(3);
        let (accounts, _) = accounts(system, options.at_bound(AtBound::PassivateIdle));
        for round in 0..30_u64 {
            for key in 0..11 {
                let _ = accounts.tell(&((key * 7 + round) % 11), 1_u64);
            }
            // After a search that has found no idle activation, the next one comes later.
            system.advance(Duration::from_millis(12));
        }
        system.run_until_idle();
        assert!(accounts.activations() <= 3, "{}", accounts.activations());
    });
}

#[test]
fn a_dropped_system_refuses_messages_for_new_keys() {
    let system = system();
    let (accounts, _) = accounts(&system, DirectoryOptions::new());
    accounts.tell(&1, 1_u64).expect("accepted");
    system.abandon();
    let (sender, refused) = mpsc::channel();
    thread::spawn(move || {
        eventually("the workers have ended", || {
            accounts.get(&1).err() == Some(DirectoryError::Closed)
        });
        let told = accounts.tell(&2, 2_u64);
        let sent = block_on(accounts.send(&3, 3_u64));
        let asked = accounts.ask(&4, 4_u64).wait();
        let awaited = block_on(accounts.ask(&5, 5_u64).into_future());
        sender.send((told, sent, asked, awaited))
    });
    let refused = refused.recv_timeout(LIMIT).expect("no endless loop");
    assert_eq!(refused.0, Err(TellError::Closed(2)));
    assert_eq!(refused.1, Err(TellError::Closed(3)));
    assert_eq!(refused.2, Err(AskError::Closed(4)));
    assert_eq!(refused.3, Err(AskError::Closed(5)));
}

#[test]
fn an_activation_that_awaits_makes_no_room() {
    testing::each_seed(0..10, |system| {
        let options = DirectoryOptions::new()
            .activations_max(2)
            .at_bound(AtBound::PassivateIdle)
            .idle_after(IDLE);
        let (accounts, _) = accounts(system, options);
        let (slow, reply) = late_probe(system);
        let asker = accounts.get(&1).expect("free");
        let mut ask = asker.ask(AskOther(accounts.clone(), slow)).into_future();
        assert!(poll_once(&mut ask, &Arc::default()).is_pending());
        assert_eq!(accounts.ask(&3, 1_u64).wait(), Ok(1));
        system.advance(2 * IDLE);
        assert_eq!(accounts.activations(), 1);
        assert_eq!(accounts.find(&1).as_ref(), Some(&asker));
        let (other, other_reply) = late_probe(system);
        let busy = accounts.tell(&3, AddTwice(2, other));
        busy.expect("it has the slot of its former activation");
        system.run_until_idle();
        reply.send(()).expect("awaited");
        system.run_until_idle();
        // The activation of the key 2 would wait for the end of the asker.
        let reply = poll_once(&mut ask, &Arc::default());
        assert!(
            matches!(reply, Poll::Ready(Ok(Err(AskError::Full(Sum))))),
            "{reply:?}"
        );
        other_reply.send(()).expect("awaited");
        system.run_until_idle();
    });
}

#[test]
fn an_activation_stays_while_an_outbox_holds_messages_for_it() {
    let system = system();
    let options = DirectoryOptions::new().member(bounded(1));
    let (accounts, bank) = accounts(&system, options);
    let gate = Gate::default();
    accounts.tell(&1, gate.clone()).expect("accepted");
    gate.wait_arrived(1);
    let (teller, _) = probe(&system);
    let own = accounts.clone();
    act(&teller, move |_| {
        (0..5).for_each(|_| own.tell(&1, 1_u64).expect("accepted"));
    });
    eventually("it has told them", || teller.depth() == 0);
    suspended(&teller);
    assert!(!accounts.passivate(&1));
    gate.open();
    eventually("it may end", || accounts.passivate(&1));
    eventually("it is saved", || bank.saved(1) == Some(5));
    // Also when the last handle is dropped.
    eventually("it has ended", || accounts.activations() == 0);
    let gate = Gate::default();
    accounts.tell(&1, gate.clone()).expect("accepted");
    gate.wait_arrived(1);
    act(&teller, move |_| {
        (0..5).for_each(|_| accounts.tell(&1, 1_u64).expect("accepted"));
    });
    eventually("it has told them", || teller.depth() == 0);
    suspended(&teller);
    gate.open();
    eventually("it is saved", || bank.saved(1) == Some(10));
}

#[test]
fn random_messages_passivations_panics_and_stops_lose_nothing_unseen() {
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let system = system_of(2);
    let member = bounded(8).supervision(at_once().limit(1_000, Duration::from_secs(1)));
    let options = DirectoryOptions::new()
        .idle_after(Duration::from_millis(3))
        .activations_max(6)
        .at_bound(AtBound::PassivateIdle)
        .member(member);
    let bank = Bank::default();
    let handled = Arc::<AtomicU64>::default();
    let undone = Arc::<AtomicU64>::default();
    let counter = handled.clone();
    let inner = bank.clone();
    struct Counted(Bank, Arc<AtomicU64>, Arc<AtomicU64>);
    /// An account, the messages handled, and those that a panic has undone since the last save.
    struct CountedAccount(Account, Arc<AtomicU64>, Unsaved);
    #[derive(Default)]
    struct Unsaved(u64, Arc<AtomicU64>);
    impl Drop for Unsaved {
        fn drop(&mut self) {
            self.1.fetch_add(self.0, Ordering::SeqCst);
        }
    }
    impl Actor for CountedAccount {}
    impl Handler<u64> for CountedAccount {
        type Reply = ();
        fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
            assert_ne!(number % 97, 96, "on purpose");
            self.0.sum += 1;
            self.2.0 += 1;
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl Store<u64, CountedAccount> for Counted {
        type Error = &'static str;
        fn load(&self, of: &Activation<u64>) -> Result<CountedAccount, &'static str> {
            let unsaved = Unsaved(0, self.2.clone());
            Ok(CountedAccount(self.0.load(of)?, self.1.clone(), unsaved))
        }
        fn save(
            &self,
            of: &Activation<u64>,
            account: &mut CountedAccount,
        ) -> Result<(), &'static str> {
            if of.epoch.is_multiple_of(5) {
                return Err("now and then");
            }
            account.2.0 = 0;
            self.0.save(of, &mut account.0)
        }
    }
    let accounts = system.directory(options, Counted(inner, counter, undone.clone()));
    let accounts = accounts.expect("valid options");
    let accepted = AtomicU64::default();
    thread::scope(|scope| {
        for sender in 0..3 {
            let (accounts, accepted) = (&accounts, &accepted);
            scope.spawn(move || {
                let mut random = Random::new(seed ^ (sender + 1));
                for number in 0..2_000_u64 {
                    let key = random.below(9);
                    match random.below(50) {
                        0 => drop(accounts.passivate(&key)),
                        1 => accounts.find(&key).into_iter().for_each(|it| it.stop()),
                        2 if number % 8 == 0 => accounts.passivate_all(),
                        _ => {
                            let told = accounts.tell(&key, number);
                            accepted.fetch_add(u64::from(told.is_ok()), Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    // An activation whose save has failed stays until the next save.
    eventually(&format!("all have ended, seed {seed}"), || {
        accounts.passivate_all();
        accounts.activations() == 0
    });
    let shed: u64 = system.dead_letters().iter().map(|it| it.count).sum();
    let (all, handled, undone) = (
        accepted.load(Ordering::SeqCst),
        handled.load(Ordering::SeqCst),
        undone.load(Ordering::SeqCst),
    );
    assert!(all > 1_000, "seed {seed}");
    assert_eq!(handled + shed, all, "seed {seed}");
    let saved: u64 = lock(&bank.0.saved).values().sum();
    assert_eq!(saved + undone, handled, "seed {seed}");
    assert_eq!(accounts.snapshot().loads_failed, 0, "seed {seed}");
    // The store checked that no key ever had two.
    assert!(lock(&bank.0.alive).is_empty(), "seed {seed}");
}

#[test]
fn expired_and_abandoned_asks_are_not_handled() {
    let system = system();
    let (accounts, _) = accounts(&system, DirectoryOptions::new());
    let gate = Gate::default();
    accounts.tell(&1, gate.clone()).expect("accepted");
    gate.wait_arrived(1);
    let ask = accounts.ask(&1, 1_u64).timeout(Duration::from_millis(1));
    assert_eq!(ask.wait(), Err(AskError::Expired));
    let mut ask = accounts.ask(&1, 1_u64).into_future();
    let mut context = TaskContext::from_waker(Waker::noop());
    assert!(ask.as_mut().poll(&mut context).is_pending());
    drop(ask);
    gate.open();
    assert_eq!(accounts.ask(&1, Sum).wait(), Ok(0));
    let counts = system.dead_letters();
    assert_eq!(
        ["expired", "asker_gone"].map(|it| count_of(&counts, it)),
        [1, 1]
    );
    // One that has expired before it is sent activates nothing that handles it.
    let past = accounts.ask(&2, 1_u64).deadline(Instant::now());
    assert_eq!(past.wait(), Err(AskError::Expired));
    assert_eq!(accounts.ask(&2, Sum).wait(), Ok(0));
}

#[test]
fn an_abandoned_directory_stops_its_actors_and_saves_nothing() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    for key in 0..20 {
        accounts.tell(&key, 5_u64).expect("accepted");
    }
    let gate = Gate::default();
    accounts.tell(&1, gate.clone()).expect("accepted");
    gate.wait_arrived(1);
    accounts.tell(&1, 7_u64).expect("accepted");
    let actor = accounts.find(&1).expect("active");
    accounts.abandon();
    assert_eq!(accounts.tell(&30, 1_u64), Err(TellError::Closed(1)));
    assert_eq!(accounts.get(&1).err(), Some(DirectoryError::Closed));
    gate.open();
    actor.join();
    eventually("all have ended", || accounts.activations() == 0);
    assert!((0..20).all(|key| bank.saved(key).is_none()));
    assert!(lock(&bank.0.alive).is_empty(), "their actors are dropped");
    assert_eq!(shed(&actor, "stopped"), 1, "the queued message");
}

#[test]
fn a_closed_directory_handles_and_saves_what_it_has_accepted() {
    let system = system();
    let (accounts, bank) = accounts(&system, DirectoryOptions::new());
    let gate = Gate::default();
    accounts.tell(&1, gate.clone()).expect("accepted");
    gate.wait_arrived(1);
    accounts.tell(&1, 7_u64).expect("accepted");
    accounts.tell(&2, 5_u64).expect("accepted");
    accounts.close();
    for key in 1..4 {
        assert_eq!(accounts.tell(&key, 1_u64), Err(TellError::Closed(1)));
    }
    assert_eq!(accounts.get(&1).err(), Some(DirectoryError::Closed));
    gate.open();
    eventually("all have ended", || accounts.activations() == 0);
    assert_eq!((bank.saved(1), bank.saved(2)), (Some(7), Some(5)));
    assert_eq!(bank.0.epochs.len(), 2, "no others were loaded");
}
