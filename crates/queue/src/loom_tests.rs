//! The one-shot channel under loom: each pair of send, drop, poll and poll with another waker.

use std::{
    sync::Arc as StdArc,
    task::{Context, Poll, Wake, Waker},
};

use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::oneshot::{self, Receiver};

/// Counts its wakes.
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn wakes() -> (StdArc<Wakes>, Waker) {
    let wakes = StdArc::new(Wakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    (wakes, waker)
}

fn poll<T>(receiver: &mut Receiver<T>, waker: &Waker) -> Poll<Option<T>> {
    receiver.poll_recv(&mut Context::from_waker(waker))
}

/// Polls, and again after each wake, until it is ready. A lost wake-up is a deadlock, which loom reports.
fn receive<T>(receiver: &mut Receiver<T>, wakes: &Wakes, waker: &Waker) -> Option<T> {
    loop {
        let before = wakes.0.load(Ordering::SeqCst);
        if let Poll::Ready(value) = poll(receiver, waker) {
            return value;
        }
        while wakes.0.load(Ordering::SeqCst) == before {
            thread::yield_now();
        }
    }
}

/// Runs `sender` on another thread with a channel, `receiver` on this one. Loom reports values that leak;
/// the counts report wakers that do.
fn check(
    sender: impl Fn(oneshot::Sender<Arc<()>>) + Send + Sync + Copy + 'static,
    receiver: impl Fn(Receiver<Arc<()>>, &[(StdArc<Wakes>, Waker); 2]) + Send + Sync + 'static,
) {
    loom::model(move || {
        let (tx, rx) = oneshot::channel();
        let wakers = [wakes(), wakes()];
        let sending = thread::spawn(move || sender(tx));
        receiver(rx, &wakers);
        sending.join().unwrap();
        for (wakes, waker) in wakers {
            drop(waker);
            assert_eq!(StdArc::strong_count(&wakes), 1, "a waker was leaked");
        }
    });
}

fn send(sender: oneshot::Sender<Arc<()>>) {
    drop(sender.send(Arc::new(())));
}

fn give_up(sender: oneshot::Sender<Arc<()>>) {
    drop(sender);
}

#[test]
fn a_value_arrives_and_wakes() {
    check(send, |mut rx, [(wakes, waker), _]| {
        assert!(receive(&mut rx, wakes, waker).is_some());
    });
}

#[test]
fn a_dropped_sender_wakes_too() {
    check(give_up, |mut rx, [(wakes, waker), _]| {
        assert!(receive(&mut rx, wakes, waker).is_none());
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    check(send, |mut rx, [(_, first), (wakes, second)]| {
        if poll(&mut rx, first).is_pending() {
            assert!(receive(&mut rx, wakes, second).is_some());
        }
    });
    check(give_up, |mut rx, [(_, first), (wakes, second)]| {
        if poll(&mut rx, first).is_pending() {
            assert!(receive(&mut rx, wakes, second).is_none());
        }
    });
}

#[test]
fn a_receiver_may_be_dropped_at_any_moment() {
    for sender in [send, give_up] {
        check(sender, |rx, _| drop(rx));
        check(sender, |mut rx, [(_, waker), _]| {
            let _ = poll(&mut rx, waker);
        });
        check(sender, |mut rx, [(_, first), (_, second)]| {
            if poll(&mut rx, first).is_pending() {
                let _ = poll(&mut rx, second);
            }
        });
    }
}

#[test]
fn the_sender_sees_that_nobody_waits() {
    loom::model(|| {
        let (tx, rx) = oneshot::channel();
        let dropping = thread::spawn(move || drop(rx));
        let was_closed = tx.is_closed();
        let sent = tx.send(Arc::new(()));
        assert!(!was_closed || sent.is_err(), "closed, and yet sent");
        dropping.join().unwrap();
    });
}
