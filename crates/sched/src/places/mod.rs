//! Places: which thread is which worker, and how a place goes from one thread to another.
//!
//! States, the steps named below and the proof are in `README.md` beside this file.

mod place;
mod standing;

use crate::{
    parker::Parker,
    sleep::Sleep,
    sync::{Mutex, MutexGuard},
    tally::Tally,
};
use place::Place;
pub(crate) use place::PlaceReading;
pub(crate) use standing::{Standing, StandingTable};

/// What became of a place that was to be handed over.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// A spare has it, and is on its way.
    ToSpare,
    /// It is vacant: a thread that is started now will take it.
    Vacated,
    /// No spare, and no further thread is allowed: the thread keeps its place.
    Exhausted,
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
    /// Seats of parked threads without a place, the latest last.
    spares: Vec<usize>,
    /// Seats whose thread has ended.
    free: Vec<usize>,
    /// Seats that were ever taken.
    seats_used: usize,
    /// Threads, started or about to be.
    threads: usize,
    /// Those of them that have not come to their first rest.
    starting: usize,
    is_closed: bool,
}

/// Numbers of threads and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) online: usize,
    pub(crate) threads: usize,
    pub(crate) spares: usize,
    /// In a run, without a place.
    pub(crate) displaced: usize,
    /// Threads on their way to their first rest.
    pub(crate) starting: usize,
    /// On-line places that wait for a thread.
    pub(crate) vacant: usize,
}

pub(crate) struct Places {
    state: Mutex<State>,
    standings: StandingTable,
    /// By seat, for spares.
    parkers: Box<[Parker]>,
}

/// The tally of a seat, as of now.
type LiveTally<'a> = &'a dyn Fn(usize) -> Tally;

