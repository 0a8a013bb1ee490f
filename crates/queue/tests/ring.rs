//! The ring against a plain deque, its bounds, and many threads against one consumer.
#![cfg(not(loom))]

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use freeboard_queue::{PLAIN_MARK, Popped, Refused, Ring};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Push,
    GiveUp,
    Pop,
    PopInPlace,
    Publish,
    TakeFirst(u8),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => Just(Step::Push),
        3 => Just(Step::GiveUp),
        25 => Just(Step::Pop),
        15 => Just(Step::PopInPlace),
        10 => Just(Step::Publish),
        5 => any::<u8>().prop_map(Step::TakeFirst),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 0..900)
}

/// What a ring of `bound` values has to do. A place is `None` if it is a hole.
struct Model {
    /// Values and their marks.
    places: VecDeque<Option<(u64, u64)>>,
    bound: u64,
    head: u64,
    published: u64,
    accepted: u64,
    is_closed: bool,
}

impl Model {
    fn end(&self) -> u64 {
        self.head + self.places.len() as u64
    }

    fn push(&mut self, place: Option<u64>) -> Result<u64, Refused<()>> {
        if self.is_closed {
            return Err(Refused::Closed(()));
        }
        if self.end() == self.published + self.bound {
            return Err(Refused::Full(()));
        }
        let mark = mark(self.end());
        self.places.push_back(place.map(|value| (value, mark)));
        self.accepted += u64::from(place.is_some());
        Ok(self.end() - 1)
    }

    fn pass_holes(&mut self) {
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.head += 1;
        }
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        self.pass_holes();
        let value = self.places.pop_front()?;
        self.head += 1;
        // A narrow ring tells each pop at once.
        if self.bound <= 255 {
            self.published = self.head;
        }
        value
    }

    fn take_first(&mut self, wanted: impl Fn(&u64) -> bool) -> Option<u64> {
        let is_wanted = |place: &Option<(u64, u64)>| place.is_some_and(|(value, _)| wanted(&value));
        let at = self.places.iter().position(is_wanted);
        let behind = self
            .places
            .split_off(at.map_or(self.places.len(), |at| at + 1));
        let taken = at.and_then(|_| self.places.pop_back()).flatten();
        // All holes that it looked past come to the head, with the one that it leaves.
        let end = self.end() + u64::from(taken.is_some());
        self.places.retain(Option::is_some);
        self.head = end - self.places.len() as u64;
        self.places.extend(behind);
        self.publish();
        taken.map(|(value, _)| value)
    }

    fn publish(&mut self) {
        self.pass_holes();
        self.published = self.head;
    }
}

/// A mark that tells which index it was made of.
fn mark(index: u64) -> u64 {
    index + 7
}

proptest! {
    /// One thread does what it likes; the ring answers as a deque with a bound does.
    #[test]
    fn ring_follows_a_deque(steps in steps(), bound in prop_oneof![1_u64..40, 250_u64..260]) {
        let ring = Ring::new(bound);
        let mut model = Model {
            places: VecDeque::new(),
            bound,
            head: 0,
            published: 0,
            accepted: 0,
            is_closed: false,
        };
        for (number, step) in steps.into_iter().enumerate() {
            let number = number as u64;
            match step {
                Step::Push => {
                    let pushed = ring.push_with(Box::new(number), mark);
                    if let Err(Refused::Full(value) | Refused::Closed(value)) = &pushed {
                        prop_assert_eq!(**value, number);
                    }
                    let pushed = pushed.map_err(|refused| match refused {
                        Refused::Full(_) => Refused::Full(()),
                        Refused::Closed(_) => Refused::Closed(()),
                    });
                    prop_assert_eq!(pushed, model.push(Some(number)));
                }
                Step::GiveUp => {
                    let index = ring.reserve().map(|place| place.index());
                    prop_assert_eq!(index, model.push(None));
                }
                Step::Pop => {
                    // SAFETY: this thread is the only consumer.
                    let popped = unsafe { ring.pop() };
                    let expected = match model.pop() {
                        Some((value, mark)) => Popped::Value(Box::new(value), mark),
                        None => Popped::Empty,
                    };
                    prop_assert_eq!(popped, expected);
                }
                Step::PopInPlace => {
                    // SAFETY: as above.
                    let popped = unsafe { ring.pop_in_place() };
                    let expected = model.pop();
                    // The place of a value that is still there is nobody else's.
                    if expected.is_some() && ring.push_with(Box::new(number), mark).is_ok() {
                        prop_assert!(model.push(Some(number)).is_ok());
                    }
                    // SAFETY: moved out once, before the next consumer call.
                    let popped = popped.map(|(value, mark)| (*unsafe { value.read() }, mark));
                    prop_assert_eq!(popped, expected);
                }
                Step::Publish => {
                    // SAFETY: as above.
                    let depth = unsafe { ring.publish() };
                    model.publish();
                    prop_assert_eq!(depth, model.places.len() as u64);
                }
                Step::TakeFirst(modulus) => {
                    let wanted = |value: &u64| *value % (u64::from(modulus) + 1) == 1;
                    // SAFETY: as above.
                    let taken = unsafe { ring.take_first(|value| wanted(value)) };
                    prop_assert_eq!(taken.map(|value| *value), model.take_first(wanted));
                }
                Step::Close => {
                    prop_assert_eq!(ring.close(), !model.is_closed);
                    model.is_closed = true;
                }
            }
            prop_assert_eq!(ring.is_closed(), model.is_closed);
            prop_assert_eq!(ring.accepted(), model.accepted);
            prop_assert_eq!(ring.depth(), model.end() - model.published);
            // SAFETY: as above.
            unsafe {
                prop_assert_eq!(ring.queued(), model.places.len() as u64);
                prop_assert_eq!(ring.is_drained(), model.places.is_empty());
                model.pass_holes();
                prop_assert_eq!(ring.is_ready(), !model.places.is_empty());
            }
        }
    }
}

