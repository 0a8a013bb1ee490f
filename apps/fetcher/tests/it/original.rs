//! The original mode shows and counts its faults.

use std::collections::BTreeSet;

use crate::{
    common::{LONG, eventually},
    fixture::{self, Ground, Host},
};
use freeboard::cache::CacheOptions;
use freeboard_fetcher::{
    broker::{Broker, Queue},
    choices::Wait,
    held::Held,
    load::Fate,
    original::{OriginalFetcher, OriginalOptions, OriginalParts, OriginalSnapshot},
};

const NOTIFICATIONS: u64 = 2_000;

/// The names of all counters, of two main actors and three connections.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::from(["redis~mampa~fail~queue~full.COUNTER".to_owned()]);
    for main in 0..2 {
        for priority in 0..2 {
            names.insert(format!(
                "mampa~tell~actor~Fetcher~{main}/2.P{priority}.COUNTER"
            ));
            names.insert(format!(
                "mailbox~occupied~size~Fetcher~{main}.p{priority}.GAUGE"
            ));
        }
    }
    for connection in 0..3 {
        names.insert(format!(
            "mampa~tell~actor~RedisMampa~{connection}/3.P0.COUNTER"
        ));
    }
    for histogram in [
        "wait~before~process",
        "Request.lifetime",
        "mampa~event~inqueue~time",
        "redis~mampa~from~tell",
        "redis~mampa~from~send",
    ] {
        for part in ["75", "95", "99", "999"] {
            names.insert(format!("{histogram}.HIST-{part}-percentile"));
        }
    }
    names
}

/// Runs it with this bound to the end, and checks its counters.
fn check(queue_bound: Option<usize>, multi_get: bool, look: impl FnOnce(&OriginalSnapshot)) {
    let ground = Ground::new();
    let host = Host::start();
    let parts = OriginalParts {
        broker: ground.broker.clone(),
        redis: ground.redis(),
        cache: CacheOptions {
            wait_max: LONG,
            ..CacheOptions::default()
        },
        store: ground.bulkhead.clone(),
        directory: ground.directory.clone(),
    };
    let options = OriginalOptions {
        mains: 2,
        redis_threads: 3,
        wait: Wait::Blocking,
        queue_bound,
        multi_get,
        ..OriginalOptions::default()
    };
    let fetcher = OriginalFetcher::start(&host.system, &host.poller, parts, &options);
    let fetcher = fetcher.expect("it starts");
    fetcher.wait_up(LONG).expect("Redis answers");
    let load = ground.load(NOTIFICATIONS);
    let ended = |it: &OriginalSnapshot| it.completed + it.shed + it.failed + it.malformed;
    eventually(|| ended(&fetcher.snapshot()) == NOTIFICATIONS);
    let look_ups = if multi_get { 1 } else { 2 };
    let told = || fetcher.snapshot().redis.iter().sum::<u64>();
    eventually(|| told() == look_ups * NOTIFICATIONS);
    let snapshot = fetcher.snapshot();
    assert_eq!(snapshot.received, NOTIFICATIONS);
    assert_eq!(snapshot.mains.iter().flatten().sum::<u64>(), NOTIFICATIONS);
    eventually(|| load.account.seen(Fate::Replied) == snapshot.completed);
    // It was acknowledged before, so a shed notification is lost.
    ground.assert_balanced();
    assert_eq!(load.account.accounted(), snapshot.completed);
    let ledgers = [Queue::Priority0, Queue::Priority1].map(|queue| ground.broker.ledger(queue));
    let acked: u64 = ledgers.iter().map(|ledger| ledger.acked).sum();
    assert_eq!(acked, NOTIFICATIONS);
    let counters = snapshot.counters();
    let named: BTreeSet<String> = counters.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(named, names());
    let full = counters
        .iter()
        .find(|(name, _)| name.ends_with("full.COUNTER"));
    assert_eq!(full.expect("it is there").1, snapshot.shed as f64);
    // Nothing is left anywhere.
    assert_eq!(fetcher.settled(), NOTIFICATIONS);
    eventually(|| fetcher.held() == Held::default());
    look(&snapshot);
}

#[test]
fn with_a_bound_it_sheds_and_loses_notifications() {
    check(Some(4), false, |snapshot| assert!(snapshot.shed > 0));
}

#[test]
fn without_a_bound_it_sheds_nothing() {
    for multi_get in [false, true] {
        check(None, multi_get, |snapshot| {
            assert_eq!(snapshot.shed, 0);
            assert_eq!(snapshot.completed, NOTIFICATIONS);
        });
    }
}

#[test]
fn freeboard_mode_counts_under_the_same_names() {
    let ground = Ground::new();
    let service = ground.fetcher_with(3, fixture::options());
    ground.load(100).assert_replied();
    let counters = service
        .fetcher
        .snapshot()
        .counters(&service.redis.snapshot());
    let named: BTreeSet<String> = counters.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(named, names());
    let told = |kind: &str| -> f64 {
        let of_kind = counters.iter().filter(|(name, _)| name.contains(kind));
        of_kind.map(|(_, count)| count).sum()
    };
    assert!(told("tell~actor~Fetcher") >= 100.0);
    assert!(told("tell~actor~RedisMampa") > 0.0);
}
