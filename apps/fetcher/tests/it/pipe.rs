//! A broker that another process uses, over pipes.

use std::{
    io::pipe,
    sync::{Arc, mpsc},
};

use freeboard_fetcher::broker::{
    Broker, Delivery, FarBroker, MemoryBroker, NearEnd, Notes, Queue, Unconfirmed,
};

use crate::common::{LONG, eventually, prefetch};

/// Both ends, and their notes.
fn ends(broker: Arc<dyn Broker>) -> ((NearEnd, Notes), (FarBroker, Notes)) {
    let (far_reads, near_writes) = pipe().expect("a pipe");
    let (near_reads, far_writes) = pipe().expect("a pipe");
    let near = NearEnd::start(broker, near_reads, near_writes).expect("threads");
    let far = FarBroker::start(far_reads, far_writes).expect("threads");
    (near, far)
}

#[test]
fn messages_are_confirmed_or_refused_and_delivered_in_order() {
    const COUNT: u32 = 5_000;
    const ROOM: u32 = 1_000;
    let memory = Arc::new(MemoryBroker::new(ROOM as usize));
    let (_near, (far, _notes)) = ends(memory.clone());
    let (sender, outcomes) = mpsc::channel();
    for number in 0..COUNT {
        let sender = sender.clone();
        let on_outcome = Box::new(move |outcome: Result<(), Unconfirmed>| {
            sender.send((number, outcome)).expect("it is waited for");
        });
        let body = number.to_le_bytes().to_vec().into();
        let published = far.publish_with(Queue::Priority1, body, on_outcome);
        published.expect("room for what is to be written");
    }
    // Nobody consumes, so the queue takes the first ones.
    for number in 0..COUNT {
        let outcome = match number {
            ..ROOM => Ok(()),
            _ => Err(Unconfirmed::Refused),
        };
        assert_eq!(outcomes.recv_timeout(LONG), Ok((number, outcome)));
    }
    let (sender, bodies) = mpsc::channel();
    let inbox = Box::new(move |delivery: Delivery| {
        sender
            .send(delivery.body().clone())
            .expect("it is waited for");
        delivery.ack();
        Ok(())
    });
    let consumer = far.consume(Queue::Priority1, prefetch(8), inbox);
    let _consumer = consumer.expect("it consumes");
    for number in 0..ROOM {
        let body = bodies.recv_timeout(LONG).expect("a delivery");
        assert_eq!(&body[..], &number.to_le_bytes());
    }
    eventually(|| memory.ledger(Queue::Priority1).acked == u64::from(ROOM));
    let ledger = far.ledger(Queue::Priority1);
    assert!(ledger.is_balanced() && memory.ledger(Queue::Priority1).is_balanced());
    let counts = (ledger.confirmed, ledger.refused, ledger.acked);
    assert_eq!(counts, (ROOM.into(), (COUNT - ROOM).into(), ROOM.into()));
}

#[test]
fn notes_go_both_ways_and_end_with_the_pipe() {
    let ((near, of_far), (far, of_near)) = ends(Arc::new(MemoryBroker::default()));
    near.note(b"to the other");
    far.note(b"and back");
    assert_eq!(of_near.recv_timeout(LONG).expect("a note"), "to the other");
    assert_eq!(of_far.recv_timeout(LONG).expect("a note"), "and back");
    drop(far);
    assert_eq!(
        of_far.recv_timeout(LONG),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
    drop(near);
    assert_eq!(
        of_near.recv_timeout(LONG),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
}
