//! A source of the poller under loom.

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

use crate::poller::{Ready, source::Source};

/// Two polls find different readiness, and the owner runs for each call: it takes both.
#[test]
fn loom_no_readiness_is_left_behind() {
    loom::model(|| {
        let source = Arc::new(Source::new(0, Box::new(|| ())));
        let taken = Arc::new(AtomicU8::new(0));
        // One thread at a time runs an owner.
        let owner = Arc::new(Mutex::new(()));
        let polls: Vec<_> = [1, 2]
            .map(|bits| {
                let (source, taken, owner) = (source.clone(), taken.clone(), owner.clone());
                thread::spawn(move || {
                    if source.set_ready(Ready::from_bits(bits), 7) {
                        let _running = owner.lock().unwrap();
                        let _ = source.settle();
                        taken.fetch_or(source.take().bits(), Ordering::SeqCst);
                    }
                })
            })
            .into();
        for poll in polls {
            poll.join().unwrap();
        }
        assert_eq!(taken.load(Ordering::SeqCst), 3);
    });
}

/// A registration ends while a poll finds its source: an owner that was called is counted as dropped.
#[test]
fn loom_no_dropped_owner_is_waited_for() {
    loom::model(|| {
        let source = Arc::new(Source::new(0, Box::new(|| ())));
        let sources = Arc::new(Mutex::new(Some(source.clone())));
        let poll = {
            let sources = sources.clone();
            thread::spawn(move || {
                let sources = sources.lock().unwrap();
                let source = sources.as_ref();
                source.is_some_and(|source| source.set_ready(Ready::from_bits(1), 7))
            })
        };
        // As `Registration::drop` does.
        *sources.lock().unwrap() = None;
        let is_dropped = source.settle().is_some();
        let is_called = poll.join().unwrap();
        assert_eq!(is_called, is_dropped);
    });
}
