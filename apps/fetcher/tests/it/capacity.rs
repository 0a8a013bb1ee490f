//! Full components, and stores that never answer.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    common::{LONG, eventually, prefetch},
    fixture::{Ground, bulkhead, notification, options},
    held_store::HeldStore,
};
use bytes::Bytes;
use freeboard_fetcher::{
    broker::{
        Broker, ConsumeError, Consumer, Inbox, Ledger, MemoryBroker, OnOutcome, PublishError, Queue,
    },
    message::Reply,
    service::{FetcherOptions, FetcherSnapshot, Parts},
    store::{OnFetched, SlowStore, StoreError},
};

/// A broker that delivers more than the prefetch, as after lost connections.
struct Forgetful(Arc<MemoryBroker>);

impl Broker for Forgetful {
    fn consume(&self, queue: Queue, _: NonZeroU16, inbox: Inbox) -> Result<Consumer, ConsumeError> {
        self.0.consume(queue, prefetch(1_000), inbox)
    }

    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError> {
        self.0.publish_with(queue, body, on_outcome)
    }

    fn ledger(&self, queue: Queue) -> Ledger {
        self.0.ledger(queue)
    }
}

/// A slow store that is full at first.
struct FullStore {
    is_full: Arc<AtomicBool>,
    store: Arc<dyn SlowStore>,
}

impl SlowStore for FullStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        match self.is_full.load(Ordering::SeqCst) {
            true => on_outcome(Err(StoreError::Full)),
            false => self.store.fetch(key, on_outcome),
        }
    }
}

/// A component that is full until a function is called, and the counter of that.
struct Case {
    name: &'static str,
    begin: fn(&Ground, &mut Parts) -> Box<dyn FnOnce()>,
    count: fn(&FetcherSnapshot) -> u64,
}

const CASES: [Case; 3] = [
    Case {
        name: "the fetcher",
        begin: |ground, parts| {
            parts.broker = Arc::new(Forgetful(ground.broker.clone()));
            let directory = ground.directory.clone();
            directory.hold();
            Box::new(move || directory.release())
        },
        count: |snapshot| snapshot.retried.broker,
    },
    Case {
        name: "the directory",
        begin: |ground, _| {
            let directory = ground.directory.clone();
            directory.fail_with(Some(StoreError::Full));
            Box::new(move || directory.fail_with(None))
        },
        count: |snapshot| snapshot.retried.directory,
    },
    Case {
        name: "the slow store",
        begin: |_, parts| {
            let is_full = Arc::new(AtomicBool::new(true));
            parts.store = Arc::new(FullStore {
                is_full: is_full.clone(),
                store: parts.store.clone(),
            });
            Box::new(move || is_full.store(false, Ordering::SeqCst))
        },
        count: |snapshot| snapshot.retried.store,
    },
];

#[test]
fn refusals_by_full_components_are_no_attempts_and_never_given_up() {
    for case in CASES {
        let ground = Ground::new();
        let options = FetcherOptions {
            mains: 1,
            prefetch: [prefetch(8), prefetch(2)],
            attempts: 2,
            ..options()
        };
        let mut end: Box<dyn FnOnce()> = Box::new(|| {});
        let service = ground.fetcher_on(options, |parts| end = (case.begin)(&ground, parts));
        let replies = ground.take(Queue::Replies, |it| Reply::parse(it.body()).is_ok());
        for id in 0..100 {
            let user = format!("slow-{id}");
            ground.publish(Queue::Priority0, notification(id, &user).to_body());
        }
        eventually(|| (case.count)(&service.fetcher.snapshot()) >= 300);
        end();
        ground.assert_balanced();
        let snapshot = service.fetcher.snapshot();
        assert_eq!(snapshot.dead_lettered, 0, "{}: {snapshot:?}", case.name);
        assert!(replies.wait_for(100).into_iter().all(|is_reply| is_reply));
    }
}

#[test]
fn a_store_that_never_answers_holds_no_job_beyond_its_deadline() {
    let (running_max, waiting_max) = (4, 8);
    let ground = Ground::new();
    let held = Arc::new(HeldStore::default());
    let bulkhead = Arc::new(bulkhead(held.clone(), running_max, waiting_max));
    let options = FetcherOptions {
        prefetch: [prefetch(8); 2],
        deadline: Duration::from_millis(50),
        ..options()
    };
    let service = ground.fetcher_on(options, |parts| parts.store = bulkhead.clone());
    for id in 0..100 {
        let user = format!("user-{id}");
        ground.publish(Queue::Priority0, notification(id, &user).to_body());
    }
    let snapshot = || service.fetcher.snapshot();
    eventually(|| {
        assert!(snapshot().under_way <= 16, "{:?}", snapshot());
        snapshot().expired >= 300
    });
    let occupancy = bulkhead.occupancy();
    assert_eq!(held.seen().len(), running_max, "{occupancy:?}");
    assert!(occupancy.waiting_high_water <= waiting_max, "{occupancy:?}");
    assert_eq!(service.fetcher.stop(LONG), 0, "in the hands of jobs");
    let ledger = ground.broker.ledger(Queue::Priority0);
    assert_eq!((ledger.unacked, ledger.acked), (0, 0), "{ledger:?}");
    assert_eq!(ground.broker.queued(Queue::Priority0), 100);
    // Late outcomes are ignored, and release the permits.
    held.lose_all();
    assert_eq!(bulkhead.occupancy().running, 0);
}

#[test]
fn a_directory_that_never_answers_holds_no_other_queries_up() {
    let ground = Ground::new();
    let service = ground.fetcher(FetcherOptions {
        mains: 1,
        deadline: Duration::from_millis(200),
        ..options()
    });
    ground.directory.hold();
    ground.publish(Queue::Priority0, notification(1, "slow").to_body());
    eventually(|| ground.directory.held() > 0);
    let replies = ground.take(Queue::Replies, |it| {
        Reply::parse(it.body()).expect("a reply")
    });
    ground.publish(Queue::Priority1, notification(2, "user-2").to_body());
    assert_eq!(replies.wait_for(1)[0].user, "user-2");
    assert!(service.fetcher.snapshot().expired > 0);
    // All queries are answered, also those that are no longer awaited.
    ground.directory.release();
    replies.wait_for(2);
    ground.assert_balanced();
}
