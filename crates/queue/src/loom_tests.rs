//! The one-shot channel under loom: each pair of send, drop, poll and poll with another waker. The edges of wait-for
//! graphs. Credit, and the limit of values in flight. Values
//! that are polled when they are woken.

mod any_queue;
mod spsc;

use std::{
    ptr::NonNull,
    sync::Arc as StdArc,
    task::{Context, Poll, Wake, Waker},
};

use loom::{
    cell::UnsafeCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    Credit, Edge, InFlightLimit, PollSlot,
    oneshot::{self, Receiver},
};

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

fn poll<T>(receiver: &mut Receiver<T>, waker: &Waker) -> Poll<Result<T, u8>> {
    receiver.poll_recv(&mut Context::from_waker(waker))
}

/// Polls, and again after each wake, until it is ready. A lost wake-up is a deadlock, which loom reports.
fn receive<T>(receiver: &mut Receiver<T>, wakes: &Wakes, waker: &Waker) -> Result<T, u8> {
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

/// Runs `sender` on another thread with a channel, `receiver` on this one; once more with a channel that was already
/// polled with the first waker. Loom reports values that leak; the counts report wakers that do.
fn check(
    sender: impl Fn(oneshot::Sender<Arc<()>>) + Send + Sync + Copy + 'static,
    receiver: impl Fn(Receiver<Arc<()>>, &[(StdArc<Wakes>, Waker); 2]) + Send + Sync + Copy + 'static,
) {
    for is_polled in [false, true] {
        loom::model(move || {
            let wakers = [wakes(), wakes()];
            let (tx, rx) = if is_polled {
                oneshot::channel_polled_by(&wakers[0].1)
            } else {
                oneshot::channel()
            };
            let sending = thread::spawn(move || sender(tx));
            receiver(rx, &wakers);
            sending.join().unwrap();
            for (wakes, waker) in wakers {
                drop(waker);
                assert_eq!(StdArc::strong_count(&wakes), 1, "a waker was leaked");
            }
        });
    }
}

fn send(sender: oneshot::Sender<Arc<()>>) {
    drop(sender.send(Arc::new(())));
}

const REASON: u8 = 2;

fn defer_and_send(sender: oneshot::Sender<Arc<()>>) {
    sender.defer();
    send(sender);
}

fn give_up(sender: oneshot::Sender<Arc<()>>) {
    sender.close(REASON);
}

#[test]
fn a_value_arrives_and_wakes() {
    for sender in [send, defer_and_send] {
        check(sender, |mut rx, [(wakes, waker), _]| {
            assert!(receive(&mut rx, wakes, waker).is_ok());
        });
    }
}

#[test]
fn a_closed_sender_wakes_too_and_its_reason_arrives() {
    check(give_up, |mut rx, [(wakes, waker), _]| {
        assert!(matches!(receive(&mut rx, wakes, waker), Err(REASON)));
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    check(send, |mut rx, [(_, first), (wakes, second)]| {
        if poll(&mut rx, first).is_pending() {
            assert!(receive(&mut rx, wakes, second).is_ok());
        }
    });
    check(give_up, |mut rx, [(_, first), (wakes, second)]| {
        if poll(&mut rx, first).is_pending() {
            assert!(matches!(receive(&mut rx, wakes, second), Err(REASON)));
        }
    });
}

#[test]
fn a_receiver_may_be_dropped_at_any_moment() {
    for sender in [send, defer_and_send, give_up] {
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

/// The sender may have read the first waker's words when the receiver replaces them, and may complete after that.
#[test]
fn a_waker_that_is_replaced_twice() {
    check(send, |mut rx, [(wakes, first), (_, second)]| {
        if poll(&mut rx, first).is_pending() && poll(&mut rx, second).is_pending() {
            assert!(receive(&mut rx, wakes, first).is_ok());
        }
    });
}

/// Two owners set, follow and clear edges at the same time. A pointee that is read is valid: its owner writes it after the
/// edge is cleared, which loom would report.
#[test]
fn edges() {
    struct Node {
        edge: Edge<UnsafeCell<usize>>,
        pointee: Box<UnsafeCell<usize>>,
    }
    // SAFETY: as the protocol says, which loom checks.
    unsafe impl Sync for Node {}
    // SAFETY: as above.
    unsafe impl Send for Node {}

    loom::model(|| {
        let node = |to| {
            Arc::new(Node {
                edge: Edge::default(),
                pointee: Box::new(UnsafeCell::new(to)),
            })
        };
        let nodes = [node(1), node(0)];
        let wait = |nodes: &[Arc<Node>; 2], own: usize| {
            let (mine, other) = (&nodes[own], &nodes[1 - own]);
            let pointee = NonNull::from(&*mine.pointee);
            // SAFETY: the node outlives the edge.
            assert!(unsafe { mine.edge.add(pointee) });
            // SAFETY: the pointer is valid until the edge is cleared.
            let read =
                |it: NonNull<UnsafeCell<usize>>| unsafe { it.as_ref() }.with(|it| unsafe { *it });
            let is_circle = other.edge.follow(read) == Some(own);
            mine.edge.remove(pointee);
            // SAFETY: nobody reads it any more.
            mine.pointee.with_mut(|it| unsafe { *it = 2 });
            is_circle
        };
        let shared = nodes.clone();
        let other = thread::spawn(move || wait(&shared, 1));
        let first = wait(&nodes, 0);
        let second = other.join().expect("no panic");
        // The first one may have finished before the other began.
        let _ = (first, second);
    });
}

/// An owner waits for a second thing, and then for nothing, while another thread forgets the first one, or follows the
/// edge. Each pointee is written once nobody waits for it. (Two threads: loom cannot run two that wait for a reader.)
#[test]
fn several() {
    struct Node {
        edge: Edge<UnsafeCell<usize>>,
        pointees: [UnsafeCell<usize>; 2],
    }
    // SAFETY: as the protocol says, which loom checks.
    unsafe impl Sync for Node {}
    // SAFETY: as above.
    unsafe impl Send for Node {}

    impl Node {
        fn pointee(&self, index: usize) -> NonNull<UnsafeCell<usize>> {
            NonNull::from(&self.pointees[index])
        }

        fn write(&self, index: usize) {
            // SAFETY: nobody reads it any more.
            self.pointees[index].with_mut(|it| unsafe { *it = 2 });
        }

        fn follow(&self) -> Option<usize> {
            // SAFETY: the pointer is valid until the edge is cleared.
            self.edge
                .follow(|it| unsafe { it.as_ref() }.with(|it| unsafe { *it }))
        }
    }

    for forgets in [false, true] {
        loom::model(move || {
            let node = Arc::new(Node {
                edge: Edge::default(),
                pointees: [UnsafeCell::new(0), UnsafeCell::new(1)],
            });
            // SAFETY: the node outlives the edge.
            assert!(unsafe { node.edge.add(node.pointee(0)) });
            let shared = node.clone();
            let other = thread::spawn(move || {
                if !forgets {
                    let seen = shared.follow();
                    // The second one alone is never seen: the first one is still awaited.
                    assert!(matches!(seen, None | Some(0)), "{seen:?}");
                    return false;
                }
                let is_forgotten = shared.edge.forget(shared.pointee(0));
                if is_forgotten {
                    shared.write(0);
                }
                is_forgotten
            });
            // SAFETY: as above.
            let is_only = unsafe { node.edge.add(node.pointee(1)) };
            let taken = node.edge.take();
            node.write(1);
            if !forgets {
                node.write(0);
            }
            assert_eq!(taken, is_only.then(|| node.pointee(1)));
            assert!(node.edge.is_clear());
            assert_eq!(other.join().expect("no panic"), is_only);
        });
    }
}

/// Two owners whose edges close a circle at the same time, and stay: at least one of them sees it.
#[test]
fn circles() {
    loom::model(|| {
        let nodes: [Arc<(Edge<u32>, u32)>; 2] = [(); 2].map(|()| Arc::new((Edge::default(), 0)));
        let wait = |nodes: &[Arc<(Edge<u32>, u32)>; 2], own: usize| {
            // SAFETY: the nodes outlive the edges.
            unsafe { nodes[own].0.add(NonNull::from(&nodes[1 - own].1)) };
            nodes[1 - own].0.follow(|_| ()).is_some()
        };
        let shared = nodes.clone();
        let other = thread::spawn(move || wait(&shared, 1));
        let first = wait(&nodes, 0);
        assert!(
            first || other.join().expect("no panic"),
            "nobody sees the circle"
        );
    });
}

/// B asks A. A defers the reply, or sends it, and then asks C; C asks B. There is no circle, and C, which reads B's edge,
/// A's, and then B's again, does not see one.
#[test]
fn deferred_replies() {
    for sends in [false, true] {
        loom::model(move || {
            let (tx, rx) = oneshot::channel::<u32>();
            let slot = rx.head().expect("it is open");
            let (a, b) = (Arc::new(Edge::<u32>::default()), Edge::default());
            // SAFETY: the receiver lives until the end.
            unsafe { b.add(slot) };
            let (edge, target) = (a.clone(), Arc::new(0));
            let asked = target.clone();
            let replies = thread::spawn(move || {
                let kept = if sends {
                    tx.send(1).expect("it is open");
                    None
                } else {
                    tx.defer();
                    Some(tx)
                };
                // SAFETY: the target lives until the end.
                unsafe { edge.add(NonNull::from(&*asked)) };
                kept
            });
            // SAFETY: the slot is valid while it is read.
            let is_awaited =
                || b.follow(|slot| unsafe { slot.as_ref() }.is_awaited()) == Some(true);
            let is_circle = is_awaited() && a.follow(|_| ()).is_some() && is_awaited();
            assert!(!is_circle, "a circle that never was");
            drop(replies.join().expect("no panic"));
            b.remove(slot);
            drop((rx, target));
        });
    }
}

/// A asks B. B defers the reply, or sends it, and then asks A. There is no circle, and A, which adds its edge, reads B's
/// and at last whether its own ask is awaited, does not see one.
#[test]
fn replies_to_the_asker() {
    for sends in [false, true] {
        loom::model(move || {
            let (tx, rx) = oneshot::channel::<u32>();
            let slot = rx.head().expect("it is open");
            let (a, b) = (Edge::default(), Arc::new(Edge::<u32>::default()));
            let (edge, asked) = (b.clone(), Arc::new(0));
            let target = asked.clone();
            let replies = thread::spawn(move || {
                let kept = if sends {
                    tx.send(1).expect("it is open");
                    None
                } else {
                    tx.defer();
                    Some(tx)
                };
                // SAFETY: the target lives until the end.
                unsafe { edge.add(NonNull::from(&*target)) };
                kept
            });
            // SAFETY: the receiver lives until the end.
            unsafe { a.add(slot) };
            // SAFETY: as above.
            let is_awaited = || unsafe { slot.as_ref() }.is_awaited();
            let is_circle = b.follow(|_| ()).is_some() && is_awaited();
            assert!(!is_circle, "a circle that never was");
            drop(replies.join().expect("no panic"));
            a.remove(slot);
            drop((rx, asked));
        });
    }
}

/// Runs `changes` on threads of their own, while the sender, which has taken all of `window`, waits. Each change returns
/// how often it wakes. Once they have returned the whole credit, the sender is woken exactly once.
fn check_credit<const N: usize>(window: u64, changes: [fn(&Credit) -> u32; N]) {
    loom::model(move || {
        let credit = Arc::new(Credit::new(window));
        assert_eq!(credit.take(u64::MAX), window);
        let changing = changes.map(|change| {
            let credit = credit.clone();
            thread::spawn(move || change(&credit))
        });
        let waits = credit.wait();
        let woken: u32 = changing.map(|it| it.join().expect("no panic")).iter().sum();
        assert_eq!(woken, u32::from(waits), "lost, or twice");
        assert_eq!(credit.take(u64::MAX), credit.window(), "leaked, or twice");
    });
}

#[test]
fn returned_credit_wakes_the_sender_once() {
    let give_back = |credit: &Credit| u32::from(credit.give_back());
    check_credit(1, [give_back]);
    check_credit(2, [give_back, give_back]);
}

#[test]
fn another_window_wakes_the_sender_once() {
    let give_both_back =
        |credit: &Credit| u32::from(credit.give_back()) + u32::from(credit.give_back());
    let narrow = |credit: &Credit| u32::from(credit.set_window(1));
    let widen = |credit: &Credit| u32::from(credit.set_window(5));
    check_credit(2, [give_both_back, narrow]);
    check_credit(2, [give_both_back, widen]);
    check_credit(2, [give_both_back, widen, narrow]);
}

/// The sender takes while the window becomes smaller: nothing is taken twice, and the debt is exact.
#[test]
fn credit_is_taken_once() {
    loom::model(|| {
        let credit = Arc::new(Credit::new(2));
        let narrows = {
            let credit = credit.clone();
            thread::spawn(move || assert!(!credit.set_window(1), "nobody waits"))
        };
        let taken = credit.take(1) + credit.take(1);
        narrows.join().expect("no panic");
        assert!((1..=2).contains(&taken));
        (0..taken).for_each(|_| assert!(!credit.give_back()));
        assert_eq!(credit.take(u64::MAX), 1);
    });
}

/// A value leaves, and its sender enters the next one, while others enter: one of them is let through.
#[test]
fn a_refused_value_takes_no_capacity() {
    loom::model(|| {
        let limit = Arc::new(InFlightLimit::new(1));
        assert!(limit.try_enter(|it| it));
        let others = [(); 2].map(|()| {
            let limit = limit.clone();
            thread::spawn(move || limit.try_enter(|it| it))
        });
        limit.leave();
        let mut entered = u64::from(limit.try_enter(|it| it));
        for other in others {
            entered += u64::from(other.join().expect("no panic"));
        }
        assert_eq!(entered, 1);
        assert_eq!(limit.in_flight(), 1);
    });
}

/// Values enter and leave while the limit becomes smaller: the count is that of the values, and within the limit.
#[test]
fn the_count_of_values_is_exact_while_the_limit_changes() {
    loom::model(|| {
        let limit = Arc::new(InFlightLimit::new(2));
        let other = {
            let limit = limit.clone();
            thread::spawn(move || {
                limit.set(1);
                let entered = limit.try_enter(|it| it);
                assert!(!entered || limit.in_flight() <= 2, "above both limits");
                entered
            })
        };
        if limit.try_enter(|it| it) {
            limit.leave();
        }
        let entered = limit.try_enter(|it| it);
        let values = u64::from(entered) + u64::from(other.join().expect("no panic"));
        assert!(values > 0, "one of them finds the count below the limit");
        assert_eq!(limit.in_flight(), values);
        assert!(!limit.try_enter(|it| it));
    });
}

/// A value that is polled when a notice arrives.
struct Polled {
    slot: PollSlot<Arc<()>>,
    notices: Mutex<u32>,
    /// What wakers have made ready, and what the last poll has found.
    ready: AtomicUsize,
    found: AtomicUsize,
    dropped: AtomicUsize,
}

impl Polled {
    fn wake(&self) {
        self.ready.fetch_add(1, Ordering::SeqCst);
        if self.slot.notify() {
            *self.notices.lock().unwrap() += 1;
        }
    }

    /// Handles the notices that have arrived.
    fn run(&self) {
        loop {
            {
                let mut notices = self.notices.lock().unwrap();
                if *notices == 0 {
                    return;
                }
                *notices -= 1;
            }
            if let Some(value) = self.slot.begin() {
                let ready = self.ready.load(Ordering::SeqCst);
                self.found.store(ready, Ordering::SeqCst);
                self.count_dropped(self.slot.end(value));
            }
        }
    }

    fn count_dropped(&self, value: Option<Arc<()>>) {
        self.dropped
            .fetch_add(value.iter().count(), Ordering::SeqCst);
    }
}

/// Two threads wake the value, or one does and the other takes it away, while it is polled.
#[test]
fn a_woken_value_is_polled_and_dropped_once() {
    for cancels in [false, true] {
        loom::model(move || {
            let polled = Arc::new(Polled {
                slot: PollSlot::new(Arc::new(())),
                notices: Mutex::new(0),
                ready: AtomicUsize::new(0),
                found: AtomicUsize::new(0),
                dropped: AtomicUsize::new(0),
            });
            let others = [false, cancels].map(|cancels| {
                let polled = polled.clone();
                thread::spawn(move || {
                    if cancels {
                        polled.count_dropped(polled.slot.cancel());
                    } else {
                        polled.wake();
                    }
                })
            });
            polled.run();
            for other in others {
                other.join().expect("no panic");
            }
            assert!(*polled.notices.lock().unwrap() <= 1, "one at most");
            polled.run();
            if cancels {
                assert!(polled.slot.is_gone());
                assert_eq!(polled.dropped.load(Ordering::SeqCst), 1);
            } else {
                assert_eq!(polled.found.load(Ordering::SeqCst), 2, "a lost wake-up");
            }
        });
    }
}
