//! A lane and a ring against a plain deque, and their bounds and holes.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use freeboard_queue::{Lane, PLAIN_MARK, Popped, Refused, Ring};
use proptest::prelude::*;

use crate::common::{Item, MixedLane, Queue, SlotQueue, for_lane_and_ring};

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

/// A queue of `bound` values.
struct Model {
    /// Values and their marks; `None` is a hole.
    slots: VecDeque<Option<(u64, u64)>>,
    bound: u64,
    head: u64,
    published: u64,
    accepted: u64,
    is_closed: bool,
    /// Of a lane: a refusal at the bound left a hole, and the next ones leave none.
    is_gate_shut: bool,
    leaves_holes: bool,
}

impl Model {
    fn new(bound: u64, leaves_holes: bool) -> Self {
        Self {
            slots: VecDeque::new(),
            bound,
            head: 0,
            published: 0,
            accepted: 0,
            is_closed: false,
            is_gate_shut: false,
            leaves_holes,
        }
    }

    fn end(&self) -> u64 {
        self.head + self.slots.len() as u64
    }

    fn depth(&self) -> u64 {
        (self.end() - self.published).min(self.bound)
    }

    fn push(&mut self, value: Option<u64>) -> Result<u64, Refused<()>> {
        if self.is_closed {
            return Err(Refused::Closed(()));
        }
        if self.depth() == self.bound {
            if self.leaves_holes && !self.is_gate_shut {
                self.is_gate_shut = true;
                self.slots.push_back(None);
            }
            return Err(Refused::Full(()));
        }
        let mark = mark(self.end());
        self.slots.push_back(value.map(|value| (value, mark)));
        self.accepted += u64::from(value.is_some());
        Ok(self.end() - 1)
    }

    fn pass_holes(&mut self) {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.head += 1;
        }
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        self.pass_holes();
        let value = self.slots.pop_front()?;
        self.head += 1;
        // A narrow queue publishes each pop.
        if self.bound <= 255 {
            self.published = self.head;
        }
        value
    }

    fn take_first(&mut self, wanted: impl Fn(&u64) -> bool) -> Option<u64> {
        let is_wanted = |slot: &Option<(u64, u64)>| slot.is_some_and(|(value, _)| wanted(&value));
        let at = self.slots.iter().position(is_wanted);
        let behind = self
            .slots
            .split_off(at.map_or(self.slots.len(), |at| at + 1));
        let taken = at.and_then(|_| self.slots.pop_back()).flatten();
        // All holes that it passed move to the head, and so does the one that it leaves.
        let end = self.end() + u64::from(taken.is_some());
        self.slots.retain(Option::is_some);
        self.head = end - self.slots.len() as u64;
        self.slots.extend(behind);
        self.publish();
        taken.map(|(value, _)| value)
    }

    fn publish(&mut self) {
        self.pass_holes();
        self.published = self.head;
        self.is_gate_shut &= self.depth() == self.bound;
    }
}

/// A mark that identifies its index.
fn mark(index: u64) -> u64 {
    index + 7
}

trait Value {
    fn new(number: u64) -> Self;
    fn number(&self) -> u64;
}

impl Value for Box<u64> {
    fn new(number: u64) -> Self {
        Self::new(number)
    }

    fn number(&self) -> u64 {
        **self
    }
}

impl Value for Item {
    /// Runs of short values follow runs of both.
    fn new(number: u64) -> Self {
        Self::sized(
            number,
            (number / 100).is_multiple_of(2) && number.is_multiple_of(3),
        )
    }

    fn number(&self) -> u64 {
        self.number()
    }
}

