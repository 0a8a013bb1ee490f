//! The bound of a source and its wake-up under loom.

use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::room::{Room, SourceBound};

/// A source that holds `batches` and pauses, while each batch is removed by a thread of its own.
fn check(bound: SourceBound, batches: &'static [(u64, u64)]) {
    loom::model(move || {
        let room = Arc::new(Room::new(bound));
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        room.on_room(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        for &(lines, bytes) in batches {
            room.add(lines, bytes);
        }
        let remover = |&(lines, bytes): &(u64, u64)| {
            let room = room.clone();
            thread::spawn(move || room.remove(lines, bytes))
        };
        let removers: Vec<_> = batches.iter().map(remover).collect();
        let is_paused = room.pauses();
        removers
            .into_iter()
            .for_each(|remover| remover.join().unwrap());
        // One wake-up for each pause. A source that did not pause may have one: a notice without need.
        let woken = woken.load(Ordering::SeqCst);
        assert!(woken <= 1);
        assert!(!is_paused || woken == 1, "a wake-up is lost");
        assert!(room.is_below() && room.is_low());
    });
}

#[test]
fn loom_a_paused_source_is_woken_by_one_remover() {
    let bound = SourceBound {
        lines: 4,
        bytes: 100,
    };
    check(bound, &[(5, 10)]);
}

#[test]
fn loom_a_paused_source_is_woken_when_the_last_of_two_values_is_low() {
    // One batch has the lines, the other the bytes: the source is low after both.
    let bound = SourceBound {
        lines: 4,
        bytes: 100,
    };
    check(bound, &[(5, 1), (1, 150)]);
}

#[test]
fn loom_a_source_that_pauses_again_is_woken_again() {
    loom::model(|| {
        let room = Arc::new(Room::new(SourceBound {
            lines: 2,
            bytes: 100,
        }));
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        room.on_room(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        for _ in 0..2 {
            room.add(2, 1);
            let removing = room.clone();
            let remover = thread::spawn(move || removing.remove(2, 1));
            let is_paused = room.pauses();
            remover.join().unwrap();
            assert!(
                !is_paused || woken.swap(0, Ordering::SeqCst) == 1,
                "a wake-up is lost"
            );
        }
    });
}
