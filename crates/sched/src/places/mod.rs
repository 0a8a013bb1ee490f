//! Places: which thread is which worker, and how a place goes from one thread to another.
//!
//! States, the steps named below and the proof are in `README.md` beside this file.

mod place;
mod standing;

use std::sync::Arc;

use crate::{
    seat::Seats,
    sleep::Sleep,
    sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering},
    tally::Tally,
};
use place::Place;
pub(crate) use place::PlaceReading;
pub(crate) use standing::{Standing, StandingWord};

/// What became of a place that was to be handed over.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// A spare has it, and is on its way.
    ToSpare,
    /// There is no spare: the thread keeps its place.
    NoSpare,
    /// The thread had no place any more.
    NotSeated,
}

/// How a thread without a place goes on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    /// It is this worker now, and searching. If a stuck run was the reason, since when that lasted.
    Seated { stuck_since_ns: Option<u64> },
    /// It is not needed any more, or the scheduler shuts down.
    Ended,
}

/// Why a worker is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// By its own word.
    Announced,
    /// The monitor found that its run blocks, since this time.
    Blocked { since_ns: u64 },
    /// The monitor found that every worker computes for long, this one among them.
    Computing,
}

struct State {
    places: Vec<Place>,
    /// Seats of threads without a place that wait for their token, the latest last.
    spares: Vec<usize>,
    /// The fewest spares since the last [`Places::retire`].
    spares_low: usize,
    /// Seats whose thread has ended.
    free: Vec<usize>,
    /// Threads, started or about to be.
    threads: usize,
    /// Those of them that are about to be started.
    starting: usize,
    /// Threads that wait for [`Places::started`].
    waiting_for_start: usize,
    is_closed: bool,
}

impl State {
    /// The thread of this seat has ended.
    fn leave(&mut self, seat: usize) {
        self.threads -= 1;
        self.free.push(seat);
    }

    fn take_spare(&mut self) -> Option<usize> {
        let spare = self.spares.pop();
        self.spares_low = self.spares_low.min(self.spares.len());
        spare
    }
}

/// Numbers of threads and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) online: usize,
    pub(crate) threads: usize,
    pub(crate) spares: usize,
    /// In a run, without a place.
    pub(crate) displaced: usize,
    /// Threads that are about to be started.
    pub(crate) starting: usize,
    /// On-line places that wait for a thread.
    pub(crate) vacant: usize,
}

/// The place has no thread.
const NOBODY: u32 = u32::MAX;

pub(crate) struct Places {
    state: Mutex<State>,
    /// A thread that was about to be started was, or was not.
    started: Condvar,
    seats: Arc<Seats>,
    /// The seat of the thread in each place. Written under the lock.
    occupants: Box<[AtomicU32]>,
}

