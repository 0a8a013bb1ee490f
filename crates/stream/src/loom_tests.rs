//! The demand's protocol under all interleavings, as far as loom goes.

use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::writer::Demand;

/// What the desk's lock guards.
#[derive(Default)]
struct Desk {
    is_busy: bool,
    taken: usize,
}

struct Model {
    demand: Demand,
    shard: Mutex<usize>,
    desk: Mutex<Desk>,
    bell: Condvar,
}

impl Model {
    fn work(&self) {
        self.demand.lower();
        let records = std::mem::take(&mut *self.shard.lock().unwrap());
        let mut desk = self.desk.lock().unwrap();
        desk.is_busy = false;
        desk.taken += records;
    }

    /// Appends, and blocks: works itself if nobody does.
    fn wait(&self) {
        *self.shard.lock().unwrap() += 1;
        if !self.demand.raise() {
            return;
        }
        let mut desk = self.desk.lock().unwrap();
        if desk.is_busy {
            return;
        }
        desk.is_busy = true;
        drop(desk);
        self.work();
        let desk = self.desk.lock().unwrap();
        if desk.taken == 2 || self.demand.is_raised() && !desk.is_busy {
            self.bell.notify_one();
        }
    }

    /// The writer thread, until both records are taken.
    fn write(&self) {
        let mut desk = self.desk.lock().unwrap();
        while desk.taken < 2 {
            if self.demand.is_raised() && !desk.is_busy {
                desk.is_busy = true;
                drop(desk);
                self.work();
                desk = self.desk.lock().unwrap();
            } else {
                desk = self.bell.wait(desk).unwrap();
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
            desk: Mutex::new(Desk::default()),
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
            let mut desk = bell.0.lock().unwrap();
            while !demand.is_raised() {
                desk = bell.1.wait(desk).unwrap();
            }
            drop(desk);
            demand.lower();
            taken += std::mem::take(&mut *shard.lock().unwrap());
        }
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
    });
}
