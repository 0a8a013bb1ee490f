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
    spsc::{Producer, Wake, heavy_barrier, ring},
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

/// As an actor that another signal wakes: the second sleep needs no barrier of its own.
#[test]
fn a_consumer_that_was_asleep_looks_and_sleeps_again() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(1);
        let token = Token::default();
        let given = token.clone();
        let sender = thread::spawn(move || {
            for value in 0..2 {
                let wake = push(&mut producer, value);
                given.give(wake);
            }
        });
        let mut next = 0;
        let mut is_second_sleep = false;
        while next < 2 {
            if let Some(value) = consumer.pop() {
                assert_eq!(*value, next);
                next += 1;
            } else if consumer.sleep() {
                if is_second_sleep {
                    token.wait();
                }
                is_second_sleep = !is_second_sleep;
            }
        }
        sender.join().expect("it has sent all");
    });
}

/// One barrier serves both rings.
#[test]
fn a_consumer_of_two_rings_sleeps_with_one_barrier() {
    loom::model(|| {
        let token = Token::default();
        let (senders, mut consumers): (Vec<_>, Vec<_>) = (0..2)
            .map(|number| {
                let (mut producer, mut consumer) = ring(1);
                // Awake, so that it must lie down.
                assert_eq!(producer.push(Box::new(0)), Ok(Wake::Yes));
                assert!(consumer.pop().is_some());
                consumer.publish();
                let given = token.clone();
                let send = move || given.give(push(&mut producer, number + 1));
                (thread::spawn(send), consumer)
            })
            .unzip();
        loop {
            // Each ring brings one message more. Then it is over, and would not sleep.
            consumers.retain_mut(|it| it.pop().is_none());
            if consumers.is_empty() {
                break;
            }
            let lie_down = consumers.iter_mut().map(|it| it.lie_down());
            if lie_down.fold(false, |any, it| any | it) {
                heavy_barrier();
            }
            // Each, so that none stays asleep unseen.
            if consumers
                .iter_mut()
                .fold(true, |all, it| all & it.is_asleep())
            {
                token.wait();
            }
        }
        for sender in senders {
            sender.join().expect("it has sent all");
        }
    });
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
