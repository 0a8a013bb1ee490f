//! What a node shows of itself and of others.

use std::{collections::BTreeSet, env, fs, time::Duration};

use freeboard_flow::{LaneConfig, Overload};
use freeboard_meter::{Exposition, Family, Unit};
use freeboard_remote::{
    DownReason, NatsCounters, Node, PeerSnapshot, PublishOptions, RemoteDirectoryCounters,
    RemoteOptions,
};
use freeboard_test_servers::{LONG, eventually};

use crate::actors::{Add, Adder, SEEDS, end, real_nodes, two_nodes};

fn peer(node: &Node, name: &str) -> Option<PeerSnapshot> {
    let peers = node.snapshot().peers;
    peers.into_iter().find(|it| it.name == name)
}

fn text_of(node: &Node) -> String {
    let mut text = Exposition::new();
    node.snapshot().render(&mut text);
    text.finish()
}

#[test]
fn a_node_shows_all_nodes_its_references_and_what_it_publishes() {
    for seed in 0..SEEDS {
        let (world, a, b) = two_nodes(seed);
        let (seen, _) = world.adder(&a, "sums/one", PublishOptions::new());
        let to = b.remote::<Add>("sums/one").expect("a valid name");
        for number in 0..100 {
            to.tell(Add(number)).expect("accepted");
        }
        assert_eq!(to.ask(Add(1)).wait(), Ok(4_951));
        assert_eq!(seen.len(), 101);
        world.until(|| {
            peer(&b, "a")
                .is_some_and(|it| it.summary.handled_per_second > 0 && it.summary.published == 1)
        });
        let known = peer(&b, "a").expect("it lives");
        assert_eq!((known.down, known.summary.published), (None, 1));
        assert_eq!(known.incarnation, a.id().incarnation);
        assert_eq!(known.summary.actors, a.system().actors_alive());
        assert!(known.counters.frames_sent > 0 && known.counters.received_bytes > 0);
        assert!(peer(&b, "b").is_some_and(|it| it.down.is_none()));
        let text = text_of(&b);
        for line in [
            "freeboard_remote_nodes{node=\"b\"} 2\n",
            "freeboard_remote_sent_total{node=\"b\",to=\"sums/one\"} 101\n",
            "freeboard_remote_replies_total{node=\"b\",to=\"sums/one\"} 1\n",
            "freeboard_remote_peer_up{node=\"b\",peer=\"a\"} 1\n",
            "freeboard_remote_peer_published{node=\"b\",peer=\"a\"} 1\n",
        ] {
            assert!(text.contains(line), "seed {seed}: {line}{text}");
        }
        let received = "freeboard_remote_received_total{node=\"a\",actor=\"sums/one\"} 101\n";
        assert!(text_of(&a).contains(received), "seed {seed}");
        // A node that fell silent is shown as down, until it is heard again.
        world.nats.partition("a");
        world.until(|| peer(&b, "a").is_some_and(|it| it.down == Some(DownReason::NoHeartbeat)));
        let down = "freeboard_remote_peer_down{node=\"b\",peer=\"a\",reason=\"no_heartbeat\"} 1\n";
        assert!(text_of(&b).contains(down), "seed {seed}");
        world.nats.heal("a");
        world.until(|| peer(&b, "a").is_some_and(|it| it.down.is_none()));
        let counted = peer(&b, "a").expect("it lives").counters;
        assert!(counted.frames_sent >= known.counters.frames_sent);
        // It hears others, too: its connection is there.
        world.until(|| {
            a.nodes()
                .iter()
                .all(|it| it.silent < Duration::from_secs(1))
        });
        assert!(a.leave(Duration::from_secs(5)), "seed {seed}");
        world.until(|| peer(&b, "a").is_some_and(|it| it.down == Some(DownReason::Left)));
    }
}

#[test]
fn what_the_lane_of_a_reference_sheds_is_counted() {
    for seed in 0..SEEDS {
        let (_world, _a, b) = two_nodes(seed);
        let lane = LaneConfig::bounded(4).overload(Overload::DropOldest);
        let options = RemoteOptions::new().lane(lane);
        let nobody = b.remote_with::<Add>("nobody", options).expect("valid");
        for number in 0..10 {
            nobody.tell(Add(number)).expect("it is not known yet");
        }
        let counters = nobody.counters();
        assert_eq!((counters.sent, counters.shed), (0, 6), "seed {seed}");
    }
}

