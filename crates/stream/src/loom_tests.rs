//! The demand's protocol under all interleavings, as far as loom goes.

use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::writer::Demand;

/// What the state's lock guards.
#[derive(Default)]
struct WriterState {
    is_busy: bool,
    taken: usize,
}

struct Model {
    demand: Demand,
    shard: Mutex<usize>,
    state: Mutex<WriterState>,
    bell: Condvar,
}

impl Model {
    fn work(&self) {
        self.demand.lower();
        let records = std::mem::take(&mut *self.shard.lock().unwrap());
        let mut state = self.state.lock().unwrap();
        state.is_busy = false;
        state.taken += records;
    }

    /// Appends, and blocks: works itself if nobody does.
    fn wait(&self) {
        *self.shard.lock().unwrap() += 1;
        if !self.demand.raise() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        if state.is_busy {
            return;
        }
        state.is_busy = true;
        drop(state);
        self.work();
        let state = self.state.lock().unwrap();
        if state.taken == 2 || self.demand.is_raised() && !state.is_busy {
            self.bell.notify_one();
        }
    }

    /// The writer thread, until both records are taken.
    fn write(&self) {
        let mut state = self.state.lock().unwrap();
        while state.taken < 2 {
            if self.demand.is_raised() && !state.is_busy {
                state.is_busy = true;
                drop(state);
                self.work();
                state = self.state.lock().unwrap();
            } else {
                state = self.bell.wait(state).unwrap();
            }
        }
    }
}

/// Two that wait may do the work themselves; what is left is the writer's.
#[test]
fn who_helps_leaves_nobody_behind() {
    loom::model(|| {
        let model = Arc::new(Model {
            demand: Demand::new(),
            shard: Mutex::new(0),
            state: Mutex::new(WriterState::default()),
            bell: Condvar::new(),
        });
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || model.wait())
            })
            .collect();
        model.write();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// Two waiters and a writer that sleeps while the flag is down: both records are taken.
#[test]
fn no_waiter_is_left_behind() {
    loom::model(|| {
        let demand = Arc::new(Demand::new());
        let shard = Arc::new(Mutex::new(0));
        let bell = Arc::new((Mutex::new(()), Condvar::new()));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (demand, shard, bell) = (demand.clone(), shard.clone(), bell.clone());
                thread::spawn(move || {
                    *shard.lock().unwrap() += 1;
                    if demand.raise() {
                        let _desk = bell.0.lock().unwrap();
                        bell.1.notify_one();
                    }
                })
            })
            .collect();
        let mut taken = 0;
        while taken < 2 {
            let mut state = bell.0.lock().unwrap();
            while !demand.is_raised() {
                state = bell.1.wait(state).unwrap();
            }
            drop(state);
            demand.lower();
            taken += std::mem::take(&mut *shard.lock().unwrap());
        }
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
    });
}
