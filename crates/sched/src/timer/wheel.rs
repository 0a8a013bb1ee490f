//! A hierarchical timing wheel (Varghese and Lauck, 1987) without a thread or a clock.
//!
//! ```text
//! level 0: 64 slots of 16 us       ┐ A timer is in the level of the highest digit (base 64) in which
//! level 1: 64 slots of 1 ms        │ its due tick differs from the present tick. When the present
//! level 2: 64 slots of 67 ms       │ tick reaches a slot of a higher level, its timers move down:
//! ...      level 8: 146 years      ┘ at most once per level.
//! ```
//!
//! Invariants:
//! 1. Every linked timer's due tick is beyond `now_tick`, or the timer is in the list [`OPENED`].
//! 2. All timers of one level lie before all timers of the next.
//! 3. A timer's due tick is rounded up, so no timer is taken early, and each within a tick.
//!
//! Setting and cancelling take constant time. [`Wheel::take_due`] works in bounded steps, so that
//! the caller may release a lock in between, however many timers share a slot.

/// 2^14 ns = 16.4 us, less than the slack of the kernel's own timers (50 us).
const TICK_BITS: u32 = 14;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Enough for every time in 64 bits of nanoseconds.
const LEVELS: usize = (u64::BITS - TICK_BITS).div_ceil(SLOT_BITS) as usize;

/// The list of the slot that was reached last, until each of its timers is due or moved down.
const OPENED: u32 = (LEVELS * SLOTS) as u32;
/// Marks a `prev` that names a list, not an entry.
const LIST: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

/// Names one timer. Keys are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey {
    number: u64,
    index: u32,
    pub(super) wheel: u32,
}

#[cfg(feature = "manual")]
impl TimerKey {
    /// A key of a manual executor's timers.
    pub(crate) fn manual(number: u64, owner: u32) -> Self {
        Self {
            number,
            index: u32::MAX,
            wheel: owner,
        }
    }

    pub(crate) fn number(self) -> u64 {
        self.number
    }

    pub(crate) fn owner(self) -> u32 {
        self.wheel
    }
}

struct Entry<T> {
    /// `None` in an entry that is free.
    value: Option<T>,
    due_ns: u64,
    number: u64,
    /// An entry, or a list of which this is the first, or `NONE` if it is in no list.
    prev: u32,
    next: u32,
}

pub(super) struct Wheel<T> {
    id: u32,
    now_tick: u64,
    /// Of each level, the slots that hold timers.
    occupied: [u64; LEVELS],
    heads: [u32; OPENED as usize + 1],
    entries: Vec<Entry<T>>,
    /// The first free entry.
    free: u32,
    len: usize,
    last_number: u64,
}

impl<T> Wheel<T> {
    /// `id` is kept in its keys.
    pub(super) fn new(id: u32, now_ns: u64) -> Self {
        Self {
            id,
            now_tick: now_ns >> TICK_BITS,
            occupied: [0; LEVELS],
            heads: [NONE; OPENED as usize + 1],
            entries: Vec::new(),
            free: NONE,
            len: 0,
            last_number: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn insert(&mut self, due_ns: u64, value: T) -> TimerKey {
        self.last_number += 1;
        self.len += 1;
        let mut index = self.free;
        if index == NONE {
            index = self.entries.len() as u32;
            assert!(index < LIST, "two billion timers");
            self.entries.push(Entry {
                value: None,
                due_ns: 0,
                number: 0,
                prev: NONE,
                next: NONE,
            });
        }
        let entry = &mut self.entries[index as usize];
        self.free = entry.next;
        entry.value = Some(value);
        entry.due_ns = due_ns;
        entry.number = self.last_number;
        self.schedule(index);
        TimerKey {
            number: self.last_number,
            index,
            wheel: self.id,
        }
    }

    /// `None` if the timer was removed.
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        (entry.number == key.number)
            .then_some(entry.value.as_mut())
            .flatten()
    }

    #[inline]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.get_mut(key)?;
        self.unlink(key.index);
        let entry = &mut self.entries[key.index as usize];
        entry.next = self.free;
        self.free = key.index;
        self.len -= 1;
        entry.value.take()
    }

