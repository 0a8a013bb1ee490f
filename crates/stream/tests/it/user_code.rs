//! Code of the user's that the writer runs: wakers that panic or drop the stream, iterators that wait.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use freeboard_stream::{
    BufferSize, StreamOptions, StreamWriter, Ticket,
    storage::simulated::{SimulatedDisk, SimulatedSettings},
};

/// Far beyond what any of it takes.
const LONG: Duration = Duration::from_secs(60);

fn open(options: StreamOptions) -> StreamWriter {
    let disk = SimulatedDisk::new(SimulatedSettings::default());
    options.shards(2).open_on(Arc::new(disk)).unwrap()
}

/// Has `waker` woken when the record is durable.
fn poll(ticket: &mut Ticket, waker: impl Wake + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(waker));
    let polled = Pin::new(ticket).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
}

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics, as this test wants");
    }
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    let stream = open(StreamOptions::new().flush_after(Duration::from_secs(1)));
    let other = stream.clone();
    let mut first = stream.append(b"first").unwrap();
    let mut second = other.append(b"second").unwrap();
    poll(&mut first, Bomb);
    assert_eq!(second.wait_timeout(LONG), Some(Ok(2)));
    assert_eq!(first.wait(), Ok(1));
    assert_eq!(stream.append(b"third").unwrap().wait(), Ok(3));
    assert_eq!(stream.close().unwrap().unwrap().sequence, 3);
}

struct LastHandle(Mutex<Option<StreamWriter>>);

impl Wake for LastHandle {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_waker_may_drop_the_last_handle_while_others_wait() {
    // Two segments in one turn: the ticket of the first drops the handle that the second came by.
    let buffer = BufferSize::Bytes(64 << 10);
    let options = StreamOptions::new().segment_bytes(64 << 10).buffer(buffer);
    let stream = open(options.flush_after(Duration::from_secs(1)));
    let other = stream.clone();
    let mut first = stream.append(&[1; 40_000]).unwrap();
    let mut second = other.append(&[2; 60_000]).unwrap();
    drop(other);
    poll(&mut first, LastHandle(Mutex::new(Some(stream))));
    assert_eq!(second.wait_timeout(LONG), Some(Ok(2)));
    assert_eq!(first.wait_timeout(LONG), Some(Ok(1)));
}

#[test]
fn an_iterator_that_waits_holds_nobody_up() {
    let stream = open(StreamOptions::new());
    let other = stream.clone();
    let (sender, receiver) = mpsc::channel::<&[u8]>();
    let many = thread::spawn(move || other.append_many(receiver).unwrap().wait());
    sender.send(b"one of many").unwrap();
    let mut ticket = stream.append(b"one").unwrap();
    let sequence = ticket.wait_timeout(LONG).unwrap().unwrap();
    drop(sender);
    let last = many.join().unwrap().unwrap();
    assert_eq!(sequence + last, 3);
}

#[test]
fn an_observer_learns_of_each_write_before_its_tickets_resolve_and_may_panic() {
    let written = Arc::new(Mutex::new((0, 0)));
    let seen = written.clone();
    let stream = open(StreamOptions::new().on_write(move |write| {
        let mut written = seen.lock().unwrap();
        written.0 += write.records;
        written.1 += write.bytes;
        drop(written);
        panic!("an observer panics, as this test wants");
    }));
    for records in 1..=20 {
        let ticket = stream.append(&vec![7; 10_000]).unwrap();
        assert_eq!(ticket.wait(), Ok(records));
        assert_eq!(written.lock().unwrap().0, records);
    }
    let bytes = stream.snapshot().bytes_written;
    assert_eq!(*written.lock().unwrap(), (20, bytes));
    stream.close().unwrap();
}
