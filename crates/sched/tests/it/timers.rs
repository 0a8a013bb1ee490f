//! Timers: order, accuracy, repetition, cancelling, shutdown, and foreign code that panics.

use std::{
    mem,
    ops::Deref,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    task::{Wake, Waker},
    thread,
    time::Duration,
};

use freeboard_meter::clock;
use freeboard_sched::{NotSet, TimerKey, Timers};

use crate::common::{LIMIT, eventually};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Sends a number in its drop, which may then panic.
struct Token(Sender<u64>, u64, bool);

impl Token {
    /// A closure that calls this owns the token, not only its number.
    fn number(&self) -> u64 {
        self.1
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
        assert!(!self.2, "a drop, on purpose");
    }
}

struct Notify(Sender<u64>, u64);

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(self.1);
    }
}

fn waker(sender: &Sender<u64>, number: u64) -> Waker {
    Arc::new(Notify(sender.clone(), number)).into()
}

/// Timers that end with their test.
#[derive(Debug)]
struct TestTimers(Timers);

impl Deref for TestTimers {
    type Target = Timers;
    fn deref(&self) -> &Timers {
        &self.0
    }
}

impl Drop for TestTimers {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

fn timers<T>() -> (TestTimers, Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (TestTimers(Timers::new()), sender, receiver)
}

/// Sends `number` after `delay`.
fn send_after(timers: &Timers, delay: Duration, sender: &Sender<u64>, number: u64) -> TimerKey {
    let sender = sender.clone();
    let set = timers.after(delay, move |_| {
        let _ = sender.send(number);
        None
    });
    set.expect("a thread")
}

#[track_caller]
fn next<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(LIMIT).expect("it comes")
}

#[test]
fn timers_of_all_threads_fire_in_the_order_of_their_deadlines() {
    loop {
        let (timers, sender, receiver) = timers();
        let start_ns = clock::now_ns() + 100_000_000;
        thread::scope(|scope| {
            for first in 0..4_usize {
                let (timers, sender) = (&timers, &sender);
                scope.spawn(move || {
                    for number in (first..100).step_by(4).rev() {
                        let number = number as u64;
                        let due_ns = start_ns + number * 1_000;
                        let set = timers.wake_at(due_ns, waker(sender, number));
                        set.expect("a thread");
                    }
                });
            }
        });
        let were_set_in_time = clock::now_ns() < start_ns;
        let received: Vec<_> = (0..100).map(|_| next(&receiver)).collect();
        timers.shutdown();
        if were_set_in_time {
            assert!(received.is_sorted(), "{received:?}");
            return;
        }
    }
}

#[test]
fn no_timer_is_early() {
    let (timers, sender, receiver) = timers();
    for number in 0..2_000 {
        let delay_ns = number * 7_919 % 3_000_000;
        let due_ns = clock::now_ns() + delay_ns;
        let sender = sender.clone();
        let set = timers.after(Duration::from_nanos(delay_ns), move |_| {
            let _ = sender.send(clock::now_ns().checked_sub(due_ns));
            None
        });
        set.expect("a thread");
    }
    for _ in 0..2_000 {
        assert!(next(&receiver).is_some(), "a timer was early");
    }
    assert!(timers.is_empty() || timers.len() == 1, "{timers:?}");
}

#[test]
fn an_earlier_timer_does_not_wait_for_a_later_one() {
    let (timers, sender, receiver) = timers();
    send_after(&timers, HOUR, &sender, 1);
    send_after(&timers, MS, &sender, 2);
    assert_eq!(next(&receiver), 2);
    // The thread sleeps by now, and the cancelled timer's time is its plan.
    let cancelled = send_after(&timers, 2 * MS, &sender, 3);
    timers.cancel(cancelled);
    send_after(&timers, 3 * MS, &sender, 4);
    assert!(next(&receiver) >= 3);
}

#[test]
fn a_repeating_timer_keeps_its_key_and_does_not_drift() {
    let (timers, sender, receiver) = timers();
    let start_ns = clock::now_ns();
    let key = timers.after(MS, move |key| {
        let _ = sender.send((key, clock::now_ns()));
        Some(MS)
    });
    let key = key.expect("a thread");
    for number in 1..=50 {
        let (called, now_ns) = next(&receiver);
        assert_eq!(called, key);
        assert!(now_ns >= start_ns + number * 1_000_000, "a timer was early");
    }
    assert!(timers.cancel(key));
    assert!(!timers.cancel(key));
    eventually("its call is dropped", || {
        matches!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected))
    });
}

#[test]
fn a_timer_that_cannot_keep_its_pace_leaves_others_their_turn() {
    let (timers, sender, receiver) = timers();
    let busy = timers.after(Duration::ZERO, |_| Some(Duration::ZERO));
    send_after(&timers, 2 * MS, &sender, 1);
    assert_eq!(next(&receiver), 1);
    assert!(timers.cancel(busy.expect("a thread")));
}

