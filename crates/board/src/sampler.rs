//! The thread that reads systems while there are viewers.
//!
//! ```text
//!   all actors   (survey: counters only)    every 500 ms, later if it cost more than its share
//!   the system   (workers, poller, groups)   every 100 ms, later if frames cost more than theirs
//!   actors shown (25 rows, one in full)      every 100 ms, with the system
//! ```
//!
//! Without a query it waits and reads nothing. It has its own thread because a survey of a hundred thousand
//! actors takes tens of milliseconds, which would delay a runtime's worker.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use freeboard_actor::{ActorKey, StatsDetail, System};
use freeboard_meter::now_ns;

use crate::{
    actor_table::{ActorTable, Selection},
    board::BoardState,
    budget::{Budget, ProcessorTime},
    filter::Filter,
    frame::{Frame, SourceFrame, SystemFrame},
    query::Query,
    rows::{actor_frame, actors_frame},
    subscriptions::{LINGER, Subscriptions, Work},
    systems::WatchedSystem,
};

/// The least time between two frames.
const FRAME_PERIOD: Duration = Duration::from_millis(100);

/// The least time between two surveys of a system; rates over less would be mostly noise.
const SURVEY_PERIOD: Duration = Duration::from_millis(500);

/// The longest waits between frames and surveys, whatever they cost.
const FRAME_WAIT_MAX: Duration = Duration::from_secs(10);
const SURVEY_WAIT_MAX: Duration = Duration::from_secs(60);

/// A first frame is made although the budget still owes this much time.
const URGENT: Duration = Duration::from_secs(2);

