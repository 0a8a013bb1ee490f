//! Frames: systems, sorted and filtered actors, and sources.

use std::sync::mpsc;

use crate::common::{eventually, quiet_system, spawn_idle, told};
use freeboard_actor::{Actor, Context, Handler, System};
use freeboard_board::{
    ActorRow, Board, BoardOptions, FrameError, Order, Query, ROWS_MAX, SortKey, SystemFrame,
};
use freeboard_meter::FamilyKind;

fn board() -> Board {
    BoardOptions::new().share(1.0).start().unwrap()
}

fn shown(board: &Board, query: Query) -> SystemFrame {
    board.frame(query).unwrap().system.unwrap()
}

fn filtered(filter: &str) -> Query {
    Query {
        filter: filter.to_owned(),
        ..Query::default()
    }
}

fn ids(system: &SystemFrame) -> Vec<u64> {
    system.actors.rows.iter().map(|row| row.id).collect()
}

#[test]
fn the_deepest_mailboxes_come_first_and_all_are_counted() {
    let (system, board) = (quiet_system("deep"), board());
    board.watch(&system);
    let (actors, _gate) = told(&system, &[3, 1, 7, 5]);
    let frame = shown(&board, Query::default());
    assert!(frame.is_alive);
    assert_eq!((frame.name.as_str(), frame.actors_alive), ("deep", 4));
    assert_eq!((frame.actors.total, frame.actors.matched), (4, 4));
    let depths: Vec<u64> = frame.actors.rows.iter().map(|row| row.depth).collect();
    assert_eq!(depths, [7, 5, 3, 1]);
    assert_eq!(frame.actors.depth, 16);
    let wanted = [2, 3, 0, 1].map(|index: usize| actors[index].id().get());
    assert_eq!(ids(&frame), wanted);
}

#[test]
fn every_column_sorts_both_ways_and_pages_fit_together() {
    let (system, board) = (quiet_system("sorted"), board());
    board.watch(&system);
    let (_actors, _gate) = told(&system, &[3, 1, 7, 5, 2]);
    for (sort, name) in SortKey::ALL {
        assert_eq!((sort.name(), SortKey::from_name(name)), (name, Some(sort)));
        for order in [Order::Asc, Order::Desc] {
            let query = Query {
                sort,
                order,
                ..Query::default()
            };
            let frame = shown(&board, query.clone());
            assert!(frame.actors.has_times, "{sort}");
            check_order(&frame.actors.rows, sort, order);
            let whole = ids(&frame);
            assert_eq!(whole.len(), 5, "{sort}");
            let pages: Vec<u64> = (0..6)
                .flat_map(|page| {
                    let query = Query {
                        offset: page * 2,
                        limit: 2,
                        ..query.clone()
                    };
                    ids(&shown(&board, query))
                })
                .collect();
            assert_eq!(pages, whole, "{sort} {order:?}");
        }
    }
}

/// Checks that rows are sorted by their values, and equal ones by id.
fn check_order(rows: &[ActorRow], sort: SortKey, order: Order) {
    let value = |row: &ActorRow| match sort {
        SortKey::Name => row.name.clone().unwrap(),
        SortKey::State => row.state.clone(),
        SortKey::Type => row.actor_type.clone(),
        SortKey::Id => format!("{:20}", row.id),
        SortKey::Depth => format!("{:20}", row.depth),
        SortKey::Accepted => format!("{:20}", row.accepted),
        SortKey::HighWater => format!("{:20}", row.high_water),
        // Equal in all: held actors have handled, shed and timed nothing.
        _ => String::new(),
    };
    for pair in rows.windows(2) {
        let (first, second) = (value(&pair[0]), value(&pair[1]));
        let is_sorted = match order {
            Order::Asc => first <= second,
            Order::Desc => first >= second,
        };
        assert!(is_sorted, "{sort} {order:?}: {first} before {second}");
        assert!(first != second || pair[0].id < pair[1].id, "{sort}: ties");
    }
}

