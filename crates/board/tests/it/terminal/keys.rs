//! The effect of keys on screen and query.

use super::support::{Stage, actors, check_not, frame};
use freeboard_board::terminal::Next;
use freeboard_board::{Order, SortKey};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.show(frame(0));
    stage
}

#[test]
fn q_and_control_c_quit_and_a_key_that_is_let_go_does_not() {
    let plain = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut released = plain;
    released.kind = KeyEventKind::Release;
    assert_eq!(stage().screen.key(plain), Next::Quit);
    assert_eq!(stage().screen.key(control_c), Next::Quit);
    assert_eq!(stage().screen.key(released), Next::Stay);
}

#[test]
fn control_c_quits_while_a_filter_is_typed_and_q_is_a_letter() {
    let mut stage = stage();
    stage.type_in("/q");
    stage.check(&["filter: q▏"]);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(stage.screen.key(control_c), Next::Quit);
}

#[test]
fn sorting_goes_from_column_to_column_and_turns_around() {
    let mut stage = stage();
    let sorted = |stage: &Stage| (stage.screen.query().sort, stage.screen.query().order);
    assert_eq!(sorted(&stage), (SortKey::Depth, Order::Desc));
    stage.press(&[KeyCode::Char('>')]);
    assert_eq!(sorted(&stage), (SortKey::Bound, Order::Desc));
    stage.press(&[KeyCode::Char('r')]);
    assert_eq!(sorted(&stage), (SortKey::Bound, Order::Asc));
    stage.press(&[KeyCode::Char('<'), KeyCode::Char('<')]);
    assert_eq!(sorted(&stage), (SortKey::State, Order::Asc));
    // All of them, around.
    stage.press(&[KeyCode::Right; SortKey::ALL.len()]);
    assert_eq!(sorted(&stage), (SortKey::State, Order::Asc));
}

#[test]
fn a_filter_is_sent_when_enter_is_pressed() {
    let mut stage = stage();
    stage.press(&[KeyCode::Down; 3]);
    stage.type_in("/depth>10k lox");
    assert_eq!(stage.screen.query().filter, "");
    stage.press(&[KeyCode::Backspace]).type_in("g");
    stage.press(&[KeyCode::Enter]);
    assert_eq!(stage.screen.query().filter, "depth>10k log");
    // The next one begins with it; Esc leaves it as it was.
    stage.type_in("/s");
    stage.check(&["filter: depth>10k logs▏"]);
    stage.press(&[KeyCode::Esc]);
    assert_eq!(stage.screen.query().filter, "depth>10k log");
    let mut matching = frame(1);
    matching.system.as_mut().unwrap().actors.matched = 200;
    stage.show(matching);
    stage.check(&["1 to 200 of 200 that match `depth>10k log`, of 100,003"]);
}

#[test]
fn a_filter_is_limited_to_the_length_that_the_board_accepts() {
    let mut stage = stage();
    stage.type_in("/").type_in(&"é".repeat(1_000));
    stage.check(&["é▏  (Enter applies, Esc cancels)"]);
    stage.press(&[KeyCode::Enter]);
    let length = stage.screen.query().filter.len();
    assert!(length <= freeboard_board::FILTER_BYTES_MAX, "{length}");
}

#[test]
fn rows_are_asked_for_before_the_cursor_is_there() {
    let mut stage = stage();
    stage.press(&[KeyCode::PageDown; 9]);
    assert_eq!(stage.screen.query().offset, 0);
    stage.press(&[KeyCode::PageDown; 3]);
    assert_eq!(stage.screen.query().offset, 50);
    let mut further = frame(1);
    further.system.as_mut().unwrap().actors = actors(50, 200);
    stage.show(further);
    stage.check(&["51 to 250 of 100,003", "Sender 120"]);
    stage.press(&[KeyCode::End]);
    assert_eq!(stage.screen.query().offset, 99_950);
    stage.press(&[KeyCode::Home]);
    assert_eq!(stage.screen.query().offset, 0);
}

#[test]
fn the_cursor_comes_back_when_fewer_match() {
    let mut stage = stage();
    stage.press(&[KeyCode::End]);
    let mut fewer = frame(1);
    let actors = &mut fewer.system.as_mut().unwrap().actors;
    actors.matched = 3;
    actors.rows.clear();
    actors.offset = 99_950;
    stage.show(fewer.clone());
    assert_eq!(stage.screen.query().offset, 0);
    let mut there = frame(2);
    there.system.as_mut().unwrap().actors = super::support::actors(0, 3);
    there.system.as_mut().unwrap().actors.matched = 3;
    stage.show(there).press(&[KeyCode::Enter]);
    assert_eq!(stage.screen.query().actor, Some(2));
}

#[test]
fn enter_opens_what_the_cursor_is_on_and_esc_goes_back() {
    let mut stage = stage();
    stage.press(&[KeyCode::Char('j'), KeyCode::Char('j'), KeyCode::Char('k')]);
    stage.press(&[KeyCode::Enter]);
    assert_eq!(stage.screen.query().actor, Some(1));
    stage.press(&[KeyCode::Esc]);
    assert_eq!(stage.screen.query().actor, None);
}

#[test]
fn panes_turn_around() {
    let mut stage = stage();
    stage.press(&[KeyCode::BackTab]);
    stage.check(&["front"]);
    stage.press(&[KeyCode::Tab]);
    stage.check(&["DEPTH▼"]);
    stage.press(&[KeyCode::Char('7')]);
    stage.check(&["users"]);
}

#[test]
fn a_pause_keeps_the_frame_until_the_query_changes() {
    let mut stage = stage();
    stage.press(&[KeyCode::Char(' ')]).show(frame(100));
    assert!(stage.screen.is_paused());
    stage.check(&["paused", "up 3 min 12 s"]);
    stage.press(&[KeyCode::Char('r')]).show(frame(100));
    stage.check(&["live", "up 4 min 2 s"]);
}

#[test]
fn the_s_key_selects_the_next_system() {
    let mut stage = stage();
    stage.press(&[KeyCode::Char('s')]);
    assert_eq!(stage.screen.query().system.as_deref(), Some("fetch"));
    let mut other = frame(1);
    other.system.as_mut().unwrap().name = "fetch".to_owned();
    stage.show(other).press(&[KeyCode::Char('s')]);
    assert_eq!(stage.screen.query().system.as_deref(), Some("flood"));
}

#[test]
fn help_is_there_until_the_next_key() {
    let mut stage = stage();
    stage.press(&[KeyCode::Char('?')]);
    stage.check(&["Keys (any key goes back)", "queue_p99>=5ms"]);
    stage.press(&[KeyCode::Char('x')]);
    check_not(&stage.text(), &["Keys (any"]);
}

#[test]
fn keys_are_accepted_before_the_first_frame() {
    let mut stage = Stage::new();
    let keys = ["jkgG<>rs \t12345678", "/abc"].concat();
    stage.type_in(&keys).press(&[
        KeyCode::Enter,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::PageDown,
        KeyCode::F(5),
    ]);
    stage.text();
}