#[test]
fn a_cancelled_timer_is_dropped_at_once_and_not_called() {
    let (timers, sender, receiver) = timers();
    let token = Token(sender.clone(), 1, false);
    let key = timers.after(HOUR, move |_| panic!("called with {}", token.number()));
    let key = key.expect("a thread");
    assert!(timers.cancel(key));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(!timers.cancel(key));
    let waker = waker(&sender, 2);
    let wake = timers.wake_at(u64::MAX, waker).expect("a thread");
    assert!(timers.cancel(wake));
    assert!(receiver.try_recv().is_err());
    assert!(timers.is_empty());
}

#[test]
fn a_timer_that_is_being_called_can_be_cancelled() {
    let timers = TestTimers(Timers::new());
    let (called, has_called) = mpsc::channel();
    let (resume, resumed) = mpsc::channel();
    let (dropped, is_dropped) = mpsc::channel();
    let token = Token(dropped, 1, false);
    let key = timers.after(Duration::ZERO, move |_| {
        let _ = called.send(token.number());
        let _ = resumed.recv_timeout(LIMIT);
        Some(Duration::ZERO)
    });
    let key = key.expect("a thread");
    next(&has_called);
    assert!(timers.cancel(key));
    assert!(!timers.cancel(key));
    assert!(timers.is_empty());
    resume.send(()).expect("the call waits");
    // It is dropped after this call, and the channel with it, so there was no other call.
    assert_eq!(next(&is_dropped), 1);
    assert!(has_called.recv().is_err());
}

#[test]
fn a_timer_that_was_called_for_the_last_time_cannot_be_cancelled() {
    let (timers, sender, receiver) = timers();
    let key = send_after(&timers, Duration::ZERO, &sender, 1);
    next(&receiver);
    eventually("the call returns", || timers.is_empty());
    assert!(!timers.cancel(key));
    let wake = timers.wake_at(0, waker(&sender, 2)).expect("a thread");
    assert_eq!(next(&receiver), 2);
    assert!(!timers.cancel(wake));
}

#[test]
fn a_call_may_cancel_its_own_timer_and_set_others() {
    let (timers, sender, receiver) = timers();
    let inner = timers.clone();
    let set = timers.after(Duration::ZERO, move |key| {
        assert!(inner.cancel(key));
        send_after(&inner, MS, &sender, 2);
        let _ = sender.send(1);
        Some(Duration::ZERO)
    });
    set.expect("a thread");
    assert_eq!((next(&receiver), next(&receiver)), (1, 2));
}

#[test]
fn a_key_does_not_name_the_timer_that_took_its_slot() {
    let (timers, sender, receiver) = timers();
    let mut old = Vec::new();
    for number in 0..1_000 {
        let key = send_after(&timers, HOUR, &sender, number);
        assert!(old.iter().all(|old| *old != key));
        assert!(old.iter().all(|old| !timers.cancel(*old)));
        assert!(timers.cancel(key));
        old.push(key);
    }
    send_after(&timers, MS, &sender, 7);
    assert!(old.iter().all(|old| !timers.cancel(*old)));
    assert_eq!(next(&receiver), 7);
}

#[test]
fn a_shutdown_drops_what_waits_wakes_wakers_and_refuses_new_timers() {
    let (timers, sender, receiver) = timers();
    let (called, has_called) = mpsc::channel();
    for number in 0..10 {
        let token = Token(sender.clone(), number, number % 2 == 0);
        let called = called.clone();
        let set = timers.after(HOUR, move |_| {
            let _ = called.send(token.number());
            None
        });
        set.expect("a thread");
    }
    let wake = timers.wake_at(u64::MAX, waker(&sender, 10));
    timers.shutdown();
    let mut dropped: Vec<_> = receiver.try_iter().collect();
    dropped.sort_unstable();
    assert!(dropped.into_iter().eq(0..=10));
    drop(called);
    assert!(has_called.recv().is_err(), "a timer of an hour was called");
    assert!(timers.is_empty());
    assert!(!timers.cancel(wake.expect("a thread")));

    let token = Token(sender.clone(), 11, false);
    let set = timers.after(MS, move |_| panic!("called with {}", token.number()));
    let NotSet { error, call } = set.expect_err("shut down");
    assert_eq!(error.to_string(), "the timers are shut down");
    assert!(receiver.try_recv().is_err(), "the call comes back");
    drop(call);
    assert_eq!(receiver.try_recv(), Ok(11));
    assert!(timers.wake_at(0, waker(&sender, 12)).is_err());
    assert!(receiver.try_recv().is_err());
}

#[test]
fn a_timer_is_pending_until_it_is_called_or_dropped() {
    let (timers, sender, receiver) = timers();
    let late_ns = clock::now_ns() + HOUR.as_nanos() as u64;
    let late = timers.wake_at(late_ns, waker(&sender, 1));
    let late = late.expect("a thread");
    let soon_ns = clock::now_ns();
    let soon = timers.wake_at(soon_ns, waker(&sender, 2));
    assert_eq!(next(&receiver), 2);
    assert!(!timers.is_pending(soon.expect("a thread"), soon_ns));
    assert!(timers.is_pending(late, late_ns));
    timers.shutdown();
    assert_eq!(next(&receiver), 1);
    assert!(!timers.is_pending(late, late_ns));
}