#[test]
fn filters_take_words_and_comparisons() {
    let (system, board) = (quiet_system("filtered"), board());
    board.watch(&system);
    let (actors, _gate) = told(&system, &[3, 1, 7, 5]);
    let number = |index: usize| actors[index].id().get();
    let check = |filter: &str, wanted: &[u64]| {
        let frame = shown(&board, filtered(filter));
        assert_eq!(ids(&frame), wanted, "{filter}");
        assert_eq!(frame.actors.matched, wanted.len() as u64, "{filter}");
    };
    check("depth>=5", &[number(2), number(3)]);
    check("depth<7 depth>3", &[number(3)]);
    check("NAME:held-2", &[]);
    check("name:HELD-2", &[number(2)]);
    check("held-3 type:held", &[number(3)]);
    check(&format!("id:{}", number(1)), &[number(1)]);
    check("state:idle", &[]);
    check("shed>0", &[]);
    check("queue_p99>1us", &[]);
    for (filter, wrong) in [
        ("type>3", "no column of numbers"),
        ("depth>much", "no number"),
        ("depth>=", "nothing to compare"),
        (&"x".repeat(300), "at most"),
    ] {
        let error = board.frame(filtered(filter)).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
    }
    let query = Query {
        limit: ROWS_MAX + 1,
        ..Query::default()
    };
    assert_eq!(board.frame(query), Err(FrameError::Rows));
}

#[test]
fn one_actor_is_shown_in_full_while_it_lives() {
    let (system, board) = (quiet_system("detail"), board());
    board.watch(&system);
    let (actors, gate) = told(&system, &[4]);
    let query = Query {
        actor: Some(actors[0].id().get()),
        ..Query::default()
    };
    let actor = shown(&board, query.clone()).actor.unwrap();
    assert_eq!(actor.snapshot.name.as_deref(), Some("held-0"));
    assert_eq!(actor.snapshot.lanes[0].depth, 4);
    assert_eq!(actor.time_in_queue.len(), actor.snapshot.lanes.len());
    gate.open();
    actors[0].stop();
    eventually("it has ended", || system.actors_alive() == 0);
    assert_eq!(shown(&board, query).actor, None);
}

#[test]
fn an_ended_system_keeps_its_last_frame_and_a_newer_one_replaces_it() {
    let board = board();
    assert_eq!(board.frame(Query::default()).unwrap().system, None);
    let first = quiet_system("run");
    board.watch(&first);
    board.watch(&first);
    spawn_idle(&first, 3);
    let seen = shown(&board, Query::default());
    assert_eq!((seen.actors_alive, seen.actors.total), (3, 3));
    first.shutdown(crate::common::LIMIT);
    eventually("it is seen to have ended", || {
        !shown(&board, Query::default()).is_alive
    });
    let last = shown(&board, Query::default());
    assert_eq!((last.actors_alive, last.actors.total), (3, 3));
    assert_eq!(ids(&last), ids(&seen));
    assert_eq!(last.actors.in_per_s, None);

    let second = quiet_system("run");
    board.watch(&second);
    let frame = board.frame(Query::default()).unwrap();
    assert_eq!(frame.systems, ["run", "run 2"]);
    let system = frame.system.unwrap();
    assert!(system.is_alive && system.name == "run 2");
    let query = Query {
        system: Some("run".to_owned()),
        ..Query::default()
    };
    assert!(!shown(&board, query).is_alive);
    let query = Query {
        system: Some("never heard of".to_owned()),
        ..Query::default()
    };
    assert_eq!(board.frame(query).unwrap().system, None);
}

