//! The thread that looks at systems, for as long as anybody asks.
//!
//! ```text
//!   all actors   (census: counters alone)    every 500 ms, later if it cost more than its share
//!   the system   (workers, poller, groups)   every 100 ms, later if frames cost more than theirs
//!   actors shown (25 rows, one in full)      every 100 ms, with the system
//! ```
//!
//! Nobody asks: it waits, and looks at nothing. It is a thread of its own because a look at a hundred
//! thousand actors takes tens of milliseconds, which no runtime's worker should be held up for.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use freeboard_actor::{ActorKey, StatsDetail, System};
use freeboard_meter::now_ns;

use crate::{
    budget::Budget,
    desk::{Desk, LINGER, Work},
    filter::Filter,
    frame::{Frame, SourceFrame, SystemFrame},
    processor::ProcessorTime,
    query::Query,
    rows::{actor_frame, actors_frame},
    source::Sources,
    survey::{Census, Selection},
    watched::{Systems, Watched},
};

/// Between two frames, at least.
const FRAME_PERIOD: Duration = Duration::from_millis(100);

/// Between two surveys of a system, at least: rates over less would be mostly chance.
const SURVEY_PERIOD: Duration = Duration::from_millis(500);

/// The longest that frames and surveys are waited for, however much they cost.
const FRAME_WAIT_MAX: Duration = Duration::from_secs(10);
const SURVEY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Who waits for a first answer gets it although so much time is still to be waited off.
const URGENT: Duration = Duration::from_secs(2);

