//! Every example but `wait_strategies`, which is a measurement of half a minute, as a module with its own test.

#[path = "../../examples/ask_with_deadline.rs"]
mod ask_with_deadline;
#[cfg(feature = "tokio")]
#[path = "../../examples/async_handler.rs"]
mod async_handler;
#[cfg(all(feature = "tokio", feature = "tower"))]
#[path = "../../examples/axum_tower.rs"]
mod axum_tower;
#[path = "../../examples/back_pressure.rs"]
mod back_pressure;
#[path = "../../examples/bank_transaction.rs"]
mod bank_transaction;
#[path = "../../examples/blocking_call.rs"]
mod blocking_call;
#[path = "../../examples/children_and_watch.rs"]
mod children_and_watch;
#[path = "../../examples/counter.rs"]
mod counter;
#[path = "../../examples/dam.rs"]
mod dam;
#[path = "../../examples/directory.rs"]
mod directory;
#[cfg(feature = "stream")]
#[path = "../../examples/durable_log.rs"]
mod durable_log;
#[path = "../../examples/fallible_start.rs"]
mod fallible_start;
#[path = "../../examples/full_mailbox.rs"]
mod full_mailbox;
#[path = "../../examples/graceful_shutdown.rs"]
mod graceful_shutdown;
#[path = "../../examples/group_by_key.rs"]
mod group_by_key;
#[cfg(feature = "macros")]
#[path = "../../examples/handlers_macro.rs"]
mod handlers_macro;
#[cfg(feature = "net")]
#[path = "../../examples/http_server.rs"]
mod http_server;
#[path = "../../examples/least_loaded.rs"]
mod least_loaded;
#[path = "../../examples/market_feed.rs"]
mod market_feed;
#[cfg(feature = "tokio")]
#[path = "../../examples/metrics_endpoint.rs"]
mod metrics_endpoint;
#[path = "../../examples/pinned_actor.rs"]
mod pinned_actor;
#[path = "../../examples/priority_lanes.rs"]
mod priority_lanes;
#[path = "../../examples/rate_limiter.rs"]
mod rate_limiter;
#[cfg(feature = "remote")]
#[allow(dead_code, reason = "the test names its own server")]
#[path = "../../examples/remote.rs"]
mod remote;
#[path = "../../examples/resize_group.rs"]
mod resize_group;
#[path = "../../examples/scatter_gather.rs"]
mod scatter_gather;
#[path = "../../examples/shed_by_age.rs"]
mod shed_by_age;
#[cfg(feature = "sim")]
#[path = "../../examples/simulated_bank.rs"]
mod simulated_bank;
#[path = "../../examples/single_producer.rs"]
mod single_producer;
#[path = "../../examples/stash.rs"]
mod stash;
#[path = "../../examples/state_machine.rs"]
mod state_machine;
#[path = "../../examples/supervision.rs"]
mod supervision;
#[path = "../../examples/supervision_tree.rs"]
mod supervision_tree;
#[cfg(feature = "net")]
#[path = "../../examples/tcp_echo.rs"]
mod tcp_echo;
#[cfg(feature = "testing")]
#[path = "../../examples/testing_kit.rs"]
mod testing_kit;
#[path = "../../examples/timers.rs"]
mod timers;
#[cfg(feature = "tokio")]
#[path = "../../examples/tokio_bridge.rs"]
mod tokio_bridge;
#[cfg(all(feature = "tokio", feature = "tower"))]
#[path = "../../examples/tonic_service.rs"]
mod tonic_service;
#[path = "../../examples/topic.rs"]
mod topic;
#[cfg(all(feature = "archive", feature = "remote"))]
#[allow(dead_code, reason = "the test names its own server")]
#[path = "../../examples/unique_name.rs"]
mod unique_name;

/// The README's table links each example with the question that opens it. Each example is short.
#[test]
fn readme_lists_every_example_with_its_question() {
    use std::{fs, path::Path};

    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(package.join("../../README.md")).expect("the README");
    let mut examples = 0;
    for file in fs::read_dir(package.join("examples")).expect("the examples") {
        let path = file.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        let code = fs::read_to_string(&path).expect("text");
        // Those with a client and a server need more.
        let has_connections = name == "axum_tower" || name == "tonic_service";
        let limit = if has_connections { 120 } else { 80 };
        assert!(
            code.lines().count() < limit,
            "{name} has {limit} lines or more"
        );
        let title = code
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("//! "));
        let question = title.and_then(|title| title.split_once('?'));
        let (question, _) = question.unwrap_or_else(|| panic!("{name} opens with no question"));
        let row = format!("| [`{name}`](crates/freeboard/examples/{name}.rs) | {question}? |");
        assert!(readme.contains(&row), "the README has no row {row}");
        examples += 1;
    }
    let rows = readme.matches("](crates/freeboard/examples/").count();
    assert_eq!(rows, examples, "a row of the README names no example");
}

#[cfg(feature = "remote")]
#[test]
fn the_example_of_two_processes_runs_on_a_server() {
    use freeboard_test_servers::{JetStream, if_installed, nats};

    if let Some(server) = if_installed(nats(JetStream::Off, "")) {
        let url = format!("nats://{}", server.address());
        remote::run(&url, "both").expect("it runs");
    }
}

#[cfg(all(feature = "archive", feature = "remote"))]
#[test]
fn the_example_of_a_unique_name_runs_on_a_server() {
    use freeboard_test_servers::{JetStream, if_installed, nats};

    if let Some(server) = if_installed(nats(JetStream::On, "")) {
        unique_name::run(&format!("nats://{}", server.address())).expect("it runs");
    }
}