    /// Schedules a timer anew that [`Wheel::take_due`] took.
    pub(super) fn reschedule(&mut self, key: TimerKey, due_ns: u64) {
        self.unlink(key.index);
        self.entries[key.index as usize].due_ns = due_ns;
        self.schedule(key.index);
    }

    /// Adds the timers that are due to `due`, with their times and in no order; they stay in the
    /// wheel until they are removed. `false` if it stopped after `steps` steps.
    #[must_use]
    pub(super) fn take_due(
        &mut self,
        now_ns: u64,
        steps: usize,
        due: &mut Vec<(u64, TimerKey)>,
    ) -> bool {
        let target = now_ns >> TICK_BITS;
        for _ in 0..steps {
            let index = self.heads[OPENED as usize];
            if index != NONE {
                self.unlink(index);
                let entry = &self.entries[index as usize];
                if due_tick(entry.due_ns) > self.now_tick {
                    self.schedule(index);
                    continue;
                }
                let key = TimerKey {
                    number: entry.number,
                    index,
                    wheel: self.id,
                };
                due.push((entry.due_ns, key));
                continue;
            }
            match self.next_slot() {
                Some((tick, list)) if tick <= target => {
                    self.now_tick = tick;
                    self.open(list);
                }
                _ => {
                    self.now_tick = self.now_tick.max(target);
                    return true;
                }
            }
        }
        false
    }

    /// When [`Wheel::take_due`] has something to do next; not later than the first timer is due.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let tick = if self.heads[OPENED as usize] == NONE {
            self.next_slot()?.0
        } else {
            self.now_tick
        };
        Some(start_ns(tick))
    }

    /// The values of all timers.
    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_iter().filter_map(|entry| entry.value)
    }

    /// The occupied slot that is reached first: the tick of its start, and its list.
    fn next_slot(&self) -> Option<(u64, u32)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)? as u32;
        let slot = self.occupied[level as usize].trailing_zeros();
        let shift = level * SLOT_BITS;
        let above = self.now_tick >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
        let tick = above | u64::from(slot) << shift;
        Some((tick, level << SLOT_BITS | slot))
    }

    /// The list [`OPENED`] is empty.
    fn open(&mut self, list: u32) {
        let first = std::mem::replace(&mut self.heads[list as usize], NONE);
        self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
        self.heads[OPENED as usize] = first;
        self.entries[first as usize].prev = LIST | OPENED;
    }

    /// Links an entry that is in no list.
    #[inline]
    fn schedule(&mut self, index: u32) {
        let tick = due_tick(self.entries[index as usize].due_ns).max(self.now_tick + 1);
        let level = (tick ^ self.now_tick).ilog2() / SLOT_BITS;
        let slot = (tick >> (level * SLOT_BITS)) as u32 % SLOTS as u32;
        self.occupied[level as usize] |= 1 << slot;
        let list = level << SLOT_BITS | slot;
        let next = std::mem::replace(&mut self.heads[list as usize], index);
        if next != NONE {
            self.entries[next as usize].prev = index;
        }
        let entry = &mut self.entries[index as usize];
        entry.prev = LIST | list;
        entry.next = next;
    }

    /// Takes an entry out of its list, if it is in one.
    #[inline]
    fn unlink(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let (prev, next) = (entry.prev, entry.next);
        entry.prev = NONE;
        if prev == NONE {
            return;
        }
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev & LIST == 0 {
            self.entries[prev as usize].next = next;
            return;
        }
        let list = (prev & !LIST) as usize;
        self.heads[list] = next;
        if next == NONE && list < OPENED as usize {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }
}

/// When a timer that is due at `due_ns` is taken.
pub(super) fn taken_ns(due_ns: u64) -> u64 {
    start_ns(due_tick(due_ns))
}

fn start_ns(tick: u64) -> u64 {
    tick.saturating_mul(1 << TICK_BITS)
}

/// Rounded up.
fn due_tick(due_ns: u64) -> u64 {
    (due_ns >> TICK_BITS) + u64::from(!due_ns.is_multiple_of(1 << TICK_BITS))
}