/// Exactly the bound fits, lap after lap, whatever the number of slots is.
#[test]
fn the_bound_is_exact() {
    for bound in [1, 2, 3, 5, 100, 255, 256, 257, 1_000, 1_024, 4_095] {
        let ring = Ring::new(bound);
        assert_eq!(ring.bound(), bound);
        for lap in 0..5 {
            for number in 0..bound {
                assert_eq!(ring.push(number), Ok(lap * bound + number));
            }
            assert_eq!(ring.push(bound), Err(Refused::Full(bound)));
            assert_eq!(ring.depth(), bound);
            for number in 0..bound {
                // SAFETY: this thread is the only consumer.
                assert_eq!(unsafe { ring.pop() }, Popped::Value(number, PLAIN_MARK));
            }
            // SAFETY: as above.
            unsafe {
                assert_eq!(ring.pop(), Popped::Empty);
                assert_eq!(ring.publish(), 0);
            }
        }
    }
}

#[test]
fn bounds_of_no_use_are_refused() {
    for bound in [0, Ring::<u8>::BOUND_MAX + 1, u64::MAX] {
        assert!(
            catch_unwind(|| Ring::<u8>::new(bound)).is_err(),
            "{bound} was taken"
        );
    }
}

/// Slots are whole cache lines: an envelope of 56 bytes does not straddle two.
#[test]
fn values_of_56_bytes_lie_in_one_cache_line() {
    let ring = Ring::new(300);
    for number in 0..300 {
        ring.push([number; 7]).unwrap();
    }
    for number in 0..300 {
        // SAFETY: this thread is the only consumer.
        let (value, _) = unsafe { ring.pop_in_place() }.unwrap();
        assert_eq!(value.addr().get() % 64, 8, "behind its mark");
        // SAFETY: moved out once, before the next consumer call.
        assert_eq!(unsafe { value.read() }, [number; 7]);
    }
}

/// A value whose making panics leaves a hole, which the consumer steps over.
#[test]
fn a_panic_in_the_making_leaves_a_hole() {
    let ring = Ring::new(4);
    let making = catch_unwind(AssertUnwindSafe(|| {
        let place = ring.reserve().unwrap();
        // SAFETY: the writer panics.
        unsafe { place.fill(PLAIN_MARK, |_| panic!("the maker's")) };
    }));
    assert!(making.is_err());
    ring.push(1).unwrap();
    assert_eq!(ring.accepted(), 1);
    // SAFETY: this thread is the only consumer.
    unsafe {
        assert_eq!(ring.pop(), Popped::Value(1, PLAIN_MARK));
        assert!(ring.is_drained());
    }
}

