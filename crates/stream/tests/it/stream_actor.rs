//! A stream behind an actor, and an actor behind a stream.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{open, support::eventually};
use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnOptions, Supervision, System};
use freeboard_flow::LaneConfig;
use freeboard_stream::actor::{
    Acknowledge, Append, FeedEnd, Flush, ReaderFeed, Recorded, Snapshot, StreamActor,
};
use freeboard_stream::{
    AppendError, BufferSize, ReaderOptions, StreamOptions, TicketError,
    storage::simulated::{Fault, SimulatedDisk, SimulatedSettings},
};

/// How long a shutdown may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn sequences(path: &std::path::Path) -> Vec<Vec<u8>> {
    let reader = ReaderOptions::new().open(path).unwrap();
    reader.map(|record| record.unwrap().payload).collect()
}

#[test]
fn what_is_told_is_durable_when_the_actor_has_stopped_in_each_senders_order() {
    let (directory, stream) = open(StreamOptions::new());
    let system = System::builder().build().unwrap();
    let log = StreamActor::new(stream);
    let log = system.spawn_once(SpawnOptions::new(), log).unwrap();
    std::thread::scope(|scope| {
        for sender in 0..4u8 {
            let log = log.clone();
            scope.spawn(move || {
                for index in 0..1_000u16 {
                    let [low, high] = index.to_le_bytes();
                    log.tell(Append(vec![sender, low, high])).unwrap();
                }
            });
        }
    });
    log.stop_gracefully();
    assert!(system.shutdown(PATIENCE).is_clean());
    let mut next = [0u16; 4];
    for payload in sequences(directory.path()) {
        let [sender, low, high] = payload[..] else {
            panic!("{payload:?}")
        };
        assert_eq!(u16::from_le_bytes([low, high]), next[usize::from(sender)]);
        next[usize::from(sender)] += 1;
    }
    assert_eq!(next, [1_000; 4]);
}

#[test]
fn a_ticket_comes_at_once_and_is_resolved_when_durable() {
    let directory = tempfile::tempdir().unwrap();
    let system = System::builder().build().unwrap();
    let actor = StreamActor::open(StreamOptions::new(), directory.path()).unwrap();
    let log = system.spawn_once(SpawnOptions::new(), actor).unwrap();
    let append = |_| {
        log.ask(Append(b"a record".to_vec()))
            .wait()
            .unwrap()
            .unwrap()
    };
    let tickets: Vec<_> = (0..100).map(append).collect();
    for (ticket, sequence) in tickets.into_iter().zip(1..) {
        assert_eq!(ticket.wait(), Ok(sequence));
    }
    log.tell(Append(b"one more".to_vec())).unwrap();
    assert_eq!(log.ask(Flush).wait().unwrap(), Ok(101));
    log.tell(Acknowledge(101)).unwrap();
    assert_eq!(log.ask(Snapshot).wait().unwrap().durable, 101);
    assert!(system.shutdown(PATIENCE).is_clean());
}

#[test]
fn a_full_memory_makes_the_mailbox_wait_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = StreamOptions::new()
        .memory(LaneConfig::bounded(64 << 10))
        .buffer(BufferSize::Bytes(16 << 10))
        .shards(1);
    let system = System::builder().workers(1).build().unwrap();
    let actor = StreamActor::open(options, directory.path()).unwrap();
    let mailbox = SpawnOptions::new().lane(LaneConfig::bounded(8));
    let log = system.spawn_once(mailbox, actor).unwrap();
    for _ in 0..2_000 {
        log.tell(Append(vec![7; 1_000])).unwrap();
    }
    assert_eq!(log.ask(Flush).wait().unwrap(), Ok(2_000));
    assert!(system.shutdown(PATIENCE).is_clean());
    assert_eq!(sequences(directory.path()).len(), 2_000);
}

