//! Shared by the board's tests: systems with blocked actors, and waiting for conditions.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod http;
#[cfg(unix)]
pub(crate) mod page;

use std::{
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnOptions, System};

/// The deadline of a condition. Only a failing test takes that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::yield_now();
    }
}

/// A system with a worker for each of up to 8 blocked actors.
pub(crate) fn quiet_system(name: &str) -> System {
    System::builder().name(name).workers(8).build().unwrap()
}

/// Blocks actors until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    held: usize,
}

impl Gate {
    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.held += 1;
        while !state.is_open {
            state = changed.wait_timeout(state, LIMIT).unwrap().0;
        }
    }

    fn held(&self) -> usize {
        self.0.0.lock().unwrap().held
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
    }
}

/// Opens the gate when it is dropped.
pub(crate) struct Opens(Gate);

impl Opens {
    pub(crate) fn open(&self) {
        self.0.open();
    }
}

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// An actor that stays in its first message until the gate opens.
pub(crate) struct Held {
    gate: Option<Gate>,
}

pub(crate) struct Stay;
pub(crate) struct Note;

impl Actor for Held {}

impl Handler<Stay> for Held {
    type Reply = ();

    fn handle(&mut self, _: Stay, _: &mut Context<Self>) {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
    }
}

impl Handler<Note> for Held {
    type Reply = ();

    fn handle(&mut self, _: Note, _: &mut Context<Self>) {}
}

/// Actors `held-0`, `held-1` and so on with these depths. The first message of each blocks it, and counts until it is
/// handled.
pub(crate) fn told(system: &System, depths: &[u64]) -> (Vec<ActorRef<Held>>, Opens) {
    let gate = Gate::default();
    let actors: Vec<_> = (0..depths.len())
        .map(|index| {
            let actor = Held {
                gate: Some(gate.clone()),
            };
            let options = SpawnOptions::new().name(format!("held-{index}"));
            system.spawn_once(options, actor).unwrap()
        })
        .collect();
    for actor in &actors {
        actor.tell(Stay).unwrap();
    }
    eventually("all are held", || gate.held() == depths.len());
    for (actor, depth) in actors.iter().zip(depths) {
        for _ in 1..*depth {
            actor.tell(Note).unwrap();
        }
    }
    (actors, Opens(gate))
}

/// Actors that do nothing.
pub(crate) fn spawn_idle(system: &System, number: usize) {
    for _ in 0..number {
        system.spawn(Held { gate: None });
    }
}