#[test]
fn rates_are_those_between_two_surveys() {
    let (system, board) = (quiet_system("rates"), board());
    board.watch(&system);
    let (actors, gate) = told(&system, &[1]);
    gate.open();
    let mut is_seen = false;
    eventually("messages were seen to pass", || {
        actors[0].tell(crate::common::Note).unwrap();
        let frame = shown(&board, Query::default());
        let row = &frame.actors.rows[0];
        is_seen |= row.in_per_s > Some(0.0) && row.out_per_s > Some(0.0);
        assert_eq!(frame.actors.in_per_s, row.in_per_s);
        is_seen
    });
}

#[test]
fn sources_are_shown_for_as_long_as_they_are_kept_and_one_that_panics_alone_is_not() {
    let board = board();
    let garage = board.show("garage", "north", |text| {
        text.family("doors_open", FamilyKind::Gauge, "Open doors.");
        text.sample("doors_open", &[], 2.0);
    });
    let _broken = board.show("garage", "south", |_| panic!("on purpose"));
    let frame = board.frame(Query::default()).unwrap();
    let [north, south] = frame.sources.as_slice() else {
        panic!("two sources, not {:?}", frame.sources);
    };
    assert_eq!(
        (north.kind.as_str(), north.name.as_str()),
        ("garage", "north")
    );
    assert_eq!(north.families[0].samples[0].value, 2.0);
    assert!(south.families.is_empty());
    drop(garage);
    assert_eq!(board.frame(Query::default()).unwrap().sources.len(), 1);
}

#[test]
fn a_filter_by_times_reports_whether_times_were_read() {
    let system = quiet_system("timed");
    let board = BoardOptions::new().share(0.05).start().unwrap();
    board.watch(&system);
    let (actors, gate) = told(&system, &[1_000]);
    gate.open();
    eventually("all are handled", || {
        shown(&board, Query::default()).actors.rows[0].depth == 0
    });
    drop(actors);
    eventually("the actor is found by its times", || {
        let frame = shown(&board, filtered("queue_p99>1ns"));
        assert!(frame.actors.has_times || frame.actors.matched == 0);
        frame.actors.matched == 1
    });
}

#[test]
fn a_source_cannot_query_its_board_and_is_dropped_outside_of_locks() {
    let board = board();
    let inner = board.show("inner", "inner", |_| {});
    let (asked, answers) = std::sync::mpsc::channel();
    let asking = board.clone();
    let outer = board.show("outer", "outer", move |_| {
        let _ = &inner;
        let _ = asked.send(asking.frame(Query::default()).map(|_| ()));
    });
    board.frame(Query::default()).unwrap();
    assert_eq!(answers.recv().unwrap(), Err(FrameError::Within));
    drop(outer);
    eventually("both are gone", || {
        board.frame(Query::default()).unwrap().sources.is_empty()
    });
}

#[test]
fn the_board_keeps_no_system_alive() {
    let board = board();
    let system = System::builder().name("brief").workers(1).build().unwrap();
    let weak = system.downgrade();
    board.watch(&system);
    shown(&board, Query::default());
    drop(system);
    eventually("nothing is left of it", || weak.upgrade().is_none());
}

/// Blocks its thread until the other end of the channel is dropped.
struct Blocker(mpsc::Receiver<()>);

impl Actor for Blocker {}

impl Handler<()> for Blocker {
    type Reply = ();
    fn handle(&mut self, _msg: (), _cx: &mut Context<Self>) {
        let _ = self.0.recv();
    }
}

#[test]
fn threads_that_are_all_blocked_are_shown_with_their_holders() {
    let board = board();
    let system = System::builder()
        .name("blocked")
        .workers(1)
        .threads_max(2)
        .build()
        .unwrap();
    board.watch(&system);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<()>()).unzip();
    for receiver in receivers {
        system.spawn(Blocker(receiver)).tell(()).unwrap();
    }
    let holders = || shown(&board, Query::default()).scheduler.all_blocked;
    eventually("all threads are blocked", || holders().len() == 2);
    let type_name = std::any::type_name::<Blocker>();
    assert!(holders().iter().all(|run| run.actor_type == type_name));
    drop(senders);
    eventually("they go on", || holders().is_empty());
}