#[test]
fn a_stream_that_is_down_fails_the_actor_and_a_restart_opens_it_again() {
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    let system = System::builder().build().unwrap();
    let openings = Arc::new(Mutex::new(0));
    let (opened, storage) = (openings.clone(), disk.clone());
    let factory = move || {
        *opened.lock().unwrap() += 1;
        // The disk fails a few calls more.
        let open = || StreamOptions::new().open_on(Arc::new(storage.clone()));
        let stream = std::iter::repeat_with(open).find_map(Result::ok);
        let stream = stream.expect("it is tried until it succeeds");
        StreamActor::new(stream)
    };
    let options = SpawnOptions::new().supervision(Supervision::restart());
    let log: ActorRef<StreamActor> = system.spawn_with(options, factory).unwrap();
    let append = || log.ask(Append(b"a record".to_vec())).wait();
    assert_eq!(append().unwrap().unwrap().wait(), Ok(1));
    // The write fails, and so does reading the stream again: it is down.
    let calls = disk.calls();
    (1..8).for_each(|call| disk.fail_at(calls + call, Fault::Io));
    let failed = append().unwrap().unwrap().wait();
    assert_eq!(failed, Err(TicketError::Unknown));
    eventually("the stream to be down", || {
        matches!(append(), Ok(Err(AppendError::Down)) | Err(_)) || *openings.lock().unwrap() > 1
    });
    eventually("the actor to be restarted", || {
        *openings.lock().unwrap() > 1
    });
    eventually("the stream to take records again", || match append() {
        Ok(Ok(ticket)) => ticket.wait().is_ok(),
        _ => false,
    });
    assert!(system.shutdown(PATIENCE).is_clean());
}

/// Takes records one by one, when it is let.
struct Reader {
    taken: Arc<Mutex<Vec<u64>>>,
    kept: Vec<Recorded>,
    keeps: usize,
}

struct LetGo;

impl Actor for Reader {}

impl Handler<Recorded> for Reader {
    type Reply = ();

    fn handle(&mut self, recorded: Recorded, _cx: &mut Context<Self>) {
        self.taken.lock().unwrap().push(recorded.record.sequence);
        if self.keeps > 0 {
            self.kept.push(recorded);
        }
    }
}

impl Handler<LetGo> for Reader {
    type Reply = ();

    fn handle(&mut self, _: LetGo, _cx: &mut Context<Self>) {
        self.keeps = 0;
        self.kept.clear();
    }
}

#[test]
fn a_feed_follows_the_stream_and_never_has_more_under_way_than_its_window() {
    let (directory, stream) = open(StreamOptions::new());
    let system = System::builder().build().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let reader = Reader {
        taken: taken.clone(),
        kept: Vec::new(),
        keeps: usize::MAX,
    };
    let reader = system.spawn_once(SpawnOptions::new(), reader).unwrap();
    let records = ReaderOptions::new().open(directory.path()).unwrap();
    let feed = ReaderFeed::start(records, reader.clone(), 5).unwrap();
    let many = stream.append_many([b"a record"; 100]);
    many.unwrap().wait().unwrap();
    // What is told is counted a moment after.
    eventually("the window to be used", || {
        taken.lock().unwrap().len() == 5 && feed.sent() == 5
    });
    assert_eq!(feed.outstanding(), 5);
    reader.tell(LetGo).unwrap();
    eventually("the rest to come", || taken.lock().unwrap().len() == 100);
    stream.append(b"a later one").unwrap().wait().unwrap();
    eventually("it to come", || taken.lock().unwrap().len() == 101);
    assert!(matches!(feed.stop(), FeedEnd::Stopped));
    assert_eq!(*taken.lock().unwrap(), Vec::from_iter(1..=101));
    // An actor that has ended ends its feed.
    let records = ReaderOptions::new().open(directory.path()).unwrap();
    reader.stop();
    let feed = ReaderFeed::start(records, reader, 5).unwrap();
    eventually("the feed to end", || feed.has_ended());
    assert!(matches!(feed.stop(), FeedEnd::ActorEnded));
    assert!(system.shutdown(PATIENCE).is_clean());
}
