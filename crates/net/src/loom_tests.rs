//! A source under all interleavings, as far as loom goes.

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

use crate::poller::{Ready, source::Source};

/// Two looks that find different things, and an owner that runs for each call: it takes both, each once
/// it was called for it.
#[test]
fn loom_no_readiness_is_left_behind() {
    loom::model(|| {
        let source = Arc::new(Source::new(0, Box::new(|| ())));
        let taken = Arc::new(AtomicU8::new(0));
        // One thread at a time runs an actor.
        let owner = Arc::new(Mutex::new(()));
        let looks: Vec<_> = [1, 2]
            .map(|bits| {
                let (source, taken, owner) = (source.clone(), taken.clone(), owner.clone());
                thread::spawn(move || {
                    if source.found(Ready::from_bits(bits), 7) {
                        let _running = owner.lock().unwrap();
                        let _ = source.settle();
                        taken.fetch_or(source.take().bits(), Ordering::SeqCst);
                    }
                })
            })
            .into();
        for look in looks {
            look.join().unwrap();
        }
        assert_eq!(taken.load(Ordering::SeqCst), 3);
    });
}
