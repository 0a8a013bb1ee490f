//! The screen, drawn from given frames.

use std::time::{Duration, Instant};

use super::support::{Stage, actor, check, check_not, frame};
use freeboard_board::Frame;
use freeboard_board::terminal::{FeedError, Palette};
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;

fn shown(steps: u64) -> Stage {
    let mut stage = Stage::new();
    for step in 0..=steps {
        stage.show(frame(step));
    }
    stage
}

#[test]
fn the_header_says_what_is_shown_and_how_it_does() {
    shown(0).check(&[
        "flood (1/2) up 3 min 12 s",
        "100,003 actors",
        "live http://board:7700",
        "in 1.20 M/s  out 1.10 M/s  queued 1.23 M  restarts 1  dead letters 12  full 12",
    ]);
}

#[test]
fn workers_have_bars_queues_and_what_they_run() {
    let stage = shown(2);
    stage.check(&[
        "Workers 2/2  even 1.03  injector 0  rescues 4  collapses 2  long runs 9",
        // Three fifths of the last second, a fifth and a fifth, on 20 columns.
        "  0 [████████████ssss····]  60 % queue     32",
        "LogServer < Line",
        "█ run  s search  ~ spin  p poll  ! blocked  · park  x offline",
    ]);
}

#[test]
fn actors_are_listed_as_they_came_with_units() {
    shown(0).check(&[
        "1 to 200 of 100,003; order as of 0.4 s ago",
        "DEPTH▼",
        "log",
        "Sender 1",
        "99,999",
        "12.3 k/s",
        "8.5/s",
        "4.56 ms",
    ]);
}

#[test]
fn narrow_screens_show_the_most_important_columns() {
    let stage = shown(0);
    check_not(&stage.text(), &["WAIT50", "BOUND"]);
    check(
        &stage.text_of(200, 50),
        &["WAIT50", "BOUND", "TYPE", "RESTARTS"],
    );
}

#[test]
fn a_column_that_is_sorted_by_is_always_there() {
    let mut stage = shown(0);
    stage.press(&[KeyCode::Left]);
    stage.show(frame(1)).check(&["STATE▲"]);
    stage.press(&[KeyCode::Left]);
    stage.show(frame(2)).check(&["TYPE▲"]);
}

#[test]
fn a_small_screen_shows_the_required_size() {
    let stage = shown(0);
    check(&stage.text_of(79, 24), &["80x24 is needed, this is 79x24"]);
    check(&stage.text_of(80, 23), &["80x24 is needed, this is 80x23"]);
    // Smaller than the text, even.
    for (columns, rows) in [(1, 1), (10, 1), (3, 40)] {
        stage.text_of(columns, rows);
    }
}

#[test]
fn every_pane_is_drawn_in_every_size() {
    let mut stage = shown(2);
    for pane in '1'..='8' {
        stage.press(&[KeyCode::Char(pane)]);
        for (columns, rows) in [(80, 24), (81, 25), (132, 43), (300, 100)] {
            stage.text_of(columns, rows);
            stage.press(&[KeyCode::Enter]).text_of(columns, rows);
            stage.press(&[KeyCode::Esc]);
        }
    }
}

#[test]
fn one_actor_shows_its_lanes_what_it_shed_and_its_times() {
    let mut stage = shown(0);
    stage.press(&[KeyCode::Down, KeyCode::Enter]);
    assert_eq!(stage.screen.query().actor, Some(1));
    for step in 1..=3 {
        let mut frame = frame(step);
        frame.system.as_mut().unwrap().actor = Some(actor(1, step));
        stage.show(frame);
    }
    stage.check(&[
        "log  actor 1  lab::flood::LogServer  running  2 restarts",
        "0  drop_newest 41",
        // 400 more in half a second.
        "800/s",
        "In queue",
        "p50 2.00 us  p99 4.00 us",
        "1.02 us",
        "8.19 us",
        "nothing measured yet",
    ]);
}

#[test]
fn a_terminated_actor_is_reported() {
    let mut stage = shown(0);
    stage.press(&[KeyCode::Enter]);
    stage.check(&["waiting for actor 0"]);
    stage.show(frame(1));
    stage.check(&["actor 0 is not alive; Esc goes back"]);
}

#[test]
fn sources_show_rates_from_two_frames() {
    let mut stage = shown(2);
    stage.press(&[KeyCode::Char('3')]);
    stage.check(&["ACCEPTED", "journal", "1.00 k/s"]);
    stage.press(&[KeyCode::Char('5')]);
    stage.check(&["SENT", "sessions", "2.00 k/s"]);
    stage.press(&[KeyCode::Char('6')]);
    stage.check(&["HITS", "pages", "20/s"]);
    stage.press(&[KeyCode::Char('8')]);
    stage.check(&["no node was given to this board"]);
    stage.press(&[KeyCode::Char('9')]);
    stage.check(&["9 Other", "front", "http"]);
    stage.press(&[KeyCode::Enter]);
    stage.check(&["http front", "requests", "100/s"]);
}

