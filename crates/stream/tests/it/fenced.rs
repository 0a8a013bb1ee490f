//! States that are written by one epoch at a time: on a directory, and in all orders of steps that seeds choose.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use freeboard_flow::Epoch;
use freeboard_platform::thread;
use freeboard_stream::archive::{ArchiveOptions, FencedError, FencedStore, StateObjects};

use crate::crash::{
    Dice,
    seeds::{for_seeds, simulate},
};

fn epoch(revision: u64) -> Epoch {
    Epoch::new(1, revision)
}

fn on_directory(directory: &tempfile::TempDir) -> FencedStore {
    let url = format!("file://{}", directory.path().display());
    let objects = ArchiveOptions::new().open_states(&url).unwrap();
    FencedStore::new(objects, "some/actors")
}

#[test]
fn each_epoch_goes_on_with_the_state_of_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let store = on_directory(&directory);
    let (mut first, found) = store.open("a key/..", epoch(1)).unwrap();
    assert_eq!(found, None);
    first.put(b"one").unwrap();
    first.put(b"two").unwrap();
    let (mut second, found) = store.open("a key/..", epoch(2)).unwrap();
    assert_eq!(found.unwrap(), b"two");
    for _ in 0..2 {
        let refused = first.put(b"late").unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, FencedError::Stale(_)), "{text}");
        assert_eq!(text, "epoch 1.1 is stale: epoch 1.2 has opened it");
    }
    second.put(b"").unwrap();
    let refused = store.open("a key/..", epoch(1)).unwrap_err();
    assert!(matches!(refused, FencedError::Stale(_)), "{refused}");
    // The same activation again, whose earlier opening must write no more.
    let (mut again, found) = store.open("a key/..", epoch(2)).unwrap();
    assert_eq!(found.unwrap(), b"");
    assert!(second.put(b"late").is_err());
    again.put(b"three").unwrap();
    let (_, found) = store.open("another", epoch(1)).unwrap();
    assert_eq!(found, None);
}

#[test]
fn old_objects_are_removed_and_damage_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let store = on_directory(&directory);
    for revision in 1..10 {
        let (mut state, _) = store.open("key", epoch(revision)).unwrap();
        (0..10).for_each(|_| state.put(b"state").unwrap());
    }
    let folder = directory.path().join("some%2factors.key");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|it| it.unwrap().path()).collect();
    files.sort();
    // The marker and the newest state.
    assert_eq!(files.len(), 2, "{files:?}");
    let mut bytes = std::fs::read(&files[1]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&files[1], bytes).unwrap();
    let damaged = store.open("key", epoch(10)).unwrap_err();
    assert!(matches!(damaged, FencedError::Damaged { .. }), "{damaged}");
}

/// Objects in memory, of which requests fail now and then: before, or after they had their effect, or much later.
#[derive(Debug)]
struct Memory {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Writes that have timed out, and are still on their way.
    late: Vec<(String, Vec<u8>)>,
    dice: Dice,
    has_faults: bool,
}

impl Memory {
    /// Lets other threads take steps, before and after this one.
    fn step<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        thread::yield_now();
        let stepped = {
            let mut state = self.state.lock().unwrap();
            if state.dice.one_in(8)
                && let Some((name, bytes)) = state.late.pop()
            {
                state.objects.insert(name, bytes);
            }
            step(&mut state)
        };
        thread::yield_now();
        stepped
    }
}

impl StateObjects for Memory {
    fn list(&self, _folder: &str) -> io::Result<Vec<String>> {
        self.step(|state| Ok(state.objects.keys().cloned().collect()))
    }

    fn read(&self, _folder: &str, name: &str) -> io::Result<Vec<u8>> {
        self.step(|state| {
            let object = state.objects.get(name).cloned();
            object.ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn write(&self, _folder: &str, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.step(|state| {
            let name = name.to_owned();
            let is_failing = state.has_faults && state.dice.one_in(8);
            match state.dice.within(0..3) {
                0 if is_failing => {}
                1 if is_failing => state.late.push((name, bytes)),
                _ => drop(state.objects.insert(name, bytes)),
            }
            match is_failing {
                true => Err(io::ErrorKind::TimedOut.into()),
                false => Ok(()),
            }
        })
    }

    fn remove(&self, _folder: &str, name: &str) -> io::Result<()> {
        self.step(|state| {
            state.objects.remove(name);
            Ok(())
        })
    }
}

/// A value: the epoch that has put it, and which of its puts it was.
type Value = (u64, u64);

/// What an activation did: the value that it loaded, and the last one whose put was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Activation {
    revision: u64,
    loaded: Option<Value>,
    acknowledged: Option<Value>,
}

fn activate(store: &FencedStore, revision: u64, puts: u64) -> Option<Activation> {
    let (mut state, found) = store.open("key", epoch(revision)).ok()?;
    let text = found.map(|found| String::from_utf8(found).unwrap());
    let loaded = text.map(|text| {
        let (epoch, put) = text.split_once(' ').unwrap();
        (epoch.parse().unwrap(), put.parse().unwrap())
    });
    let mut acknowledged = None;
    for put in 1..=puts {
        match state.put(format!("{revision} {put}").as_bytes()) {
            Ok(()) => acknowledged = Some((revision, put)),
            Err(FencedError::Stale(_)) => break,
            Err(_) => {}
        }
    }
    Some(Activation {
        revision,
        loaded,
        acknowledged,
    })
}

/// Activations of several epochs, whose steps come in an order that the seed chooses.
fn interleave(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let memory = Arc::new(Memory {
        state: Mutex::new(State {
            objects: BTreeMap::new(),
            late: Vec::new(),
            has_faults: dice.one_in(2),
            dice: Dice::new(seed ^ 1),
        }),
    });
    let store = FencedStore::new(memory, "");
    let mut threads = Vec::new();
    for revision in 1..=dice.within(2..5) {
        let store = store.clone();
        let (pauses, puts) = (dice.within(0..60), dice.within(0..6));
        let thread = thread::Builder::new().name(format!("epoch-{revision}"));
        let thread = thread.spawn(move || {
            (0..pauses).for_each(|_| thread::yield_now());
            activate(&store, revision, puts)
        });
        threads.push(thread.unwrap());
    }
    let ended = threads.into_iter().filter_map(|it| it.join().unwrap());
    let mut activations: Vec<Activation> = ended.collect();
    activations.extend(activate(&store, 9, 0));
    for (index, newer) in activations.iter().enumerate() {
        for older in &activations[..index] {
            let lost = |what| Err(format!("{what}: {older:?}, {newer:?}"));
            if newer.loaded < older.acknowledged {
                return lost("an acknowledged value was not loaded");
            }
            // What the older one loaded stays, unless a value of it or of one after it has replaced it.
            let replaced = newer
                .loaded
                .is_some_and(|(epoch, _)| epoch >= older.revision);
            if newer.loaded != older.loaded && !replaced {
                return lost("a value of an epoch before has come back");
            }
        }
    }
    Ok(())
}

#[test]
fn an_acknowledged_value_is_loaded_by_each_later_epoch() {
    for_seeds(3_000, |seed| simulate(seed, interleave).map(drop));
}
