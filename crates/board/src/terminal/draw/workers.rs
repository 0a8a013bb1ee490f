//! The workers: time by state, queue lengths, current runs, counters and long runs.

use crate::SystemFrame;
use freeboard_meter::{
    Balance, LongRunSnapshot, SchedulerSnapshot, StateTimes, WorkerSnapshot, WorkerState,
};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span as Words},
    widgets::Widget,
};

use super::grid::{self, Cell, Change, Column};
use crate::terminal::{
    figures::{NONE, count, percent, short, time},
    history::Span,
    names::short_type,
    palette::Palette,
    screen::Screen,
};

/// In the order of a bar.
const STATES: [(WorkerState, &str); 7] = [
    (WorkerState::Run, "█"),
    (WorkerState::Search, "s"),
    (WorkerState::Spin, "~"),
    (WorkerState::Poll, "p"),
    (WorkerState::Blocked, "!"),
    (WorkerState::Park, "·"),
    (WorkerState::Offline, "x"),
];

const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The rows of summary and legend.
const STRIP_EXTRA_ROWS: u16 = 2;
/// The most rows of long runs in the pane.
const LONG_RUNS_ROWS_MAX: u16 = 8;

/// The rows that the strip takes of `of_rows`.
pub(super) fn strip_rows(screen: &Screen, of_rows: u16) -> u16 {
    let Some(system) = screen.system() else {
        return 0;
    };
    let workers = u16::try_from(system.workers.len()).unwrap_or(u16::MAX);
    // Most of the screen is for the table below.
    workers.min(of_rows / 5) + STRIP_EXTRA_ROWS
}

/// Draws a summary, a bar for each worker that fits, and a legend.
pub(super) fn draw_strip(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let Some(system) = screen.system() else {
        return;
    };
    let [head, bars, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    summary(screen, system, head.width).render(head, buffer);
    draw_bars(screen, system, 0, bars, buffer);
    let hidden = system
        .workers
        .len()
        .saturating_sub(usize::from(bars.height));
    legend(screen.palette, hidden).render(foot, buffer);
}

/// Draws the pane: bars, counters and the latest long runs.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let Some(system) = screen.system() else {
        return;
    };
    let long_runs = u16::try_from(system.long_runs.len()).unwrap_or(u16::MAX);
    let long_runs_rows = match long_runs.min(LONG_RUNS_ROWS_MAX).min(area.height / 3) {
        0 => 0,
        rows => rows + 1,
    };
    let [head, foot, body, runs] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(long_runs_rows),
    ])
    .areas(area);
    summary(screen, system, head.width).render(head, buffer);
    legend(screen.palette, 0).render(foot, buffer);
    let workers = u16::try_from(system.workers.len()).unwrap_or(u16::MAX);
    let bars_rows = workers.min(body.height.saturating_sub(1) / 2);
    let [bars, table] =
        Layout::vertical([Constraint::Length(bars_rows), Constraint::Fill(1)]).areas(body);
    let cursor = usize::try_from(screen.cursor()).unwrap_or(usize::MAX);
    // Both show the page of the cursor.
    let first = cursor - cursor % usize::from(bars_rows.max(1));
    draw_bars(screen, system, first, bars, buffer);
    draw_counters(screen, system, table, buffer);
    draw_long_runs(screen, system, runs, buffer);
}

fn draw_bars(screen: &Screen, system: &SystemFrame, first: usize, area: Rect, buffer: &mut Buffer) {
    let bar_columns = usize::from(area.width / 4);
    let queue_columns = usize::from(area.width / 6);
    let span = screen.history.span();
    let shown = system.workers.iter().skip(first);
    let shown = shown.take(usize::from(area.height));
    let longest = shown
        .clone()
        .flat_map(|worker| screen.history.queue(worker.index, queue_columns))
        .max();
    for (row, worker) in area.rows().zip(shown) {
        let times = times(worker, span);
        let mut words = vec![Words::raw(format!("{:>3} ", worker.index))];
        words.extend(bar(&times, bar_columns, screen.palette));
        words.push(Words::raw(format!(" {:>5}", percent(times.utilisation()))));
        let lengths = screen.history.queue(worker.index, queue_columns);
        let line = sparkline(lengths, longest.unwrap_or_default());
        words.push(Words::raw(format!(
            " queue {:>6} {line:>queue_columns$} ",
            short(worker.queue_depth)
        )));
        words.push(Words::raw(current(worker)));
        Line::from(words).render(row, buffer);
    }
}