#[test]
fn io_and_groups_have_panes() {
    let mut stage = shown(2);
    stage.press(&[KeyCode::Char('4')]);
    stage.check(&[
        "Policy eager  12 sockets registered",
        "longest gap 3.00 ms",
        "p50 12.0 us  p99 1.20 ms",
        "Accepts 60/s",
        "worker 0",
        "200/s",
        "50/s",
    ]);
    stage.press(&[KeyCode::Char('7')]);
    stage.check(&["users", "hash", "2/2", "1.50", "800/s"]);
    stage.press(&[KeyCode::Enter]);
    stage.check(&["actor 5", "75 %", "600/s", "actor 6", "25 %"]);
}

#[test]
fn long_runs_are_listed_with_the_workers() {
    let mut stage = shown(0);
    stage.press(&[KeyCode::Char('2')]);
    stage.check(&[
        "Long runs, the latest first (9 in all",
        "worker 1 blocked 12.0 ms (cpu 50 %) in LogServer < Line, 2.00 s ago",
    ]);
}

#[test]
fn counters_that_began_anew_have_no_rate() {
    let mut stage = shown(2);
    stage.press(&[KeyCode::Char('3')]);
    let mut restarted = frame(3);
    restarted.sources[0].families[0].samples[0].value = 3.0;
    stage.show(restarted);
    let text = stage.text();
    let line = text.lines().find(|line| line.contains("journal"));
    check(line.unwrap(), &["–"]);
    check_not(line.unwrap(), &["/s"]);
}

#[test]
fn another_board_and_a_long_gap_reset_the_history() {
    for change in [
        (|frame| frame.board += 1) as fn(&mut Frame),
        |frame| frame.system.as_mut().unwrap().name.push('2'),
        |frame| frame.at_ns += 3_600_000_000_000,
        |frame| frame.at_ns = 5,
    ] {
        let mut stage = shown(2);
        stage.press(&[KeyCode::Char('5')]);
        stage.check(&["2.00 k/s"]);
        let mut other = frame(3);
        change(&mut other);
        stage.show(other);
        check_not(&stage.text(), &["k/s"]);
    }
}

#[test]
fn a_lost_link_shows_reason_age_and_next_attempt() {
    let mut stage = shown(1);
    let came_at = stage.now;
    let error = FeedError::Unreachable("connection refused".to_owned());
    stage.fail(error, came_at + Duration::from_secs(15));
    stage.now = came_at + Duration::from_secs(12);
    stage.check(&[
        "LOST http://board:7700",
        "unreachable: connection refused; again in 3 s; as of 12 s ago",
        // What was there is there still.
        "99,999",
    ]);
    stage.show(frame(2));
    stage.check(&["live http://board:7700"]);
    check_not(&stage.text(), &["LOST", "unreachable"]);
}

#[test]
fn the_state_of_the_link_is_shown_before_the_first_frame() {
    let mut stage = Stage::new();
    stage.check(&["asking http://board:7700"]);
    stage.fail(
        FeedError::Refused {
            status: 401,
            text: "a token is needed".to_owned(),
        },
        Instant::now(),
    );
    stage.check(&["refused", "a token is needed (401)"]);
    stage.show(Frame {
        at_ms: 1,
        ..Frame::default()
    });
    stage.check(&["no system is watched yet"]);
}

#[test]
fn an_old_frame_is_reported_as_late() {
    let mut stage = shown(1);
    stage.now += Duration::from_secs(7);
    stage.check(&["late", "slow to answer; as of 7 s ago"]);
}

#[test]
fn an_ended_system_keeps_its_last_frame() {
    let mut ended = frame(0);
    ended.system.as_mut().unwrap().is_alive = false;
    Stage::new().show(ended).check(&["has ended", "99,999"]);
}

#[test]
fn names_cannot_move_the_cursor_of_the_terminal() {
    let mut hostile = frame(0);
    let row = &mut hostile.system.as_mut().unwrap().actors.rows[0];
    row.name = Some("\x1b[2J\x07evil\r\n".to_owned());
    let mut stage = Stage::new();
    stage.show(hostile);
    let text = stage.text();
    check(&text, &["evil"]);
    assert!(!text.contains(['\x1b', '\x07', '\r']));
}

#[test]
fn extreme_values_are_drawn() {
    let mut absurd = frame(1);
    absurd.at_ns = u64::MAX;
    let system = absurd.system.as_mut().unwrap();
    system.uptime_ns = u64::MAX;
    system.actors.offset = u64::MAX;
    system.actors.matched = u64::MAX;
    for worker in &mut system.workers {
        worker.index = usize::MAX;
        worker.times.run_ns = u64::MAX;
        worker.times.park_ns = u64::MAX;
        worker.queue_depth = u64::MAX;
    }
    system.dead_letters.push(system.dead_letters[0].clone());
    system.dead_letters[0].count = u64::MAX;
    for sample in &mut absurd.sources[0].families[0].samples {
        sample.value = f64::NAN;
    }
    let mut stage = Stage::new();
    stage.show(frame(0)).show(absurd);
    for pane in '1'..='8' {
        stage.press(&[KeyCode::Char(pane)]).text();
    }
}

#[test]
fn without_colours_there_are_none() {
    let colours = |palette| {
        let mut stage = Stage::with(palette);
        stage.show(frame(0)).show(frame(1));
        let terminal = stage.terminal(80, 24);
        let cells = terminal.backend().buffer().content().to_vec();
        cells
            .iter()
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert_eq!(colours(Palette::Plain), 0);
    assert!(colours(Palette::Colour) > 0);
}