/// One thread does the steps; the queue answers like a deque with a bound.
fn follow<Q: SlotQueue<V>, V: Value>(steps: Vec<Step>, bound: u64) -> Result<(), TestCaseError> {
    let queue = Q::new(bound);
    let mut model = Model::new(bound, Q::LEAVES_HOLES);
    for (number, step) in steps.into_iter().enumerate() {
        let number = number as u64;
        match step {
            Step::Push => {
                let pushed = queue.push_with(V::new(number), mark);
                if let Err(Refused::Full(value) | Refused::Closed(value)) = &pushed {
                    prop_assert_eq!(value.number(), number);
                }
                let pushed = pushed.map_err(|refused| match refused {
                    Refused::Full(_) => Refused::Full(()),
                    Refused::Closed(_) => Refused::Closed(()),
                });
                prop_assert_eq!(pushed, model.push(Some(number)));
            }
            Step::GiveUp => {
                let index = queue.reserve().map(|permit| permit.index());
                prop_assert_eq!(index, model.push(None));
            }
            Step::Pop => {
                let popped = match queue.pop() {
                    Popped::Value(value, mark) => Some((value.number(), mark)),
                    Popped::Empty => None,
                    Popped::Pending => return Err(TestCaseError::fail("pending")),
                };
                prop_assert_eq!(popped, model.pop());
            }
            Step::PopInPlace => {
                let expected = model.pop();
                let mut pushed = false;
                // A push must not reuse the slot of the value that is still in it.
                let popped = queue.pop_in_place(|_| {
                    pushed = queue.push_with(V::new(number), mark).is_ok();
                });
                if expected.is_some() {
                    prop_assert_eq!(pushed, model.push(Some(number)).is_ok());
                }
                prop_assert_eq!(popped.map(|(value, mark)| (value.number(), mark)), expected);
            }
            Step::Publish => {
                model.publish();
                prop_assert_eq!(queue.publish(), model.depth());
            }
            Step::TakeFirst(modulus) => {
                let wanted = |value: &u64| *value % (u64::from(modulus) + 1) == 1;
                let taken = queue.take_first(|value| wanted(&value.number()));
                prop_assert_eq!(taken.map(|value| value.number()), model.take_first(wanted));
            }
            Step::Close => {
                prop_assert_eq!(queue.close(), !model.is_closed);
                model.is_closed = true;
            }
        }
        prop_assert_eq!(queue.is_closed(), model.is_closed);
        prop_assert_eq!(queue.accepted(), model.accepted);
        prop_assert_eq!(queue.depth(), model.depth());
        prop_assert_eq!(queue.queued(), model.slots.len().min(bound as usize) as u64);

        model.pass_holes();
        prop_assert_eq!(queue.is_ready(), !model.slots.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_lane_follows_a_deque(steps in steps(), bound in prop_oneof![1_u64..40, 250_u64..260]) {
        follow::<Lane<_>, Box<u64>>(steps, bound)?;
    }

    #[test]
    fn a_lane_of_short_and_long_values_follows_a_deque(
        steps in steps(),
        bound in prop_oneof![1_u64..40, 250_u64..260],
    ) {
        follow::<MixedLane, Item>(steps, bound)?;
    }

    #[test]
    fn a_ring_follows_a_deque(steps in steps(), bound in prop_oneof![1_u64..40, 250_u64..260]) {
        follow::<Ring<_>, Box<u64>>(steps, bound)?;
    }
}

fn mixed_lane() -> MixedLane {
    MixedLane::with_tag(1_000, [0; 3])
}

/// The first blocks are long, and the later ones short: a value from a long slot is boxed when it moves to a short one.
#[test]
fn values_move_from_long_slots_to_short_ones() {
    let lane = mixed_lane();
    for number in 0..100 {
        lane.push(Item::sized(number, number == 0)).unwrap();
    }
    let taken = Queue::take_first(&lane, |item| item.number() == 99);
    assert_eq!(taken.map(|item| item.number()), Some(99));
    for number in 0..99 {
        assert!(matches!(Queue::pop(&lane), Popped::Value(item, _) if item.number() == number));
    }
    assert!(matches!(Queue::pop(&lane), Popped::Empty));
}

/// A writer of a long value that panics in a lane of short slots leaves a hole there.
#[test]
fn a_writer_of_a_boxed_value_that_panics_leaves_a_hole() {
    let lane = mixed_lane();
    // SAFETY: the writer initialises a short value, and writes no further bytes.
    let fill = |number| unsafe {
        let short = Item::sized(number, false);
        let permit = lane.reserve_short().unwrap();
        permit.fill(PLAIN_MARK, |slot| short.write_short(slot));
    };
    fill(1);
    let writing = catch_unwind(AssertUnwindSafe(|| {
        let permit = lane.reserve().unwrap();
        // SAFETY: the writer panics.
        unsafe { permit.fill(PLAIN_MARK, |_| panic!("the writer's")) };
    }));
    assert!(writing.is_err());
    fill(2);
    assert_eq!(lane.accepted(), 2);
    for number in [1, 2] {
        assert!(matches!(Queue::pop(&lane), Popped::Value(item, _) if item.number() == number));
    }
}

/// A predicate of `take_first` may change a value that stays in the lane.
#[test]
fn a_predicate_changes_values_of_both_sizes() {
    let lane = mixed_lane();
    for number in 0..10 {
        lane.push(Item::sized(number, number % 4 == 3)).unwrap();
    }
    let mut seen = 0;
    let none = Queue::take_first(&lane, |item| {
        seen += 1;
        item.looks.set(item.looks.get() + 1);
        false
    });
    assert!(none.is_none() && seen == 10);
    for _ in 0..10 {
        assert!(matches!(Queue::pop(&lane), Popped::Value(item, _) if item.looks.get() == 1));
    }
}

/// Cases that failed once.
fn kept_cases<Q: SlotQueue<Box<u64>>>() {
    use Step::{Pop, Push, TakeFirst};
    let pushes = |count| vec![Push; count];
    let cases = [
        ([pushes(3), vec![Pop, TakeFirst(1), Push]].concat(), 1),
        ([pushes(11), vec![TakeFirst(0), TakeFirst(1)]].concat(), 2),
        ([pushes(140), vec![TakeFirst(1)]].concat(), 2),
    ];
    for (steps, bound) in cases {
        follow::<Q, Box<u64>>(steps, bound).unwrap();
    }
}

/// The bound is exact, lap after lap, for any number of slots.
fn the_bound_is_exact<Q: SlotQueue<u64>>() {
    for bound in [1, 2, 3, 5, 100, 255, 256, 257, 1_000, 1_024, 4_095] {
        let queue = Q::new(bound);
        assert_eq!(queue.bound(), bound);
        for _ in 0..5 {
            for number in 0..bound {
                assert_eq!(queue.push(number), Ok(()));
            }
            assert_eq!(queue.push(bound), Err(Refused::Full(bound)));
            assert_eq!(queue.depth(), bound);
            for number in 0..bound {
                assert_eq!(queue.pop(), Popped::Value(number, PLAIN_MARK));
            }
            assert_eq!(queue.pop(), Popped::Empty);
            assert_eq!(queue.publish(), 0);
        }
    }
}

#[test]
fn rings_number_their_values() {
    let ring = Ring::new(3);
    for index in 0..9 {
        assert_eq!(ring.push(()), Ok(index));
        // SAFETY: this thread is the only consumer.
        assert_eq!(unsafe { ring.pop() }, Popped::Value((), PLAIN_MARK));
    }
}

fn useless_bounds_are_refused<Q: SlotQueue<u8>>() {
    for bound in [0, Q::BOUND_MAX + 1, u64::MAX] {
        let refused = catch_unwind(|| drop(Q::new(bound)));
        assert!(refused.is_err(), "{bound} was accepted");
    }
}

#[test]
fn a_lane_may_have_the_largest_bound() {
    assert_eq!(Lane::<u8>::new(Lane::<u8>::BOUND_MAX).depth(), 0);
}

/// A ring's slots are whole cache lines: an envelope of 56 bytes does not straddle two.
#[test]
fn values_of_56_bytes_lie_in_one_cache_line() {
    let ring = Ring::new(300);
    for number in 0..300 {
        ring.push([number; 7]).unwrap();
    }
    for number in 0..300 {
        let at = |value: *const [u64; 7]| assert_eq!(value.addr() % 64, 8, "after its mark");
        let (value, _) = SlotQueue::pop_in_place(&ring, at).unwrap();
        assert_eq!(value, [number; 7]);
    }
}

/// A writer that panics leaves a hole, which the consumer steps over.
fn a_writer_that_panics_leaves_a_hole<Q: SlotQueue<u32>>() {
    let queue = Q::new(4);
    let writing = catch_unwind(AssertUnwindSafe(|| {
        let permit = queue.reserve().unwrap();
        // SAFETY: the writer panics.
        unsafe { permit.fill(PLAIN_MARK, |_| panic!("the writer's")) };
    }));
    assert!(writing.is_err());
    queue.push(1).unwrap();
    assert_eq!(queue.accepted(), 1);
    assert_eq!(queue.pop(), Popped::Value(1, PLAIN_MARK));
    assert_eq!(queue.queued(), 0);
}

/// Between reservation and publication the consumer waits, also for values published behind.
fn a_reserved_slot_is_pending_until_it_is_filled<Q: SlotQueue<u32>>() {
    let queue = Q::new(4);
    let permit = queue.reserve().unwrap();
    queue.push(2).unwrap();
    assert_eq!(queue.pop(), Popped::Pending);
    assert_eq!(queue.pop_in_place(|_| ()), None);
    assert!(queue.queued() > 0 && !queue.is_ready());
    // SAFETY: the writer initialises the value.
    unsafe { permit.fill(PLAIN_MARK, |slot| slot.write(1)) };
    assert_eq!(queue.pop(), Popped::Value(1, PLAIN_MARK));
    assert_eq!(queue.pop(), Popped::Value(2, PLAIN_MARK));
    assert_eq!(queue.pop(), Popped::Empty);
}

/// Queued values are dropped with the queue, once each.
fn a_dropped_queue_drops_its_values<Q: SlotQueue<Arc<()>>>() {
    let witness = Arc::new(());
    let queue = Q::new(1_000);
    for _ in 0..100 {
        queue.push(witness.clone()).unwrap();
    }
    assert!(matches!(queue.pop(), Popped::Value(..)));
    assert!(queue.take_first(|_| true).is_some());
    drop(queue.reserve());
    assert_eq!(Arc::strong_count(&witness), 99);
    drop(queue);
    assert_eq!(Arc::strong_count(&witness), 1);
}

for_lane_and_ring!(
    kept_cases,
    the_bound_is_exact,
    useless_bounds_are_refused,
    a_writer_that_panics_leaves_a_hole,
    a_reserved_slot_is_pending_until_it_is_filled,
    a_dropped_queue_drops_its_values,
);
