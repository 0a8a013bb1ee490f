//! Frames to show, a screen to show them on, and keys.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod server;

use std::sync::Arc;
use std::time::Instant;

use freeboard_board::terminal::{Next, Palette, Reading, Screen};
use freeboard_board::{
    ActorFrame, ActorRow, ActorsFrame, Frame, OctaveCount, Query, SourceFrame, SystemFrame,
};
use freeboard_meter::{
    ActorSnapshot, Balance, CurrentRun, Family, FamilyKind, GroupSnapshot, HistogramSummary,
    LaneSnapshot, LongRunSnapshot, MemberSnapshot, PollerSnapshot, PollsSnapshot, ReasonCount,
    Sample, SchedulerSnapshot, StateTimes, WorkerSnapshot, WorkerState,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

/// A screen and its readings.
pub(crate) struct Stage {
    pub(crate) screen: Screen,
    reading: Reading,
    pub(crate) now: Instant,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Palette::Plain)
    }

    pub(crate) fn with(palette: Palette) -> Self {
        let query = Query::default();
        Self {
            screen: Screen::new("http://board:7700".to_owned(), palette, query.clone()),
            reading: Reading::new(query),
            now: Instant::now(),
        }
    }

    /// Shows a frame that answers the current query.
    pub(crate) fn show(&mut self, frame: Frame) -> &mut Self {
        self.now = Instant::now();
        let query = Arc::new(self.screen.query().clone());
        self.reading.come(frame, query, self.now);
        self.screen.take(self.reading.clone());
        self
    }

    pub(crate) fn fail(
        &mut self,
        error: freeboard_board::terminal::FeedError,
        again_at: Instant,
    ) -> &mut Self {
        self.reading.fail(error, again_at);
        self.screen.take(self.reading.clone());
        self
    }

    pub(crate) fn press(&mut self, keys: &[KeyCode]) -> &mut Self {
        for &code in keys {
            let next = self.screen.key(KeyEvent::new(code, KeyModifiers::NONE));
            assert_eq!(next, Next::Stay, "{code:?}");
        }
        self
    }

    pub(crate) fn type_in(&mut self, text: &str) -> &mut Self {
        let keys: Vec<_> = text.chars().map(KeyCode::Char).collect();
        self.press(&keys)
    }

    pub(crate) fn text(&self) -> String {
        self.text_of(80, 24)
    }

    pub(crate) fn text_of(&self, columns: u16, rows: u16) -> String {
        self.terminal(columns, rows).backend().to_string()
    }

    pub(crate) fn terminal(&self, columns: u16, rows: u16) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal
            .draw(|frame| {
                self.screen.draw(frame.area(), frame.buffer_mut(), self.now);
            })
            .unwrap();
        terminal
    }

    /// Checks that these texts are on a screen of the smallest size.
    #[track_caller]
    pub(crate) fn check(&self, wanted: &[&str]) {
        check(&self.text(), wanted);
    }
}

#[track_caller]
pub(crate) fn check(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "`{wanted}` is not in\n{text}");
    }
}

#[track_caller]
pub(crate) fn check_not(text: &str, unwanted: &[&str]) {
    for unwanted in unwanted {
        assert!(!text.contains(unwanted), "`{unwanted}` is in\n{text}");
    }
}

/// The frame of a small system after `step` half seconds; all counters grow evenly.
pub(crate) fn frame(step: u64) -> Frame {
    Frame {
        sequence: step + 1,
        at_ms: 1_700_000_000_000 + step * 500,
        at_ns: 1_000_000_000 + step * 500_000_000,
        board: 7,
        systems: vec!["flood".to_owned(), "fetch".to_owned()],
        system: Some(system(step)),
        sources: vec![
            source(
                "stream",
                "journal",
                "freeboard_stream_records_accepted_total",
                step * 500,
            ),
            source(
                "redis",
                "sessions",
                "freeboard_redis_sent_total",
                step * 1_000,
            ),
            source("cache", "pages", "freeboard_cache_hits_total", step * 10),
            source("http", "front", "freeboard_http_requests_total", step * 50),
        ],
        ..Frame::default()
    }
}

pub(crate) fn source(kind: &str, name: &str, family: &str, value: u64) -> SourceFrame {
    SourceFrame {
        kind: kind.to_owned(),
        name: name.to_owned(),
        families: vec![Family {
            name: family.to_owned(),
            kind: FamilyKind::Counter,
            help: "What it counts.".to_owned(),
            samples: vec![Sample {
                name: family.to_owned(),
                labels: vec![(kind.to_owned(), name.to_owned())],
                value: value as f64,
            }],
        }],
        ..SourceFrame::default()
    }
}