/// Its current run, or else its state.
fn current(worker: &WorkerSnapshot) -> String {
    match &worker.current {
        Some(run) if run.message_type.is_empty() => short_type(&run.actor_type),
        Some(run) => format!(
            "{} < {}",
            short_type(&run.actor_type),
            short_type(&run.message_type)
        ),
        None => worker.state.name().to_owned(),
    }
}

/// Its recent time by state, or the total time if that is unknown.
fn times(worker: &WorkerSnapshot, span: Option<Span<'_>>) -> StateTimes {
    let since = before(span, worker).map(|earlier| worker.times.since(&earlier.times));
    match since {
        Some(times) if times.total_ns() > 0 => times,
        _ => worker.times,
    }
}

fn bar(times: &StateTimes, columns: usize, palette: Palette) -> Vec<Words<'static>> {
    let total = times.total_ns() as f64;
    let mut until = 0.0;
    let mut drawn = 0;
    let mut words = vec![Words::raw("[")];
    for (state, sign) in STATES {
        until += times.of(state) as f64;
        let end = if total > 0.0 {
            (until / total * columns as f64).round() as usize
        } else {
            0
        };
        let width = end.saturating_sub(drawn);
        drawn += width;
        words.push(Words::styled(sign.repeat(width), palette.state(state)));
    }
    words.push(Words::raw(format!(
        "{}]",
        " ".repeat(columns.saturating_sub(drawn))
    )));
    words
}

/// Lengths as a line of bars; `longest` has full height.
fn sparkline(lengths: impl Iterator<Item = u64>, longest: u64) -> String {
    let steps = LEVELS.len() as u128 - 1;
    let longest = u128::from(longest.max(1));
    // Rounded up, so that only empty queues have the lowest bar.
    lengths
        .map(|length| LEVELS[(u128::from(length) * steps).div_ceil(longest).min(steps) as usize])
        .collect()
}

fn summary(screen: &Screen, system: &SystemFrame, columns: u16) -> Line<'static> {
    let palette = screen.palette;
    let scheduler = &system.scheduler;
    let mut words = vec![Words::styled(
        format!(
            "Workers {}/{}",
            scheduler.workers_online,
            system.workers.len()
        ),
        palette.title(),
    )];
    // Empty queues count as unbalanced, but are no reason for alarm.
    let is_any_queued = |it: &Balance| it.queues.iter().any(|length| *length > 0);
    if system.balance.as_ref().is_some_and(|it| !is_any_queued(it)) {
        words.push(Words::raw("  queues empty"));
    } else if let Some(balance) = &system.balance {
        let class = balance.class.name();
        words.push(Words::styled(
            format!("  {class} {:.2}", balance.ratio()),
            palette.class(balance.class),
        ));
    }
    words.push(Words::raw(format!(
        "  injector {}",
        short(scheduler.injector_depth)
    )));
    let earlier = screen.history.span();
    let earlier = earlier.and_then(|span| span.earlier.system.as_ref());
    let earlier = earlier.map(|system| &system.scheduler);
    type Counter = (&'static str, fn(&SchedulerSnapshot) -> u64);
    let counters: [Counter; 5] = [
        ("rescues", |it| it.rescues),
        ("collapses", |it| it.collapses),
        ("long runs", |it| it.long_runs),
        ("reliefs", |it| it.reliefs),
        ("forced wakes", |it| it.forced_wakes),
    ];
    for (name, count) in counters {
        let text = format!("  {name} {}", short(count(scheduler)));
        // A counter that has just grown is highlighted.
        let is_news = earlier.is_some_and(|before| count(before) < count(scheduler));
        words.push(if is_news {
            Words::styled(text, palette.bad())
        } else {
            Words::raw(text)
        });
    }
    words.push(Words::raw(format!(
        "  threads {} ({} spare)",
        scheduler.threads, scheduler.threads_spare
    )));
    if !scheduler.all_blocked.is_empty() {
        words.push(Words::styled("  all blocked", palette.bad()));
    }
    super::whole(words, columns)
}

