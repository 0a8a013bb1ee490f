//! The wheel against a plain list of timers, in virtual time.

use proptest::prelude::*;

use super::wheel::{TimerKey, Wheel, taken_ns};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// In so many nanoseconds from now, or that long ago.
    Insert(i64),
    /// Of all keys ever used.
    Remove(usize),
    Reschedule(usize, i64),
    /// Time passes, and so many steps of work are done at once.
    Pass(u64, usize),
    /// Time passes until the wheel says that there is something to do.
    PassToNext,
}

/// Of every order of magnitude.
fn delay() -> impl Strategy<Value = i64> {
    (0..62_u32, any::<u32>()).prop_map(|(bits, low)| {
        let high = 1_i64 << bits;
        let delay = high | i64::from(low) & (high - 1);
        if low % 16 == 0 { -delay } else { delay }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => delay().prop_map(Step::Insert),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (any::<usize>(), delay()).prop_map(|(index, delay)| Step::Reschedule(index, delay)),
        2 => (delay(), 1..50_usize)
            .prop_map(|(delay, steps)| Step::Pass(delay.unsigned_abs(), steps)),
        4 => Just(Step::PassToNext),
    ]
}

#[derive(Debug)]
struct Timer {
    key: TimerKey,
    value: usize,
    due_ns: u64,
    /// When the wheel has to hand it out: an overdue one is taken with the next tick.
    taken_ns: u64,
    /// The wheel has handed it out.
    is_taken: bool,
    is_removed: bool,
}

/// The wheel, and the plain list of all timers that it ever held.
struct Pair {
    wheel: Wheel<usize>,
    timers: Vec<Timer>,
    now_ns: u64,
}

impl Pair {
    /// When a timer is due, and when it is taken.
    fn times(&self, delay: i64) -> (u64, u64) {
        let due_ns = self.now_ns.saturating_add_signed(delay);
        (due_ns, taken_ns(due_ns.max(self.now_ns + 1)))
    }

    fn insert(&mut self, delay: i64) {
        let ((due_ns, taken_ns), value) = (self.times(delay), self.timers.len());
        let key = self.wheel.insert(due_ns, value);
        assert!(self.timers.iter().all(|timer| timer.key != key));
        self.timers.push(Timer {
            key,
            value,
            due_ns,
            taken_ns,
            is_taken: false,
            is_removed: false,
        });
    }

    fn remove(&mut self, index: usize) {
        let count = self.timers.len().max(1);
        let Some(timer) = self.timers.get_mut(index % count) else {
            return;
        };
        let removed = self.wheel.remove(timer.key);
        assert_eq!(removed, (!timer.is_removed).then_some(timer.value));
        timer.is_removed = true;
    }

    fn reschedule(&mut self, index: usize, delay: i64) {
        let (due_ns, taken_ns) = self.times(delay);
        let mut taken = self
            .timers
            .iter_mut()
            .filter(|it| it.is_taken && !it.is_removed);
        if let Some(timer) = taken.nth(index % 4) {
            self.wheel.reschedule(timer.key, due_ns);
            (timer.due_ns, timer.taken_ns, timer.is_taken) = (due_ns, taken_ns, false);
        }
    }

    /// Takes what is due, `steps` at a time, with an insertion in each pause.
    fn take(&mut self, steps: usize) {
        let mut due = Vec::new();
        while !self.wheel.take_due(self.now_ns, steps, &mut due) {
            if self.timers.len() < 1_000 {
                self.insert(1 << 40);
            }
        }
        for (due_ns, key) in due {
            let timer = self.timers.iter_mut().find(|timer| timer.key == key);
            let timer = timer.expect("it was set");
            assert!(!timer.is_taken && !timer.is_removed);
            assert_eq!(timer.due_ns, due_ns);
            assert!(due_ns <= self.now_ns, "{timer:?} is early");
            timer.is_taken = true;
        }
        let waiting = || {
            self.timers
                .iter()
                .filter(|it| !it.is_taken && !it.is_removed)
        };
        for timer in waiting() {
            assert!(timer.taken_ns > self.now_ns, "{timer:?} is late");
        }
        assert_eq!(self.wheel.next_ns().is_some(), waiting().next().is_some());
        if let Some(next_ns) = self.wheel.next_ns() {
            assert!(next_ns > self.now_ns || next_ns == u64::MAX);
            assert!(waiting().all(|timer| next_ns <= timer.taken_ns));
        }
        let held = self.timers.iter().filter(|it| !it.is_removed);
        assert_eq!(self.wheel.len(), held.count());
    }
}

proptest! {
    #[test]
    fn the_wheel_takes_what_a_list_would(
        start_ns in any::<u32>(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let now_ns = u64::from(start_ns);
        let wheel = Wheel::new(3, now_ns);
        let mut pair = Pair { wheel, timers: Vec::new(), now_ns };
        for step in steps {
            match step {
                Step::Insert(delay) => pair.insert(delay),
                Step::Remove(index) => pair.remove(index),
                Step::Reschedule(index, delay) => pair.reschedule(index, delay),
                Step::Pass(delay_ns, steps) => {
                    // Far from the end of time, where every later tick is the last.
                    pair.now_ns = pair.now_ns.saturating_add(delay_ns).min(u64::MAX / 2);
                    pair.take(steps);
                }
                Step::PassToNext => {
                    let next_ns = pair.wheel.next_ns().unwrap_or(0).min(u64::MAX / 2);
                    pair.now_ns = pair.now_ns.max(next_ns);
                    pair.take(usize::MAX);
                }
            }
        }
        for timer in &pair.timers {
            let held = pair.wheel.get_mut(timer.key).copied();
            assert_eq!(held, (!timer.is_removed).then_some(timer.value));
        }
        let mut values: Vec<_> = pair.wheel.into_values().collect();
        values.sort_unstable();
        let held = pair.timers.iter().filter(|it| !it.is_removed);
        assert!(values.into_iter().eq(held.map(|timer| timer.value)));
    }
}

#[test]
fn a_timer_moves_down_at_most_once_per_level() {
    let mut wheel = Wheel::new(0, 0);
    wheel.insert(u64::MAX / 2, ());
    let mut due = Vec::new();
    let mut wakes = 0;
    while due.is_empty() {
        let next_ns = wheel.next_ns().expect("it waits");
        assert!(wheel.take_due(next_ns, usize::MAX, &mut due) && wakes < 9);
        wakes += 1;
    }
}

#[test]
fn a_slot_of_a_million_is_taken_in_bounded_steps() {
    let mut wheel = Wheel::new(0, 0);
    let due_ns = 1 << 50;
    let keys: Vec<_> = (0..1_000_000)
        .map(|value| wheel.insert(due_ns, value))
        .collect();
    let (mut due, mut pauses) = (Vec::new(), 0);
    while !wheel.take_due(due_ns, 1_000, &mut due) {
        pauses += 1;
        assert_eq!(wheel.next_ns().map(|next_ns| next_ns <= due_ns), Some(true));
    }
    assert!(pauses >= 1_000);
    due.sort_unstable();
    assert!(due.into_iter().map(|(_, key)| key).eq(keys));
}