/// Closes all subscriptions when it is dropped.
struct StopOnDrop(Arc<Subscriptions>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Reads systems and makes frames.
pub(crate) struct Sampler {
    state: BoardState,
    board: u64,
    sequence: u64,
    frames: Budget,
    surveys: Budget,
    /// By number, of systems with a viewer.
    states: HashMap<u64, SystemState>,
    selections: HashMap<Query, Selected>,
}

/// The last reading of a system.
#[derive(Default)]
struct SystemState {
    /// As it was last read, without actors.
    frame: SystemFrame,
    table: Option<ActorTable>,
    table_cost: Duration,
    asked_at: Option<Instant>,
}

/// The selection of a query from a table.
struct Selected {
    system: u64,
    table: u64,
    selection: Selection,
    actor: Option<ActorKey>,
}

/// Shared by all frames of one round.
struct Round {
    at_ms: u64,
    systems: Vec<WatchedSystem>,
    /// The system of each query.
    found: HashMap<Query, WatchedSystem>,
    sources: Vec<SourceFrame>,
    sources_more: u64,
    /// The systems that are alive and were read, by number.
    seen: HashMap<u64, System>,
}

impl Sampler {
    /// `share` is the part of one processor that it may use.
    pub(crate) fn new(state: BoardState, share: f64) -> Self {
        let now = Instant::now();
        Self {
            state,
            board: wall_ms(),
            sequence: 0,
            frames: Budget::new(share / 2.0, FRAME_WAIT_MAX, now),
            surveys: Budget::new(share / 2.0, SURVEY_WAIT_MAX, now),
            states: HashMap::new(),
            selections: HashMap::new(),
        }
    }

    /// Makes frames until the subscriptions are closed.
    pub(crate) fn run(mut self) {
        // Also after a panic: nobody may wait for frames that never come.
        let _stop = StopOnDrop(self.state.subscriptions.clone());
        let mut due = Instant::now();
        let mut urgent_due = due;
        while let Some(work) = self.state.subscriptions.next(due, urgent_due) {
            let begun = Instant::now();
            let time = ProcessorTime::now();
            let surveys = self.answer(work);
            let now = Instant::now();
            self.frames
                .spend(time.elapsed().saturating_sub(surveys), now);
            let owed = self.frames.wait(now);
            due = begun + FRAME_PERIOD.max(owed);
            urgent_due = now + owed.saturating_sub(URGENT);
        }
    }

    /// Runs one round. Returns the cost of surveys.
    fn answer(&mut self, work: Work) -> Duration {
        self.sequence += 1;
        let (sources, sources_more) = self.state.sources.frames();
        let mut round = Round {
            at_ms: wall_ms(),
            systems: self.state.systems.all(),
            found: HashMap::new(),
            sources,
            sources_more,
            seen: HashMap::new(),
        };
        let asked: Vec<(&Query, &Filter)> = (work.subscriptions.iter())
            .map(|it| (&it.query, &it.filter))
            .chain(work.requests.iter().map(|it| (&it.query, &it.filter)))
            .collect();
        let surveys = self.read_systems(&asked, work.is_urgent, &mut round);
        let is_asked = |query: &Query| asked.iter().any(|(it, _)| *it == query);
        self.selections.retain(|query, _| is_asked(query));
        for subscription in &work.subscriptions {
            let frame = self.frame(&subscription.query, &subscription.filter, &round);
            // All receivers may be gone.
            let _ = subscription.answer.send_replace(event(&frame));
        }
        for request in work.requests {
            let frame = self.frame(&request.query, &request.filter, &round);
            request.receiver.deliver(frame);
        }
        surveys
    }

    /// Reads all systems with a query, and surveys those that are due. Returns the cost of surveys.
    fn read_systems(
        &mut self,
        asked: &[(&Query, &Filter)],
        is_urgent: bool,
        round: &mut Round,
    ) -> Duration {
        let mut cost = Duration::ZERO;
        // The system, and whether a query needs times.
        let mut wanted: HashMap<u64, (WatchedSystem, bool)> = HashMap::new();
        for (query, filter) in asked {
            if let Some(watched) = self.state.systems.find(query.system.as_deref()) {
                round.found.insert((*query).clone(), watched.clone());
                let entry = wanted.entry(watched.number).or_insert((watched, false));
                entry.1 |= needs_times(query, filter);
            }
        }
        let now = Instant::now();
        self.states.retain(|number, state| {
            // The last frame is kept for as long as the system is listed.
            let is_recent = state.asked_at.is_some_and(|at| now - at < LINGER);
            if !is_recent && !wanted.contains_key(number) {
                state.table = None;
            }
            round.systems.iter().any(|it| it.number == *number)
        });
        for (number, (watched, needs_times)) in wanted {
            let state = self.states.entry(number).or_default();
            state.asked_at = Some(now);
            state.frame.name = watched.name.as_ref().to_owned();
            let Some(system) = watched.alive() else {
                state.frame.is_alive = false;
                continue;
            };
            state.read(&system);
            if state.is_table_due(needs_times, is_urgent, &mut self.surveys) {
                state.refresh_table(&system, needs_times);
                self.surveys.spend(state.table_cost, Instant::now());
                cost += state.table_cost;
            }
            round.seen.insert(number, system);
        }
        cost
    }

    /// The frame of one query.
    fn frame(&mut self, query: &Query, filter: &Filter, round: &Round) -> Frame {
        let watched = round.found.get(query);
        let system = watched.and_then(|watched| self.system(watched, query, filter, round));
        Frame {
            sequence: self.sequence,
            at_ms: round.at_ms,
            at_ns: now_ns(),
            board: self.board,
            systems: round.systems.iter().map(|it| it.name.to_string()).collect(),
            system,
            sources: round.sources.clone(),
            sources_more: round.sources_more,
        }
    }

    fn system(
        &mut self,
        watched: &WatchedSystem,
        query: &Query,
        filter: &Filter,
        round: &Round,
    ) -> Option<SystemFrame> {
        let state = self.states.get(&watched.number)?;
        let mut frame = state.frame.clone();
        let system = round.seen.get(&watched.number);
        let Some(table) = &state.table else {
            frame.actors.has_times = !needs_times(query, filter);
            return Some(frame);
        };
        let is_same = |it: &Selected| it.system == watched.number && it.table == table.number;
        if !self.selections.get(query).is_some_and(is_same) {
            let selected = Selected {
                system: watched.number,
                table: table.number,
                selection: table.select(query, filter),
                actor: query.actor.and_then(|id| table.find(id)),
            };
            self.selections.insert(query.clone(), selected);
        }
        let selected = &self.selections[query];
        frame.actors = actors_frame(system, table, &selected.selection, query.offset);
        frame.actors.survey_cost_ns = nanoseconds(state.table_cost);
        frame.actors.has_times = table.has_times || !needs_times(query, filter);
        frame.actor = (selected.actor.zip(system)).and_then(|(at, system)| actor_frame(system, at));
        Some(frame)
    }
}

impl SystemState {
    /// Reads everything but the actors.
    fn read(&mut self, system: &System) {
        let overview = system.overview();
        self.frame.fill(overview);
    }

    fn is_table_due(&self, needs_times: bool, is_urgent: bool, surveys: &mut Budget) -> bool {
        let owed = surveys.wait(Instant::now());
        let Some(table) = &self.table else {
            return owed <= URGENT;
        };
        let lacks_times = needs_times && !table.has_times;
        if is_urgent && lacks_times {
            return owed <= URGENT;
        }
        let age = Duration::from_nanos(now_ns().saturating_sub(table.at_ns));
        owed.is_zero() && (age >= SURVEY_PERIOD || lacks_times)
    }

    fn refresh_table(&mut self, system: &System, needs_times: bool) {
        let what = if needs_times {
            StatsDetail::Latencies
        } else {
            StatsDetail::Counters
        };
        let time = ProcessorTime::now();
        self.table.get_or_insert_default().refresh(system, what);
        self.table_cost = time.elapsed();
    }
}

fn needs_times(query: &Query, filter: &Filter) -> bool {
    query.sort.is_time() || filter.needs_times()
}

/// The frame as a server-sent event.
fn event(frame: &Frame) -> Bytes {
    let mut event = BytesMut::with_capacity(32 * 1024);
    event.put_slice(b"event: frame\ndata: ");
    let mut writer = event.writer();
    // A frame serializes without error, and compact JSON has no line breaks.
    serde_json::to_writer(&mut writer, frame).expect("a frame is plain data");
    let mut event = writer.into_inner();
    event.put_slice(b"\n\n");
    event.freeze()
}

/// Milliseconds since 1970.
fn wall_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| {
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
        })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