fn legend(palette: Palette, hidden: usize) -> Line<'static> {
    let mut words = vec![Words::raw("   ")];
    for (state, sign) in STATES {
        words.push(Words::styled(format!(" {sign}"), palette.state(state)));
        words.push(Words::styled(format!(" {} ", state.name()), palette.dim()));
    }
    if hidden > 0 {
        words.push(Words::raw(format!(" {hidden} more: press 2")));
    }
    Line::from(words)
}

fn draw_counters(screen: &Screen, system: &SystemFrame, area: Rect, buffer: &mut Buffer) {
    let palette = screen.palette;
    let span = screen.history.span();
    let workers = system.workers.iter().map(|now| Change {
        now,
        before: before(span, now),
        span,
    });
    let workers: Vec<_> = workers.collect();
    type Col<'a> = Column<'a, Change<'a, WorkerSnapshot>>;
    let columns = [
        Col::text("WORKER", 10, 0, |it| format!("worker {}", it.now.index)),
        Col::text("STATE", 8, 1, |it| {
            Cell::styled(it.now.state.name(), palette.state(it.now.state))
        }),
        Col::figure("QUEUE", 7, 2, |it| short(it.now.queue_depth)),
        Col::figure("RUNS", 9, 3, |it| it.rate(|it| it.runs)),
        Col::figure("STEALS", 9, 4, |it| it.rate(|it| it.steals)),
        Col::figure("WAKES", 9, 5, |it| it.rate(|it| it.wakes)),
        Col::figure("PARKS", 9, 6, |it| it.rate(|it| it.parks)),
        Col::figure("BUDGETS", 9, 7, |it| it.rate(|it| it.budget_expiries)),
    ];
    let selected = usize::try_from(screen.cursor()).ok();
    grid::draw(&workers, &columns, selected, area, buffer, palette);
}

/// The worker at the beginning of the span.
fn before<'a>(span: Option<Span<'a>>, worker: &WorkerSnapshot) -> Option<&'a WorkerSnapshot> {
    let workers = &span?.earlier.system.as_ref()?.workers;
    workers.iter().find(|other| other.index == worker.index)
}

fn draw_long_runs(screen: &Screen, system: &SystemFrame, area: Rect, buffer: &mut Buffer) {
    let mut rows = area.rows();
    let Some(head) = rows.next() else {
        return;
    };
    let title = format!(
        "Long runs, the latest first ({} in all, {} not reported)",
        count(system.scheduler.long_runs),
        count(system.scheduler.long_runs_unreported)
    );
    Line::styled(title, screen.palette.title()).render(head, buffer);
    for (row, run) in rows.zip(system.long_runs.iter().rev()) {
        long_run(system, run).render(row, buffer);
    }
}

fn long_run(system: &SystemFrame, run: &LongRunSnapshot) -> Line<'static> {
    let kind = if run.is_blocked {
        "blocked"
    } else {
        "computed"
    };
    let cpu = run.cpu_share.map_or_else(|| NONE.to_owned(), percent);
    let ago = system.uptime_ns.saturating_sub(run.seen_ns);
    Line::raw(format!(
        "  {} {kind} {} (cpu {cpu}) in {} < {}, {} ago",
        run.worker
            .map_or_else(|| "displaced".to_owned(), |index| format!("worker {index}")),
        time(run.elapsed_ns),
        short_type(&run.run.actor_type),
        short_type(&run.run.message_type),
        time(ago),
    ))
}
