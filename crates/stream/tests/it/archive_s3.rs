//! Archives in a real S3 server, with faults between. They are skipped where moto is not installed.

use std::{
    net::SocketAddr,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::support::{fault_proxy::FaultProxy, key};
use freeboard_stream::{
    StreamOptions, VerifyOptions,
    archive::{
        Archive, ArchiveError, ArchiveOptions, ArchiveReport, Archiver, RestoreOptions, restore,
    },
    storage::{Disk, Storage},
    verify,
};
use freeboard_test_servers::{Server, create_bucket, if_installed, s3};

const PART_BYTES: u64 = 5 << 20;

/// A segment is sent in six parts: four at once, then two.
const SEGMENT_BYTES: u64 = 6 * PART_BYTES - 1_000_000;

fn server() -> Option<Server> {
    let server = if_installed(s3(true))?;
    create_bucket(&server, "archive").unwrap();
    Some(server)
}

fn archive(address: SocketAddr, bucket: &str, retry_time: Duration) -> Archive {
    let options = ArchiveOptions::new()
        .part_bytes(PART_BYTES)
        .retry_time(retry_time);
    let settings = [
        ("AWS_ENDPOINT", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ];
    let set = |options: ArchiveOptions, (name, value)| options.setting(name, value);
    let options = settings.into_iter().fold(options, set);
    options.open(&format!("s3://{bucket}/logs/one")).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

/// Writes a stream of two segments.
fn write(path: &Path) -> Disk {
    let options = StreamOptions::new().key(key()).segment_bytes(SEGMENT_BYTES);
    let stream = options.open(path).unwrap();
    for record in 0..40_u8 {
        drop(stream.append(&vec![record; 1 << 20]).unwrap());
    }
    stream.close().unwrap();
    Disk::open(path).unwrap()
}

fn archiver(path: &Path, archive: &Archive) -> Archiver {
    let disk = Arc::new(Disk::open(path).unwrap());
    Archiver::new(disk, archive.clone()).key(key())
}

fn pass(path: &Path, archive: &Archive) -> Result<ArchiveReport, ArchiveError> {
    archiver(path, archive).pass(true, &mut |_| ControlFlow::Continue(()))
}

/// Checks that the archive is whole, and that it can be restored.
fn check(archive: &Archive) {
    let head = archive.head().unwrap();
    let options = VerifyOptions {
        expect_head: head,
        ..VerifyOptions::default()
    };
    let verified = verify(archive, Some(&key()), &options, &mut |_| {}).unwrap();
    assert!(verified.is_whole(), "{:?}", verified.damages);
    assert_eq!((verified.records, verified.segments), (40, 2));
    let mut names = archive.list().unwrap();
    names.sort();
    // No upload is left.
    assert_eq!(names.len(), 3, "{names:?}");
    let copy = tempfile::tempdir().unwrap();
    let go = &mut |_| ControlFlow::Continue(());
    let options = RestoreOptions::default();
    let restored = restore(
        archive,
        &copy.path().join("COPY"),
        Some(&key()),
        &options,
        go,
    );
    assert_eq!(restored.unwrap().verified.head, head);
}

#[test]
fn cut_connections_and_refusals_are_repeated() {
    let Some(server) = server() else { return };
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let proxy = FaultProxy::to(server.address());
    let archive = archive(proxy.address, "archive", LONG);
    proxy.faults.unavailable.store(3, Ordering::SeqCst);
    proxy.faults.cuts.store(3, Ordering::SeqCst);
    let report = pass(directory.path(), &archive).unwrap();
    assert_eq!((report.segments, report.archived_record), (2, 40));
    assert_eq!(proxy.faults.unavailable.load(Ordering::SeqCst), 0);
    assert_eq!(proxy.faults.cuts.load(Ordering::SeqCst), 0);
    check(&archive);
    let again = pass(directory.path(), &archive).unwrap();
    assert_eq!((again.segments, again.bytes), (0, 0));
}

#[test]
fn an_upload_that_was_stopped_is_continued_by_another_process() {
    let Some(server) = server() else { return };
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let archive = archive(server.address(), "archive", LONG);
    // Stopped after the first parts: as if it were killed, nothing is tidied up.
    let stopped = archiver(directory.path(), &archive).pass(true, &mut |progress| match progress
        .sent_bytes
    {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert!(matches!(stopped, Err(ArchiveError::Stopped)), "{stopped:?}");
    let report = pass(directory.path(), &archive).unwrap();
    let all: u64 = archive
        .list()
        .unwrap()
        .iter()
        .map(|name| length(&archive, name))
        .sum();
    assert!(
        report.bytes <= all - 4 * PART_BYTES,
        "{} of {all}",
        report.bytes
    );
    check(&archive);
}

fn length(archive: &Archive, name: &str) -> u64 {
    use freeboard_stream::storage::Access;
    archive.open(name, Access::Read).unwrap().bytes().unwrap()
}

#[test]
fn a_service_that_is_down_is_an_error_in_time_and_the_next_pass_continues() {
    let Some(mut server) = server() else { return };
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let proxy = FaultProxy::to(server.address());
    let archive = archive(proxy.address, "archive", Duration::ZERO);
    proxy.faults.unavailable.store(1, Ordering::SeqCst);
    let refused = pass(directory.path(), &archive).unwrap_err();
    assert!(refused.is_temporary(), "{refused}");
    assert!(refused.to_string().contains("503"), "{refused}");
    server.kill();
    let refused = pass(directory.path(), &archive).unwrap_err();
    assert!(refused.is_temporary(), "{refused}");
    server.restart().unwrap();
    create_bucket(&server, "archive").unwrap();
    pass(directory.path(), &archive).unwrap();
    check(&archive);
}

#[test]
fn wrong_credentials_and_a_missing_bucket_are_named() {
    let Some(server) = server() else { return };
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let refused = pass(directory.path(), &archive(server.address(), "nobody", LONG));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("the bucket does not exist"), "{refused}");
    let Some(strict) = if_installed(s3(false)) else {
        return;
    };
    let refused = pass(
        directory.path(),
        &archive(strict.address(), "archive", LONG),
    );
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("the service refuses the credentials"),
        "{refused}"
    );
}
