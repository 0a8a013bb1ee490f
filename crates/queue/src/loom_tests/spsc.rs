//! The ring of one producer under loom: order, reuse of slots, sleep, and close against a push.

use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{
    Refused,
    spsc::{Producer, Wake, ring},
};

/// A token, as a parked thread has.
#[derive(Clone, Default)]
struct Token(Arc<AtomicBool>);

impl Token {
    fn give(&self, wake: Wake) {
        if wake == Wake::Yes {
            self.0.swap(true, Ordering::AcqRel);
        }
    }

    fn wait(&self) {
        while !self.0.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// Pushes, and waits for capacity.
fn push(producer: &mut Producer<Box<u32>>, value: u32) -> Wake {
    let mut value = Box::new(value);
    loop {
        match producer.push(value) {
            Ok(wake) => return wake,
            Err(refused) => {
                value = refused.into_inner();
                thread::yield_now();
            }
        }
    }
}

/// A lost wake-up is a deadlock, which loom reports.
fn sends(bound: usize, count: u32) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(bound);
        let token = Token::default();
        let given = token.clone();
        let sender = thread::spawn(move || {
            for value in 0..count {
                let wake = push(&mut producer, value);
                given.give(wake);
            }
            given.give(producer.finish());
        });
        let mut next = 0;
        loop {
            while let Some(value) = consumer.pop() {
                assert_eq!(*value, next);
                next += 1;
            }
            if consumer.sleep() {
                token.wait();
            } else if consumer.is_finished() && !consumer.is_ready() {
                break;
            }
        }
        assert_eq!(next, count);
        sender.join().expect("it has sent all");
    });
}

#[test]
fn a_consumer_that_sleeps_gets_every_value() {
    sends(4, 2);
}

#[test]
fn a_slot_is_reused_after_its_value_was_taken() {
    sends(1, 2);
}

#[test]
fn a_value_is_accepted_or_comes_back() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2);
        let sender = thread::spawn(move || {
            let mut accepted = 0;
            for value in 0..2 {
                match producer.push(Box::new(value)) {
                    Ok(_) => accepted += 1,
                    Err(Refused::Closed(back)) => assert_eq!(*back, value),
                    Err(Refused::Full(_)) => unreachable!("there is capacity for both"),
                }
            }
            accepted
        });
        let mut taken = u64::from(consumer.pop().is_some());
        consumer.close();
        while consumer.pop().is_some() {
            taken += 1;
        }
        assert_eq!(sender.join().expect("no panic"), taken);
    });
}

#[test]
fn what_nobody_takes_is_dropped_once() {
    loom::model(|| {
        let (mut producer, consumer) = ring(2);
        let value = Arc::new(());
        let values = [value.clone(), value.clone()];
        let sender = thread::spawn(move || _ = producer.push_batch(values));
        drop(consumer);
        sender.join().expect("no panic");
        assert_eq!(Arc::strong_count(&value), 1);
    });
}
