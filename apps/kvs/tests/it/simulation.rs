//! The store on a simulated disk, whose node crashes: threads, time and disk come from one seed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use freeboard::{
    System,
    flow::random,
    platform::{sync::Mutex, thread},
    stream::storage::simulated::{SimulatedDisk, SimulatedSettings},
    testing::{TestSystem, each_seed},
};
use freeboard_kvs::{Command, Condition, Kvs, KvsOptions, Reply};
use freeboard_worlds::linearizability::{Action, Operation, is_linearizable};

/// In different ranges.
const KEYS: [&str; 2] = ["apple", "zebra"];

const CLIENTS: u64 = 3;

/// What each client does in a life of the node, at most.
const OPERATIONS: u64 = 4;

const LIVES: u64 = 3;

/// The operations on each key, and a clock that counts calls and returns.
#[derive(Default)]
struct History {
    operations: [Mutex<Vec<Operation>>; KEYS.len()],
    clock: AtomicU64,
}

impl History {
    fn tick(&self) -> u64 {
        // Ordering: Relaxed, one thread of the operating system runs all.
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a call. Whether there was a reply.
    fn call(&self, store: &Kvs, key: usize, put: Option<u32>) -> bool {
        let (called, name) = (self.tick(), Bytes::from(KEYS[key]));
        let command = match put {
            Some(value) => {
                let text = Bytes::from(value.to_string());
                Command::Put(name.clone(), text, Condition::Always)
            }
            None => Command::Get(name.clone()),
        };
        let reply = thread::block_on(async { store.request(&name, command).await.await });
        let (action, is_done) = match put {
            Some(value) => (Action::Put(value), reply == Ok(Reply::Ok)),
            None => match reply {
                Ok(Reply::Null) => (Action::Get(None), true),
                Ok(Reply::Value(text)) => {
                    let text = String::from_utf8(text.to_vec()).expect("a number");
                    (Action::Get(Some(text.parse().expect("a number"))), true)
                }
                _ => (Action::Get(None), false),
            },
        };
        let returned = if is_done { self.tick() } else { u64::MAX };
        let operation = Operation {
            action,
            called,
            returned,
        };
        let mut operations = self.operations[key].lock().expect("no panic");
        operations.push(operation);
        is_done
    }
}

fn open(node: &System, disk: &SimulatedDisk) -> Arc<Kvs> {
    let options = KvsOptions {
        snapshot_after: 5,
        segment_bytes: 64 << 10,
        ..KvsOptions::default()
    };
    Arc::new(Kvs::open_on(node, Arc::new(disk.clone()), &options).expect("the store opens"))
}

fn crash_and_recover(system: &TestSystem) {
    let seed = system.seed();
    let mut disk = SimulatedDisk::new(SimulatedSettings {
        seed,
        latency_max: Duration::from_millis(2),
        ..SimulatedSettings::default()
    });
    let history = Arc::new(History::default());
    for life in 0..LIVES {
        let node = system.build_another(System::builder()).expect("a system");
        let store = open(&node, &disk);
        let client = |client: u64| {
            let (store, history) = (store.clone(), history.clone());
            let body = move || {
                let first = (life * CLIENTS + client) * OPERATIONS;
                for number in first..first + OPERATIONS {
                    let number_of =
                        |what| random::below(random::number(seed, 4 * number + what), 2);
                    let put = (number_of(0) == 0).then_some(number as u32);
                    if !history.call(&store, number_of(1), put) {
                        return;
                    }
                }
            };
            thread::Builder::new().name("client".to_owned()).spawn(body)
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let crash_ms = random::below(random::number(!seed, life), 200) as u64;
        thread::sleep(Duration::from_millis(crash_ms));
        disk = disk.reboot();
        for client in clients {
            client.expect("a thread").join().expect("no panic");
        }
        drop(store);
        node.shutdown(Duration::from_secs(60));
    }
    let node = system.build_another(System::builder()).expect("a system");
    let store = open(&node, &disk);
    for key in 0..KEYS.len() {
        assert!(history.call(&store, key, None), "nothing fails now");
    }
    let store = Arc::into_inner(store).expect("the only one");
    store.close().expect("nothing fails now");
    node.shutdown(Duration::from_secs(60));
    for (operations, key) in history.operations.iter().zip(KEYS) {
        let operations = operations.lock().expect("no panic");
        assert!(
            is_linearizable(&operations),
            "seed {seed}: {key} is not linearizable: {operations:#?}"
        );
    }
}

#[test]
fn each_key_is_linearizable_though_the_node_crashes() {
    each_seed(0..100, crash_and_recover);
}
