//! Unix stream sockets: connections, credentials, and the socket's file.

use std::{
    fs,
    io::{Read, Write as _},
    net::Shutdown,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixDatagram, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
};

use bytes::Bytes;
use freeboard_actor::Context;
use freeboard_net::{
    UnixBindError, UnixOptions,
    poller::{Policy, Poller},
    tcp::{Close, Connection, ConnectionOptions, Event, Listener, ListenerOptions, Peer, Write},
};

use crate::common::{LONG, Owner, TestSystem, system};

fn bind(
    system: &TestSystem,
    poller: &Poller,
    path: &Path,
    mode: Option<u32>,
) -> Result<(Listener<PathBuf>, Receiver<Event>), UnixBindError> {
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let watch = poller.clone();
    let serve = move |accepted, cx: &mut Context<_>| {
        let options = ConnectionOptions::default();
        Connection::spawn(accepted, &watch, options, owner.clone(), cx).map(drop)
    };
    let (unix, options) = (UnixOptions { mode }, ListenerOptions::default());
    let listener = Listener::bind_unix(system, poller, path, unix, options, serve)?;
    Ok((listener, events))
}

#[test]
fn an_accepted_connection_names_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (system, poller) = system(Policy::EAGER);
    let (listener, events) = bind(&system, &poller, &path, Some(0o622)).unwrap();
    assert_eq!(listener.path(), path);
    let permissions = fs::metadata(&path).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o622);

    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(b"hello").unwrap();
    check_opened(&events);
    let hello = Event::Received(Bytes::from_static(b"hello"));
    assert_eq!(events.recv_timeout(LONG).unwrap(), hello);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(events.recv_timeout(LONG).unwrap(), Event::Ended);
    assert_eq!(listener.drain(LONG), 0);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_connection_to_a_unix_socket_writes_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (system, poller) = system(Policy::EAGER);
    let server = UnixListener::bind(&path).unwrap();
    let (sender, events) = mpsc::channel();
    let owner = system.spawn(Owner(sender)).recipient();
    let options = ConnectionOptions::default();
    let ours = Connection::connect_unix(&system, &poller, &path, options, owner).unwrap();
    check_opened(&events);
    let (mut peer, _) = server.accept().unwrap();
    peer.set_read_timeout(Some(LONG)).unwrap();
    // More than the socket's buffers hold.
    let piece = Bytes::from(vec![7; 100_000]);
    let writing = std::thread::spawn(move || {
        (0..40).for_each(|_| ours.tell(Write(piece.clone())).unwrap());
        ours.tell(Close).unwrap();
    });
    let mut all = Vec::new();
    peer.read_to_end(&mut all).unwrap();
    assert_eq!(all, vec![7; 4_000_000]);
    writing.join().unwrap();
}

/// The first event names this process.
fn check_opened(events: &Receiver<Event>) {
    let Event::Opened(Peer::Unix(Some(process))) = events.recv_timeout(LONG).unwrap() else {
        panic!("it opens first, and Linux names the process");
    };
    assert_eq!(process.pid, std::process::id());
    assert_eq!(process.uid, rustix::process::geteuid().as_raw());
}

#[test]
fn a_stale_file_is_replaced_and_a_live_one_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (system, poller) = system(Policy::EAGER);
    // A process that was killed leaves such a file.
    drop(UnixListener::bind(&path).unwrap());
    let (listener, _events) = bind(&system, &poller, &path, None).unwrap();
    UnixStream::connect(&path).unwrap();
    let again = bind(&system, &poller, &path, None).unwrap_err();
    assert!(
        matches!(&again, UnixBindError::InUse(at) if *at == path),
        "{again}"
    );
    assert!(
        again.to_string().contains("another process listens"),
        "{again}"
    );
    UnixStream::connect(&path).unwrap();

    assert_eq!(listener.drain(LONG), 0);
    assert!(!path.exists(), "a drained listener removes its file");

    // A live socket of another kind is in use, too.
    let _datagrams = UnixDatagram::bind(&path).unwrap();
    let other = bind(&system, &poller, &path, None).unwrap_err();
    assert!(matches!(other, UnixBindError::InUse(_)), "{other}");

    let file = directory.path().join("file");
    fs::write(&file, "kept").unwrap();
    let no_socket = bind(&system, &poller, &file, None).unwrap_err();
    assert!(
        matches!(no_socket, UnixBindError::NotASocket(_)),
        "{no_socket}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");

    let nowhere = directory.path().join("no such directory/socket");
    let error = bind(&system, &poller, &nowhere, None).unwrap_err();
    assert!(matches!(error, UnixBindError::Io { .. }), "{error}");
    let too_long = directory.path().join("x".repeat(200));
    let error = bind(&system, &poller, &too_long, None).unwrap_err();
    assert!(matches!(error, UnixBindError::Io { .. }), "{error}");
}

#[test]
fn a_file_that_another_process_put_there_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (system, poller) = system(Policy::EAGER);
    let (listener, _events) = bind(&system, &poller, &path, None).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    assert_eq!(listener.drain(LONG), 0);
    UnixStream::connect(&path).unwrap();
}