#[test]
fn a_shutdown_ends_the_thread() {
    let (timers, sender, receiver) = timers();
    thread_local! {
        static AT_END: Mutex<Option<Token>> = const { Mutex::new(None) };
    }
    let set = timers.after(Duration::ZERO, move |_| {
        AT_END.with(|it| *it.lock().expect("no panic") = Some(Token(sender.clone(), 1, false)));
        None
    });
    set.expect("a thread");
    eventually("it is called", || timers.is_empty());
    timers.shutdown();
    assert_eq!(next(&receiver), 1);
}

/// A panic's payload whose drop panics with another of the kind, `self.1` times.
struct Payload(Sender<u64>, u64);

impl Drop for Payload {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
        if self.1 > 0 {
            panic::panic_any(Payload(self.0.clone(), self.1 - 1));
        }
    }
}

#[test]
fn a_call_that_panics_is_dropped_with_its_payload() {
    let (timers, sender, receiver) = timers();
    let token = Token(sender.clone(), 1, true);
    let bad = timers.after(Duration::ZERO, move |_| {
        let _ = &token;
        panic::panic_any(Payload(token.0.clone(), 0))
    });
    bad.expect("a thread");
    assert_eq!((next(&receiver), next(&receiver)), (0, 1));
    let worse = sender.clone();
    let worse = timers.after(Duration::ZERO, move |_| {
        panic::panic_any(Payload(worse.clone(), 1))
    });
    worse.expect("a thread");
    assert_eq!((next(&receiver), next(&receiver)), (1, 0));
    struct BadWake;
    impl Wake for BadWake {
        fn wake(self: Arc<Self>) {
            panic!("a waker, on purpose");
        }
    }
    let set = timers.wake_at(0, Arc::new(BadWake).into());
    set.expect("a thread");
    send_after(&timers, MS, &sender, 5);
    assert_eq!(next(&receiver), 5);
}

#[test]
fn a_drop_that_panics_in_cancel_leaves_the_timers_whole() {
    let (timers, sender, receiver) = timers();
    let token = Token(sender.clone(), 1, true);
    let key = timers.after(HOUR, move |_| {
        let _ = &token;
        None
    });
    let key = key.expect("a thread");
    let cancelled = panic::catch_unwind(AssertUnwindSafe(|| timers.cancel(key)));
    assert!(cancelled.is_err());
    assert_eq!(next(&receiver), 1);
    assert!(!timers.cancel(key));
    send_after(&timers, MS, &sender, 2);
    assert_eq!(next(&receiver), 2);
}

#[test]
fn a_million_timers_are_set_cancelled_and_called() {
    let (timers, sender, receiver) = timers();
    let soon_ns = clock::now_ns() + 50_000_000;
    let mut keys: Vec<_> = (0..1_000_000)
        .map(|number| {
            // Every second one is due within an hour, the others within a few milliseconds.
            let due_ns = match number % 2 {
                0 => soon_ns + HOUR.as_nanos() as u64 / 1_000_000 * (1_000_000 + number),
                _ => soon_ns + number * 7,
            };
            timers
                .wake_at(due_ns, waker(&sender, number))
                .expect("a thread")
        })
        .collect();
    let mut called: Vec<_> = (0..500_000).map(|_| next(&receiver)).collect();
    called.sort_unstable();
    assert!(called.into_iter().eq((1..1_000_000).step_by(2)));
    assert_eq!(timers.len(), 500_000);
    let cancelled = mem::take(&mut keys)
        .into_iter()
        .filter(|key| timers.cancel(*key))
        .count();
    assert_eq!(cancelled, 500_000);
    assert!(timers.is_empty());
}

#[test]
fn threads_set_and_cancel_at_once_and_nothing_is_lost() {
    let (timers, sender, receiver) = timers();
    let cancelled: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|first| {
                let (timers, sender) = (&timers, sender.clone());
                scope.spawn(move || {
                    let mut cancelled = Vec::new();
                    let mut keys = Vec::new();
                    for number in (first..40_000).step_by(4) {
                        let due_ns = clock::now_ns() + number * 37 % 200_000;
                        let set = timers.wake_at(due_ns, waker(&sender, number));
                        keys.push((number, set.expect("a thread")));
                        if number % 3 == 0 {
                            let (number, key) = keys.swap_remove(keys.len() / 2);
                            cancelled.extend(timers.cancel(key).then_some(number));
                        }
                    }
                    cancelled
                })
            })
            .collect();
        let threads = threads.into_iter();
        threads
            .flat_map(|it| it.join().expect("no panic"))
            .collect()
    });
    let mut all = cancelled;
    let called = 40_000 - all.len();
    all.extend((0..called).map(|_| next(&receiver)));
    all.sort_unstable();
    assert!(all.into_iter().eq(0..40_000));
    assert!(receiver.try_recv().is_err());
}
