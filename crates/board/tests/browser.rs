//! The page in a real browser: it shows changes, reacts to clicks and keys, and reconnects.
//!
//! A process of its own: its browsers use both processors of a small machine, and the tests in `it` that wait for a
//! client's patience to end would run beside them.
#![cfg(unix)]

#[path = "it/common/mod.rs"]
mod common;

use common::{
    LIMIT, Note, eventually,
    http::watched,
    page::{ENTER, ESCAPE, Page},
    spawn_idle, told,
};
use freeboard_board::BoardOptions;
use freeboard_flow::BOUND_DEFAULT;
use freeboard_meter::FamilyKind;

#[test]
fn a_mailbox_rises_and_falls_and_keys_and_themes_work() {
    let (system, _board, address) = watched("flooded", BoardOptions::new());
    spawn_idle(&system, 100);
    let (actors, gate) = told(&system, &[1]);
    let id = actors[0].id().get();
    let page = Page::open(address);
    page.shows("the flooded actor comes first", "names()[0] === 'held-0'");
    page.shows("its first message", "depths()[0] === 1");
    for _ in 0..500 {
        actors[0].tell(Note).unwrap();
    }
    page.shows("the flood has risen", "depths()[0] === 501");

    page.click(&format!("row-{id}"));
    page.shows(
        "it is open",
        "shown('detail') && find('detail-title').textContent.includes('held-0')",
    );
    page.press(ESCAPE);
    page.shows("it is closed", "!shown('detail')");
    gate.open();
    page.shows(
        "the flood has fallen",
        "rows().length === 25 && depths().every((depth) => depth === 0)",
    );

    page.press("/");
    page.shows(
        "the filter has the focus",
        "document.activeElement === find('filter')",
    );
    page.press(&format!("held-0{ENTER}"));
    page.shows(
        "the filter holds",
        "names().length === 1 && names()[0] === 'held-0'",
    );
    page.press(ESCAPE);
    assert_eq!(page.value("find('filter').value"), "held-0");
    page.press("j");
    page.press(ENTER);
    page.shows("keys open an actor", "shown('detail')");
    page.press(ESCAPE);
    page.shows("and close it", "!shown('detail')");
    page.press("p");
    page.shows("it is paused", "state() === 'paused'");
    page.press("p");
    page.shows("it goes on", "state() === 'live'");

    let colour = "getComputedStyle(document.body).backgroundColor";
    page.emulate(1_280, 800, "light");
    let light = page.value(colour);
    page.emulate(1_280, 800, "dark");
    assert_ne!(page.value(colour), light);
    for (width, theme) in [(1_280, "light"), (360, "light"), (360, "dark")] {
        page.emulate(width, 800, theme);
        page.filter("");
        page.shows("all rows are there", "rows().length === 25");
        let over = page.value("document.documentElement.scrollWidth - innerWidth");
        assert_eq!(over, 0, "at a width of {width}");
    }
    page.is_silent();
}

#[test]
fn a_hundred_thousand_actors_are_sorted_and_filtered() {
    let (system, _board, address) = watched("many", BoardOptions::new());
    spawn_idle(&system, 100_000);
    let (_actors, _gate) = told(&system, &[3, 7, 5]);
    let page = Page::open(address);
    page.shows(
        "the deepest comes first",
        "depths().slice(0, 4).join() === '7,5,3,0'",
    );
    page.shows(
        "all are counted",
        "find('actors-summary').textContent.includes('100,003')",
    );
    page.sort("depth");
    page.shows(
        "the deepest are not among the first",
        "depths().every((depth) => depth === 0)",
    );
    page.sort("name");
    page.shows(
        "by name",
        "names().slice(0, 3).join() === 'held-0,held-1,held-2'",
    );
    page.sort("name");
    page.shows(
        "by name, from the end",
        "names().slice(0, 3).join() === 'held-2,held-1,held-0'",
    );
    page.filter("held- depth>4");
    page.shows("two match", "names().join() === 'held-2,held-1'");
    page.shows(
        "and are counted",
        "find('actors-summary').textContent.includes('2 matching, 100,003')",
    );
    page.filter("no-such-actor");
    page.shows("none match", "rows().length === 0 && shown('actors-none')");
    page.filter("depth=0");
    page.shows("the others do", "rows().length === 25");
    let first = page.value("rows()[0].dataset.test");
    page.press(&format!("{ESCAPE}]"));
    page.shows(
        "the next page",
        &format!("rows()[0].dataset.test !== {first}"),
    );
    page.is_silent();
    page.filter("depth>much");
    page.shows(
        "it says what it did not understand",
        "find('filter-error').textContent.includes('`much` is no number')",
    );
    page.shows("and goes on", "state() === 'live'");
}