/// Between claim and publication the consumer waits, also for what was published behind.
#[test]
fn a_claimed_place_is_pending_until_it_is_filled() {
    let ring = Ring::new(4);
    let place = ring.reserve().unwrap();
    ring.push(2).unwrap();
    // SAFETY: this thread is the only consumer; the writer initialises the value.
    unsafe {
        assert_eq!(ring.pop(), Popped::Pending);
        assert_eq!(ring.pop_in_place(), None);
        assert!(!ring.is_drained() && !ring.is_ready());
        place.fill(PLAIN_MARK, |slot| slot.write(1));
        assert_eq!(ring.pop(), Popped::Value(1, PLAIN_MARK));
        assert_eq!(ring.pop(), Popped::Value(2, PLAIN_MARK));
        assert_eq!(ring.pop(), Popped::Empty);
    }
}

/// Four threads push through a ring far smaller than the flood; accepted + refused = sent, each
/// accepted value arrives once and in its sender's order, and no value leaks or is dropped twice.
#[test]
fn a_flood_of_threads_adds_up() {
    const SENDERS: usize = 4;
    const EACH: usize = 50_000;
    for bound in [1, 3, 100, 300, 1_024] {
        let ring = Arc::new(Ring::new(bound));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let ring = ring.clone();
                thread::spawn(move || {
                    (0..EACH)
                        .filter(|&number| ring.push(Box::new((sender, number))).is_ok())
                        .count()
                })
            })
            .collect();
        let mut last = [None; SENDERS];
        let mut taken = 0;
        let mut finished = false;
        loop {
            // SAFETY: this thread is the only consumer.
            match unsafe { ring.pop() } {
                Popped::Value(value, _) => {
                    let (sender, number) = *value;
                    assert!(last[sender] < Some(number), "out of order");
                    last[sender] = Some(number);
                    taken += 1;
                }
                Popped::Pending => thread::yield_now(),
                Popped::Empty if finished => break,
                Popped::Empty => {
                    finished = senders.iter().all(thread::JoinHandle::is_finished);
                    thread::yield_now();
                }
            }
            // SAFETY: as above.
            assert!(unsafe { ring.publish() } <= bound);
        }
        let accepted: usize = senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum();
        assert_eq!(taken, accepted);
        assert_eq!(ring.accepted(), accepted as u64);
    }
}

/// Senders that wait for room lose nothing, with a consumer that publishes once per batch.
#[test]
fn waiting_senders_lose_nothing() {
    const SENDERS: u64 = 2;
    const EACH: u64 = 50_000;
    const BATCH: u64 = 64;
    for bound in [1, 100, 256, 1_000] {
        let ring = Arc::new(Ring::new(bound));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let ring = ring.clone();
                thread::spawn(move || {
                    for number in 0..EACH {
                        while ring.push([sender << 32 | number; 7]).is_err() {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut next = [0; SENDERS as usize];
        let mut taken = 0;
        while taken < SENDERS * EACH {
            // SAFETY: this thread is the only consumer; the value is moved out at once.
            match unsafe { ring.pop_in_place().map(|(value, _)| value.read()) } {
                Some(value) => {
                    assert!(value.iter().all(|word| *word == value[0]), "torn");
                    let (sender, number) = ((value[0] >> 32) as usize, value[0] & 0xffff_ffff);
                    assert_eq!(number, next[sender], "lost, doubled or out of order");
                    next[sender] += 1;
                    taken += 1;
                    if taken % BATCH == 0 {
                        // SAFETY: as above.
                        unsafe { ring.publish() };
                    }
                }
                None => {
                    // SAFETY: as above.
                    unsafe { ring.publish() };
                    thread::yield_now();
                }
            }
        }
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(ring.accepted(), SENDERS * EACH);
        // SAFETY: as above.
        assert!(unsafe { ring.is_drained() });
    }
}

/// Values that are still queued are dropped with the ring, each once.
#[test]
fn a_dropped_ring_drops_its_values() {
    let witness = Arc::new(());
    let ring = Ring::new(1_000);
    for _ in 0..100 {
        ring.push(witness.clone()).unwrap();
    }
    // SAFETY: this thread is the only consumer.
    unsafe {
        assert!(matches!(ring.pop(), Popped::Value(..)));
        assert!(ring.take_first(|_| true).is_some());
    }
    drop(ring.reserve());
    assert_eq!(Arc::strong_count(&witness), 99);
    drop(ring);
    assert_eq!(Arc::strong_count(&witness), 1);
}