fn system(step: u64) -> SystemFrame {
    let workers = vec![worker(0, step), worker(1, step)];
    SystemFrame {
        name: "flood".to_owned(),
        is_alive: true,
        uptime_ns: 192_000_000_000 + step * 500_000_000,
        actors_alive: 100_003,
        actors_spawned: 100_010,
        actors_ended: 7,
        actors_restarted: 1,
        dead_letters: vec![ReasonCount {
            reason: "full".to_owned(),
            count: 12,
        }],
        balance: Balance::of_workers(&workers),
        workers,
        scheduler: SchedulerSnapshot {
            workers_online: 2,
            threads: 3,
            threads_spare: 1,
            rescues: 4,
            collapses: 2,
            long_runs: 9,
            ..SchedulerSnapshot::default()
        },
        poller: Some(poller(step)),
        long_runs: vec![LongRunSnapshot {
            worker: Some(1),
            run: run(),
            elapsed_ns: 12_000_000,
            cpu_share: Some(0.5),
            is_blocked: true,
            stack: None,
            seen_ns: 190_000_000_000,
        }],
        groups: vec![group(step)],
        actors: actors(0, 200),
        actor: None,
        ..SystemFrame::default()
    }
}

fn worker(index: usize, step: u64) -> WorkerSnapshot {
    WorkerSnapshot {
        index,
        state: WorkerState::Run,
        queue_depth: 30 + index as u64 + step,
        runs: step * 1_000,
        times: StateTimes {
            run_ns: step * 300_000_000,
            park_ns: step * 100_000_000,
            search_ns: step * 100_000_000,
            ..StateTimes::default()
        },
        current: Some(run()),
        ..WorkerSnapshot::default()
    }
}

fn run() -> CurrentRun {
    CurrentRun {
        actor: 3,
        actor_type: "lab::flood::LogServer".to_owned(),
        message_type: "lab::flood::Line".to_owned(),
    }
}

fn poller(step: u64) -> PollerSnapshot {
    PollerSnapshot {
        policy: "eager".to_owned(),
        sources: 12,
        workers: vec![PollsSnapshot {
            attempts: step * 100,
            won_busy_eager: step * 25,
            ..PollsSnapshot::default()
        }],
        readiness_to_run: HistogramSummary {
            count: 5,
            p50: 12_000,
            p99: 1_200_000,
            ..HistogramSummary::default()
        },
        gap_max_ns: 3_000_000,
        accepts: step * 30,
        ..PollerSnapshot::default()
    }
}

fn group(step: u64) -> GroupSnapshot {
    let member = |id, routed| MemberSnapshot {
        id,
        routed,
        is_alive: true,
        ..MemberSnapshot::default()
    };
    GroupSnapshot {
        id: 5,
        name: Some("users".to_owned()),
        actor_type: "lab::User".to_owned(),
        router: "hash".to_owned(),
        members: vec![member(5, step * 300), member(6, step * 100)],
        skew: 1.5,
        ..GroupSnapshot::default()
    }
}

/// Rows of actors that are numbered as they are sorted.
pub(crate) fn actors(offset: u64, rows: u64) -> ActorsFrame {
    let row = |id| ActorRow {
        id,
        name: (id == 0).then(|| "log".to_owned()),
        actor_type: "lab::flood::Sender".to_owned(),
        state: "queued".to_owned(),
        depth: 100_000 - id,
        bound: 100_000,
        high_water: 100_000,
        in_per_s: Some(12_345.0),
        out_per_s: Some(8.5),
        shed: 3,
        queue_p99_ns: Some(4_560_000),
        ..ActorRow::default()
    };
    ActorsFrame {
        survey: 1,
        survey_age_ns: 400_000_000,
        total: 100_003,
        matched: 100_003,
        depth: 1_234_567,
        in_per_s: Some(1_200_000.0),
        out_per_s: Some(1_100_000.0),
        offset,
        rows: (offset..(offset + rows).min(100_003)).map(row).collect(),
        ..ActorsFrame::default()
    }
}

/// An actor with one lane and some times.
pub(crate) fn actor(id: u64, step: u64) -> ActorFrame {
    let octave = |from_ns, count| OctaveCount { from_ns, count };
    ActorFrame {
        snapshot: ActorSnapshot {
            id,
            name: Some("log".to_owned()),
            actor_type: "lab::flood::LogServer".to_owned(),
            state: "running".to_owned(),
            restarts: 2,
            lanes: vec![LaneSnapshot {
                bound: 1_000,
                depth: 17,
                accepted: step * 400,
                shed: vec![ReasonCount {
                    reason: "drop_newest".to_owned(),
                    count: 41,
                }],
                time_in_queue: Some(HistogramSummary {
                    count: 160,
                    p50: 2_000,
                    p99: 4_000,
                    ..HistogramSummary::default()
                }),
                ..LaneSnapshot::default()
            }],
            handling: None,
        },
        time_in_queue: vec![vec![octave(1_024, 80), octave(4_096, 80)]],
        handling: Vec::new(),
    }
}