#[test]
fn the_page_reports_a_lost_server_and_reconnects() {
    let (system, board, address) = watched("lasting", BoardOptions::new());
    let page = Page::open(address);
    page.is_silent();
    drop(board);
    page.shows(
        "it has lost the connection",
        "state() === 'lost' && shown('banner')",
    );
    let mut board = None;
    eventually("the port is free again", || {
        board = BoardOptions::new().serve(address).ok();
        board.is_some()
    });
    board.as_ref().unwrap().watch(&system);
    page.shows("it has come back", "state() === 'live' && !shown('banner')");
    spawn_idle(&system, 7);
    page.shows("and shows what is new", "rows().length === 7");
}

#[test]
fn shed_messages_are_shown_by_reason_and_ended_systems_have_no_rates() {
    let (system, _board, address) = watched("shedding", BoardOptions::new());
    let (actors, gate) = told(&system, &[1]);
    let is_full = |_| actors[0].try_tell(Note).is_err();
    assert!((0..=BOUND_DEFAULT).any(is_full));
    let page = Page::open(address);
    page.shows("the actor is there", "names().join() === 'held-0'");
    page.click(&format!("row-{}", actors[0].id().get()));
    page.shows(
        "the reason is in the detail",
        "find('detail-shed')?.querySelector('tbody')?.textContent === 'full01'",
    );
    page.press(ESCAPE);
    page.shows(
        "there is a rate",
        "find('messages-in').textContent.endsWith('/s')",
    );
    gate.open();
    system.shutdown(LIMIT);
    drop(system);
    page.shows(
        "a system that has ended has none",
        "find('messages-in').textContent === '\u{2013}'",
    );
    page.is_silent();
}

#[test]
fn sources_of_one_name_have_a_panel_each_and_the_skip_link_keeps_the_query() {
    let (system, board, address) = watched("twins", BoardOptions::new());
    let garage = |doors: f64| {
        board.show("garage", "north", move |text| {
            text.family("doors_open", FamilyKind::Gauge, "Open doors.");
            text.sample("doors_open", &[], doors);
        })
    };
    let _shown = [garage(2.0), garage(3.0)];
    spawn_idle(&system, 1);
    let page = Page::open(address);
    for (name, doors) in [("north", 2), ("north (2)", 3)] {
        let figure = format!("find('panel-garage-{name}')?.querySelector('td.number').textContent");
        page.shows(
            "each has its own figure",
            &format!("{figure} === '{doors}'"),
        );
    }
    page.sort("name");
    page.shows("it is asked", "location.hash.includes('sort=name')");
    page.value("find('skip').click()");
    assert_eq!(page.value("document.activeElement.id"), "actors");
    page.value("addEventListener('hashchange', () => { window.hasMoved = true; })");
    page.value("location.hash = 'actors'");
    page.shows("it has moved", "window.hasMoved");
    assert_eq!(page.value("find('sort-name').ariaSort"), "ascending");
    page.is_silent();
}

#[test]
fn an_invalid_frame_is_not_reported_as_a_lost_connection() {
    let (_system, _board, address) = watched("odd", BoardOptions::new());
    let page = Page::open(address);
    page.is_silent();
    page.value("window.fetch = async () => new Response('data: {\"system\": {}}\\n\\n')");
    page.sort("name");
    page.shows(
        "it says so",
        "shown('banner') && find('banner').textContent.includes('does not understand')",
    );
    page.press("p");
    page.shows("it stays so", "state() === 'lost' && shown('banner')");
    assert_eq!(page.browser.console().unwrap().len(), 1);
    page.browser.click("#banner button").unwrap();
    page.shows("a reload helps", "state() === 'live' && !shown('banner')");
}