const BEGIN: &str =
    "<!-- begin of the table of nodes, written by `cargo test -p freeboard-remote --test it` -->\n";
const END: &str = "<!-- end of the table of nodes -->\n";

fn row(family: &Family) -> String {
    let unit = match family.unit() {
        Unit::Seconds => "seconds",
        Unit::Bytes => "bytes",
        Unit::Ratio => "ratio",
        Unit::Count => "",
    };
    let labels = family.samples.iter().flat_map(|sample| &sample.labels);
    let labels: BTreeSet<_> = labels.map(|(label, _)| label.as_str()).collect();
    let labels: Vec<_> = labels.into_iter().collect();
    let (name, kind, help) = (&family.name, family.kind.as_str(), &family.help);
    format!(
        "| `{name}` | {kind} | {unit} | {} | {help} |\n",
        labels.join(", ")
    )
}

/// With `FREEBOARD_WRITE_DOCS` set, the manual is written anew instead of being compared.
#[test]
fn the_manual_the_board_and_the_terminal_have_the_metrics_as_they_are() {
    let (world, a, b) = two_nodes(0);
    world.adder(&a, "sums", PublishOptions::new());
    let _to = a.remote::<Add>("sums").expect("a valid name");
    assert!(b.leave(Duration::from_secs(5)));
    world.until(|| peer(&a, "b").is_some_and(|it| it.down.is_some()));
    let mut snapshot = a.snapshot();
    snapshot.connection = Some(NatsCounters::default());
    let directory = ("devices".to_owned(), RemoteDirectoryCounters::default());
    snapshot.directories.push(directory);
    let mut text = Exposition::new();
    snapshot.render(&mut text);
    let path = |path: &str| format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    let read = |it: &str| fs::read_to_string(path(it)).expect("a file of the repository");
    let head = "\n| metric | kind | unit | labels | what it says |\n|---|---|---|---|---|\n";
    let rows: String = text.families().iter().map(row).collect();
    let wanted = format!("{head}{rows}\n");
    let manual = read("docs/metrics.md");
    let (before, rest) = manual.split_once(BEGIN).expect("a begin of the table");
    let (written, after) = rest.split_once(END).expect("an end of the table");
    if env::var_os("FREEBOARD_WRITE_DOCS").is_some() {
        let manual = [before, BEGIN, &wanted, END, after].concat();
        fs::write(path("docs/metrics.md"), manual).expect("it is written");
    } else {
        assert_eq!(written, wanted, "write docs/metrics.md anew");
    }
    let page = read("crates/board/page/assets/remote.js");
    let terminal = read("crates/board/src/terminal/draw/sources.rs");
    let (_, table) = terminal.split_once("const REMOTE:").expect("a table");
    let (table, _) = table.split_once("];").expect("its end");
    let quoted = |text: &str| text.split('"').map(str::to_owned).collect::<Vec<_>>();
    let named = |it: &[String]| it[0].ends_with("named(").then(|| it[1].clone());
    let shown: Vec<_> = quoted(&page).chunks_exact(2).filter_map(named).collect();
    let columns: Vec<_> = quoted(table).into_iter().skip(3).step_by(4).collect();
    assert!(
        shown.len() > 10 && columns.len() > 5,
        "{shown:?} {columns:?}"
    );
    for name in shown.iter().chain(&columns) {
        let name = format!("freeboard_remote_{name}");
        assert!(text.families().iter().any(|it| it.name == name), "{name}");
    }
}

#[test]
fn nodes_on_a_real_server_show_each_other() {
    let Some((_server, a, b)) = real_nodes() else {
        return;
    };
    let name = "sums";
    let adder = a.system().spawn(Adder::default());
    a.publish::<Add, _>(name, &adder).expect("published");
    let shows = |is_so: &dyn Fn(&PeerSnapshot) -> bool| peer(&b, "a").is_some_and(|it| is_so(&it));
    eventually("b shows a", || shows(&|it| it.summary.published == 1));
    let text = text_of(&b);
    let line = "freeboard_remote_nats_reconnects_total{node=\"b\"} 0\n";
    assert!(text.contains(line), "{text}");
    assert!(a.leave(LONG));
    let has_left = |it: &PeerSnapshot| it.down == Some(DownReason::Left);
    eventually("b shows that a has left", || shows(&has_left));
    end(&[a, b]);
}