impl Places {
    /// `workers` places, on-line and vacant, for the threads of `seats`.
    pub(crate) fn new(workers: usize, seats: Arc<Seats>) -> Self {
        Self {
            state: Mutex::new(State {
                places: (0..workers).map(|_| Place::new()).collect(),
                spares: Vec::new(),
                spares_low: 0,
                free: Vec::new(),
                threads: 0,
                starting: 0,
                waiting_for_start: 0,
                is_closed: false,
            }),
            started: Condvar::new(),
            seats,
            occupants: (0..workers).map(|_| AtomicU32::new(NOBODY)).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Where the thread of this seat stands.
    pub(crate) fn standing(&self, seat: usize) -> Standing {
        self.seats.get(seat).standing.get()
    }

    fn set_standing(&self, seat: usize, standing: Standing) {
        self.seats.get(seat).standing.set(standing);
    }

    fn unpark(&self, seat: usize) {
        self.seats.get(seat).parker.unpark();
    }

    fn live(&self, seat: usize) -> Tally {
        self.seats.get(seat).tally()
    }

    /// The seat of the thread in this place, if it has one.
    #[inline]
    pub(crate) fn occupant(&self, place: usize) -> Option<usize> {
        // Ordering: SeqCst, as in `set_occupant`: the look at all queues of S3 and F2 begins here.
        let seat = self.occupants[place].load(Ordering::SeqCst);
        (seat != NOBODY).then_some(seat as usize)
    }

    /// The seats of the threads that have a place.
    pub(crate) fn occupants(&self) -> impl Iterator<Item = usize> {
        (0..self.occupants.len()).filter_map(|place| self.occupant(place))
    }

    fn set_occupant(&self, place: usize, seat: Option<usize>) {
        let seat = seat.map_or(NOBODY, |seat| seat as u32);
        // Ordering: SeqCst, between the standings before and the look at the ring behind it.
        self.occupants[place].store(seat, Ordering::SeqCst);
    }

    /// A seat for a thread to be started; `None` at the limit or after [`Places::close`].
    /// [`Places::add_thread`] or [`Places::forget_thread`] follows.
    pub(crate) fn take_seat(&self) -> Option<usize> {
        let mut state = self.lock();
        if state.is_closed || state.threads == self.seats.max() {
            return None;
        }
        let seat = state.free.pop().unwrap_or_else(|| {
            let seat = self.seats.used();
            self.seats.make(seat);
            seat
        });
        state.threads += 1;
        state.starting += 1;
        self.set_standing(seat, Standing::Displaced);
        Some(seat)
    }

    /// The thread of this seat could not be started.
    pub(crate) fn forget_thread(&self, seat: usize) {
        {
            let mut state = self.lock();
            state.starting -= 1;
            state.leave(seat);
        }
        self.started.notify_all();
    }

    /// The thread of this seat was started. It has a vacant place, or is a spare; it waits for its
    /// token first ([`Places::wait`]).
    pub(crate) fn add_thread(&self, seat: usize, sleep: &Sleep) {
        let (has_token, is_awaited) = {
            let mut state = self.lock();
            state.starting -= 1;
            let vacant = state.places.iter().position(Place::is_vacant);
            match vacant {
                _ if state.is_closed => self.set_standing(seat, Standing::Retired),
                Some(index) => self.seat(&mut state.places[index], index, seat, sleep),
                None => state.spares.push(seat),
            }
            let has_token = state.is_closed || vacant.is_some();
            (has_token, state.waiting_for_start > 0)
        };
        if is_awaited {
            self.started.notify_all();
        }
        if has_token {
            self.unpark(seat);
        }
    }

    /// The thread of this seat has ended.
    pub(crate) fn leave_seat(&self, seat: usize) {
        self.lock().leave(seat);
    }

    /// H1 to H3: takes the place from the thread of `seat`, and gives it to a spare. Without one,
    /// calls `start`, which starts a thread; `false` if the system refuses.
    pub(crate) fn hand_over(
        &self,
        seat: usize,
        why: Stuck,
        sleep: &Sleep,
        mut start: impl FnMut() -> bool,
    ) -> HandOver {
        loop {
            match self.hand_to_spare(seat, why, sleep) {
                Some(outcome) => return outcome,
                // Another one may be quicker to take the new spare; then it has used up a thread, and
                // there are only so many.
                None if start() => {}
                None => return HandOver::NoSpare,
            }
        }
    }

    /// `None` if there is no spare, and a further thread is allowed.
    fn hand_to_spare(&self, seat: usize, why: Stuck, sleep: &Sleep) -> Option<HandOver> {
        let spare = {
            let mut state = self.lock();
            let (index, spare) = loop {
                let Standing::Seated(index) = self.standing(seat) else {
                    return Some(HandOver::NotSeated);
                };
                if let Some(spare) = state.take_spare() {
                    break (index, spare);
                }
                let may_grow = state.threads < self.seats.max();
                if state.is_closed || (!may_grow && state.starting == 0) {
                    return Some(HandOver::NoSpare);
                }
                if may_grow {
                    return None;
                }
                // Somebody else starts the last thread that is allowed.
                state.waiting_for_start += 1;
                let waited = self.started.wait(state);
                state = waited.expect("nothing panics under this lock");
                state.waiting_for_start -= 1;
            };
            self.set_standing(seat, Standing::Displaced);
            let place = &mut state.places[index];
            place.leave(self.live(seat), why);
            self.seat(place, index, spare, sleep);
            spare
        };
        self.unpark(spare);
        Some(HandOver::ToSpare)
    }

    /// H2: from here on the thread of `seat` is the worker, and counts as a searcher.
    fn seat(&self, place: &mut Place, index: usize, seat: usize, sleep: &Sleep) {
        place.enter(seat, self.live(seat));
        self.set_standing(seat, Standing::Seated(index));
        self.set_occupant(index, Some(seat));
        sleep.join();
    }

    /// R2 to R4: the thread of `seat` has no place. Takes a vacant one, or waits as a spare until it
    /// gets one.
    pub(crate) fn rest(&self, seat: usize, sleep: &Sleep) -> Rested {
        {
            let mut state = self.lock();
            if state.is_closed {
                return Rested::Ended;
            }
            let vacant = state.places.iter().position(Place::is_vacant);
            match vacant {
                Some(index) => {
                    let place = &mut state.places[index];
                    self.seat(place, index, seat, sleep);
                    let stuck_since_ns = place.take_stuck();
                    return Rested::Seated { stuck_since_ns };
                }
                None => state.spares.push(seat),
            }
        }
        self.wait(seat)
    }

    /// Waits for the token of a spare, or of a thread that was just started.
    pub(crate) fn wait(&self, seat: usize) -> Rested {
        self.seats.get(seat).parker.park();
        match self.standing(seat) {
            Standing::Seated(index) => {
                let stuck_since_ns = self.lock().places[index].take_stuck();
                Rested::Seated { stuck_since_ns }
            }
            // Seated, and displaced again before it woke: it owes the search all the same.
            Standing::Displaced => Rested::Seated {
                stuck_since_ns: None,
            },
            Standing::Retired => Rested::Ended,
        }
    }

    /// Makes the first `online` places the on-line ones. Returns the seats that lost their place,
    /// for the caller to drain and wake.
    pub(crate) fn set_online(&self, online: usize, sleep: &Sleep) -> Vec<usize> {
        let mut displaced = Vec::new();
        let mut seated = Vec::new();
        {
            let mut state = self.lock();
            for index in 0..state.places.len() {
                let is_wanted = index < online;
                if is_wanted == state.places[index].is_online() {
                    continue;
                }
                if is_wanted {
                    state.places[index].go_online();
                    if let Some(spare) = state.take_spare() {
                        self.seat(&mut state.places[index], index, spare, sleep);
                        seated.push(spare);
                    }
                } else if let Some(seat) = state.places[index].go_offline(|seat| self.live(seat)) {
                    self.set_standing(seat, Standing::Displaced);
                    self.set_occupant(index, None);
                    displaced.push(seat);
                }
            }
        }
        for spare in seated {
            self.unpark(spare);
        }
        displaced
    }

    /// Of the spares beyond `keep` that nobody has needed since the last call, ends half, those that
    /// have waited longest.
    pub(crate) fn retire(&self, keep: usize) {
        let retired: Vec<usize> = {
            let mut state = self.lock();
            let count = state.spares_low.saturating_sub(keep).div_ceil(2);
            let retired = state.spares.drain(..count);
            let retired = retired
                .inspect(|&seat| self.set_standing(seat, Standing::Retired))
                .collect();
            state.spares_low = state.spares.len();
            retired
        };
        for seat in retired {
            self.unpark(seat);
        }
    }

    /// No thread gets a place or a seat any more; spares end.
    pub(crate) fn close(&self) {
        let spares = {
            let mut state = self.lock();
            state.is_closed = true;
            let spares = std::mem::take(&mut state.spares);
            for &seat in &spares {
                self.set_standing(seat, Standing::Retired);
            }
            spares
        };
        for seat in spares {
            self.unpark(seat);
        }
    }

    pub(crate) fn census(&self) -> Census {
        let state = self.lock();
        let online = state.places.iter().filter(|place| place.is_online());
        let vacant = state.places.iter().filter(|place| place.is_vacant());
        let (online, vacant) = (online.count(), vacant.count());
        let spares = state.spares.len();
        Census {
            online,
            threads: state.threads,
            spares,
            starting: state.starting,
            displaced: state
                .threads
                .saturating_sub(spares + state.starting + online - vacant),
            vacant,
        }
    }

    /// Each place as of now.
    pub(crate) fn read(&self) -> Vec<PlaceReading> {
        let mut state = self.lock();
        let places = state.places.iter_mut();
        places
            .map(|place| place.read(|seat| self.live(seat)))
            .collect()
    }

    /// The run in the place of `seat` blocks: so much of its time was that, and not running.
    pub(crate) fn reckon_blocked(&self, seat: usize, time_ns: u64) {
        self.with_place(seat, |place| place.reckon_blocked(time_ns));
    }

    /// That run is over.
    pub(crate) fn end_blocked(&self, seat: usize) {
        self.with_place(seat, Place::end_blocked);
    }

    fn with_place(&self, seat: usize, change: impl FnOnce(&mut Place)) {
        let mut state = self.lock();
        if let Standing::Seated(index) = self.standing(seat) {
            change(&mut state.places[index]);
        }
    }
}