impl Places {
    /// `workers` places, on-line and vacant, for up to `seats_max` threads.
    pub(crate) fn new(workers: usize, seats_max: usize) -> Self {
        Self {
            state: Mutex::new(State {
                places: (0..workers).map(|_| Place::new()).collect(),
                spares: Vec::new(),
                free: Vec::new(),
                seats_used: 0,
                threads: 0,
                starting: 0,
                is_closed: false,
            }),
            standings: StandingTable::new(seats_max),
            parkers: (0..seats_max).map(|_| Parker::new()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Where the thread of this seat stands; for each run of a worker's loop.
    #[inline]
    pub(crate) fn standing(&self, seat: usize) -> Standing {
        self.standings.get(seat)
    }

    /// A seat for a thread to be started; `None` at the limit or after [`Places::close`]. `make` is
    /// called with a seat that was never taken before.
    pub(crate) fn take_seat(&self, make: impl FnOnce(usize)) -> Option<usize> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let seat = match state.free.pop() {
            Some(seat) => seat,
            None if state.seats_used < self.parkers.len() => {
                let seat = state.seats_used;
                make(seat);
                state.seats_used += 1;
                seat
            }
            None => return None,
        };
        state.threads += 1;
        state.starting += 1;
        self.standings.set(seat, Standing::Displaced);
        Some(seat)
    }

    /// A thread is there, or could not be started: nobody waits for it any more.
    pub(crate) fn arrive(&self) {
        self.lock().starting -= 1;
    }

    /// The thread of this seat has ended, or could not be started.
    pub(crate) fn leave_seat(&self, seat: usize) {
        let mut state = self.lock();
        state.threads -= 1;
        state.free.push(seat);
    }

    /// H1 to H3: takes the place from the thread of `seat`, and gives it to a spare.
    pub(crate) fn hand_over(
        &self,
        seat: usize,
        why: Stuck,
        sleep: &Sleep,
        live: LiveTally<'_>,
    ) -> HandOver {
        let spare = {
            let mut state = self.lock();
            let Standing::Seated(index) = self.standings.get(seat) else {
                return HandOver::NotSeated;
            };
            let spare = state.spares.pop();
            let may_grow = state.threads < self.parkers.len() && !state.is_closed;
            if spare.is_none() && !may_grow {
                return HandOver::Exhausted;
            }
            self.standings.set(seat, Standing::Displaced);
            let place = &mut state.places[index];
            place.leave(live(seat), why);
            let Some(spare) = spare else {
                return HandOver::Vacated;
            };
            self.seat(place, index, spare, sleep, live);
            spare
        };
        self.parkers[spare].unpark();
        HandOver::ToSpare
    }

    /// H2: from here on the thread of `seat` is the worker, and counts as a searcher.
    fn seat(
        &self,
        place: &mut Place,
        index: usize,
        seat: usize,
        sleep: &Sleep,
        live: LiveTally<'_>,
    ) {
        place.enter(seat, live(seat));
        self.standings.set(seat, Standing::Seated(index));
        sleep.join();
    }

    /// R1 to R4: the thread of `seat` has no place. Takes a vacant one, or parks as a spare until it
    /// gets one.
    pub(crate) fn rest(&self, seat: usize, sleep: &Sleep, live: LiveTally<'_>) -> Rested {
        {
            let mut state = self.lock();
            if state.is_closed {
                return Rested::Ended;
            }
            let vacant = state.places.iter().position(Place::is_vacant);
            match vacant {
                Some(index) => {
                    let place = &mut state.places[index];
                    self.seat(place, index, seat, sleep, live);
                    let stuck_since_ns = place.take_stuck();
                    return Rested::Seated { stuck_since_ns };
                }
                None => state.spares.push(seat),
            }
        }
        self.parkers[seat].park();
        match self.standings.get(seat) {
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
    /// for the caller to wake.
    pub(crate) fn set_online(
        &self,
        online: usize,
        sleep: &Sleep,
        live: LiveTally<'_>,
    ) -> Vec<usize> {
        let mut displaced = Vec::new();
        let mut seated = Vec::new();
        {
            let mut state = self.lock();
            let State { places, spares, .. } = &mut *state;
            for (index, place) in places.iter_mut().enumerate() {
                let is_wanted = index < online;
                if is_wanted == place.is_online() {
                    continue;
                }
                if is_wanted {
                    place.go_online();
                    if let Some(spare) = spares.pop() {
                        self.seat(place, index, spare, sleep, live);
                        seated.push(spare);
                    }
                } else if let Some(seat) = place.go_offline(live) {
                    self.standings.set(seat, Standing::Displaced);
                    displaced.push(seat);
                }
            }
        }
        for spare in seated {
            self.parkers[spare].unpark();
        }
        displaced
    }

    /// Ends the spare that has waited longest, if more than `keep` wait.
    pub(crate) fn retire_one(&self, keep: usize) {
        let retired = {
            let mut state = self.lock();
            if state.spares.len() <= keep {
                return;
            }
            let retired = state.spares.remove(0);
            self.standings.set(retired, Standing::Retired);
            retired
        };
        self.parkers[retired].unpark();
    }

    /// No thread gets a place or a seat any more; spares end.
    pub(crate) fn close(&self) {
        let spares = {
            let mut state = self.lock();
            state.is_closed = true;
            let spares = std::mem::take(&mut state.spares);
            for &seat in &spares {
                self.standings.set(seat, Standing::Retired);
            }
            spares
        };
        for seat in spares {
            self.parkers[seat].unpark();
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

    /// The thread in each place, `None` for one that is off-line or vacant.
    pub(crate) fn occupants(&self) -> Vec<Option<usize>> {
        self.lock().places.iter().map(Place::occupant).collect()
    }

    /// Each place as of now.
    pub(crate) fn read(&self, live: LiveTally<'_>) -> Vec<PlaceReading> {
        let mut state = self.lock();
        let places = state.places.iter_mut();
        places.map(|place| place.read(live)).collect()
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
        if let Standing::Seated(index) = self.standings.get(seat) {
            change(&mut state.places[index]);
        }
    }
}