/// Ends everybody's listening when it is dropped.
struct Stops(Arc<Desk>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Looks, and answers.
pub(crate) struct Sampler {
    desk: Arc<Desk>,
    systems: Arc<Systems>,
    sources: Arc<Sources>,
    board: u64,
    sequence: u64,
    frames: Budget,
    surveys: Budget,
    /// By the systems' numbers, of those that are being asked for.
    known: HashMap<u64, Known>,
    selections: HashMap<Query, Selected>,
}

/// What is known of a system.
#[derive(Default)]
struct Known {
    /// As it was last seen, without actors.
    frame: SystemFrame,
    census: Option<Census>,
    census_cost: Duration,
    asked_at: Option<Instant>,
}

/// What a query picked out of a census.
struct Selected {
    system: u64,
    census: u64,
    selection: Selection,
    actor: Option<ActorKey>,
}

/// What all answers of one time share.
struct Moment {
    at_ms: u64,
    systems: Vec<Watched>,
    /// Which system each query is about.
    found: HashMap<Query, Watched>,
    sources: Vec<SourceFrame>,
    sources_more: u64,
    /// The systems that are alive and were looked at, by number.
    seen: HashMap<u64, System>,
}

impl Sampler {
    /// `share` of one processor is what it may cost.
    pub(crate) fn new(
        desk: Arc<Desk>,
        systems: Arc<Systems>,
        sources: Arc<Sources>,
        share: f64,
    ) -> Self {
        let now = Instant::now();
        Self {
            desk,
            systems,
            sources,
            board: wall_ms(),
            sequence: 0,
            frames: Budget::new(share / 2.0, FRAME_WAIT_MAX, now),
            surveys: Budget::new(share / 2.0, SURVEY_WAIT_MAX, now),
            known: HashMap::new(),
            selections: HashMap::new(),
        }
    }

    /// Answers until the desk is closed.
    pub(crate) fn run(mut self) {
        // However this ends, nobody is to wait for answers that never come.
        let _stops = Stops(self.desk.clone());
        let mut due = Instant::now();
        let mut urgent_due = due;
        while let Some(work) = self.desk.next(due, urgent_due) {
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

    /// Answers everybody. Returns what surveys cost.
    fn answer(&mut self, work: Work) -> Duration {
        self.sequence += 1;
        let (sources, sources_more) = self.sources.frames();
        let mut moment = Moment {
            at_ms: wall_ms(),
            systems: self.systems.all(),
            found: HashMap::new(),
            sources,
            sources_more,
            seen: HashMap::new(),
        };
        let asked: Vec<(&Query, &Filter)> = (work.questions.iter())
            .map(|it| (&it.query, &it.filter))
            .chain(work.demands.iter().map(|it| (&it.query, &it.filter)))
            .collect();
        let surveys = self.look(&asked, work.is_urgent, &mut moment);
        let is_asked = |query: &Query| asked.iter().any(|(it, _)| *it == query);
        self.selections.retain(|query, _| is_asked(query));
        for question in &work.questions {
            let frame = self.frame(&question.query, &question.filter, &moment);
            // Nobody may listen any more.
            let _ = question.answer.send_replace(event(&frame));
        }
        for demand in work.demands {
            let frame = self.frame(&demand.query, &demand.filter, &moment);
            demand.asker.tell(frame);
        }
        surveys
    }

    /// Looks at all systems that are asked for, and takes a census of those where it is time for it.
    fn look(
        &mut self,
        asked: &[(&Query, &Filter)],
        is_urgent: bool,
        moment: &mut Moment,
    ) -> Duration {
        let mut cost = Duration::ZERO;
        // System, and whether times are asked for.
        let mut wanted: HashMap<u64, (Watched, bool)> = HashMap::new();
        for (query, filter) in asked {
            if let Some(watched) = self.systems.find(query.system.as_deref()) {
                moment.found.insert((*query).clone(), watched.clone());
                let entry = wanted.entry(watched.number).or_insert((watched, false));
                entry.1 |= needs_times(query, filter);
            }
        }
        let now = Instant::now();
        self.known.retain(|number, known| {
            // Of the others, what they were like is kept for as long as they are listed.
            let is_recent = known.asked_at.is_some_and(|at| now - at < LINGER);
            if !is_recent && !wanted.contains_key(number) {
                known.census = None;
            }
            moment.systems.iter().any(|it| it.number == *number)
        });
        for (number, (watched, needs_times)) in wanted {
            let known = self.known.entry(number).or_default();
            known.asked_at = Some(now);
            known.frame.name = watched.name.as_ref().to_owned();
            let Some(system) = watched.alive() else {
                known.frame.is_alive = false;
                continue;
            };
            known.look(&system);
            if known.is_census_due(needs_times, is_urgent, &mut self.surveys) {
                known.take_census(&system, needs_times);
                self.surveys.spend(known.census_cost, Instant::now());
                cost += known.census_cost;
            }
            moment.seen.insert(number, system);
        }
        cost
    }

    /// One answer.
    fn frame(&mut self, query: &Query, filter: &Filter, moment: &Moment) -> Frame {
        let watched = moment.found.get(query);
        let system = watched.and_then(|watched| self.system(watched, query, filter, moment));
        Frame {
            sequence: self.sequence,
            at_ms: moment.at_ms,
            at_ns: now_ns(),
            board: self.board,
            systems: moment
                .systems
                .iter()
                .map(|it| it.name.to_string())
                .collect(),
            system,
            sources: moment.sources.clone(),
            sources_more: moment.sources_more,
        }
    }

    fn system(
        &mut self,
        watched: &Watched,
        query: &Query,
        filter: &Filter,
        moment: &Moment,
    ) -> Option<SystemFrame> {
        let known = self.known.get(&watched.number)?;
        let mut frame = known.frame.clone();
        let system = moment.seen.get(&watched.number);
        let Some(census) = &known.census else {
            frame.actors.has_times = !needs_times(query, filter);
            return Some(frame);
        };
        let is_same = |it: &Selected| it.system == watched.number && it.census == census.number;
        if !self.selections.get(query).is_some_and(is_same) {
            let selected = Selected {
                system: watched.number,
                census: census.number,
                selection: census.select(query, filter),
                actor: query.actor.and_then(|id| census.find(id)),
            };
            self.selections.insert(query.clone(), selected);
        }
        let selected = &self.selections[query];
        frame.actors = actors_frame(system, census, &selected.selection, query.offset);
        frame.actors.survey_cost_ns = nanoseconds(known.census_cost);
        frame.actors.has_times = census.has_times || !needs_times(query, filter);
        frame.actor = (selected.actor.zip(system)).and_then(|(at, system)| actor_frame(system, at));
        Some(frame)
    }
}

impl Known {
    /// Reads all but the actors.
    fn look(&mut self, system: &System) {
        let overview = system.overview();
        self.frame.fill(overview);
    }

    fn is_census_due(&self, needs_times: bool, is_urgent: bool, surveys: &mut Budget) -> bool {
        let owed = surveys.wait(Instant::now());
        let Some(census) = &self.census else {
            return owed <= URGENT;
        };
        let lacks_times = needs_times && !census.has_times;
        if is_urgent && lacks_times {
            return owed <= URGENT;
        }
        let age = Duration::from_nanos(now_ns().saturating_sub(census.at_ns));
        owed.is_zero() && (age >= SURVEY_PERIOD || lacks_times)
    }

    fn take_census(&mut self, system: &System, needs_times: bool) {
        let what = if needs_times {
            StatsDetail::Latencies
        } else {
            StatsDetail::Counters
        };
        let time = ProcessorTime::now();
        self.census.get_or_insert_default().look(system, what);
        self.census_cost = time.elapsed();
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
    // Numbers, text and lists of them: nothing that JSON could refuse; and it has no line breaks.
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
