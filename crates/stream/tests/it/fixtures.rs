//! The streams that are kept, whole and damaged: what was written then is read now.

use std::{env, fs};

use crate::support::{
    each_seal,
    fixtures::{self, RECORDS, kept, payload, whole},
    key,
    memory::Memory,
};
use freeboard_stream::{
    DamageKind, Head, OpenError, ReadError, ReadFrom, ReaderOptions, SalvageReport, StreamOptions,
    VerifyError, VerifyReport,
    format::{Algorithm, FormatError, SealUnit},
};

/// A damage's kind, segment, offset and records.
type Found = (DamageKind, u64, u64, Option<(u64, u64)>);

fn found(report: &VerifyReport) -> Vec<Found> {
    let damages = report.damages.iter();
    damages
        .map(|damage| (damage.kind, damage.segment, damage.offset, damage.records))
        .collect()
}

/// The salvaged sequences, whose bytes are checked, and the report.
fn salvaged(memory: &Memory) -> (Vec<u64>, SalvageReport) {
    let check = |sequence: u64, bytes: &[u8]| assert_eq!(bytes, payload(sequence));
    memory.salvage(memory.key().as_ref(), check).unwrap()
}

/// Checks what is found in a damaged stream, which of its records are salvaged, and which are not.
#[track_caller]
fn check_damaged(
    name: &str,
    damages: &[Found],
    copied: impl IntoIterator<Item = u64>,
    lost: &[(u64, u64)],
) {
    let memory = kept(&format!("damaged/{name}"));
    assert_eq!(found(&memory.report(None)), damages);
    let (sequences, report) = salvaged(&memory);
    assert_eq!(sequences, Vec::from_iter(copied));
    assert_eq!(report.lost, lost);
}

/// Opens a copy for writing.
fn open(
    name: &str,
    algorithm: Algorithm,
    unit: SealUnit,
) -> Result<(u64, tempfile::TempDir), OpenError> {
    let directory = tempfile::tempdir().unwrap();
    kept(name).write(directory.path());
    let options = StreamOptions::new().seal(algorithm, unit).key(key());
    let stream = options.open(directory.path())?;
    Ok((stream.sequences().durable, directory))
}

fn each(run: impl Fn(&str, Algorithm, SealUnit)) {
    each_seal(|algorithm, unit| run(&format!("whole/{algorithm}-{unit}"), algorithm, unit));
}

#[test]
fn what_is_written_now_is_what_was_kept() {
    for (name, made) in fixtures::all() {
        let folder = fixtures::folder(&name);
        if env::var_os("FREEBOARD_WRITE_FIXTURES").is_some() && !folder.exists() {
            fs::create_dir_all(&folder).unwrap();
            made.write(&folder);
        }
        let kept = kept(&name);
        assert!(
            kept.0.keys().eq(made.0.keys()),
            "{name}: {:?}",
            kept.0.keys()
        );
        for (file, bytes) in &kept.0 {
            assert!(*bytes == made.0[file], "{name}/{file} has other bytes");
        }
    }
}

#[test]
fn the_whole_ones_are_whole_and_read_from_both_ends() {
    each(|name, algorithm, unit| {
        let memory = kept(name);
        let maker = whole(algorithm, unit);
        let head = Head::new(RECORDS, maker.tag(), algorithm);
        let report = memory.report(Some(head));
        assert_eq!(found(&report), [], "{name}");
        assert_eq!((report.algorithm, report.unit), (algorithm, unit));
        assert_eq!((report.segments, report.chunks, report.records), (2, 3, 7));
        assert_eq!((report.epoch, report.head), (2, Some(head)));
        let reader = || memory.reader(memory.key(), ReadFrom::Start).unwrap();
        let forward: Vec<_> = reader().map(Result::unwrap).collect();
        let sequences: Vec<u64> = forward.iter().map(|record| record.sequence).collect();
        assert_eq!(sequences, Vec::from_iter(1..=RECORDS));
        for record in &forward {
            assert_eq!(record.payload, payload(record.sequence), "{name}");
        }
        let mut tail = reader();
        while tail.next_ref().unwrap().is_some() {}
        let mut backwards: Vec<_> = tail.backwards().map(Result::unwrap).collect();
        backwards.reverse();
        assert_eq!(backwards, forward);
        assert_eq!(salvaged(&memory).0, sequences);
    });
}

#[test]
fn the_whole_ones_go_on() {
    each(|name, algorithm, unit| {
        let (durable, directory) = open(name, algorithm, unit).unwrap();
        assert_eq!(durable, RECORDS, "{name}");
        let options = StreamOptions::new().seal(algorithm, unit).key(key());
        let stream = options.open(directory.path()).unwrap();
        assert_eq!(stream.append(b"the next").unwrap().wait(), Ok(RECORDS + 1));
        stream.close().unwrap();
        let reader = ReaderOptions::new()
            .key(kept(name).key())
            .open(directory.path());
        assert_eq!(reader.unwrap().count() as u64, RECORDS + 1);
    });
}

#[test]
fn truncated_ones_are_whole_and_show_it() {
    each_seal(|algorithm, unit| {
        let name = format!("truncated/{algorithm}-{unit}");
        let memory = kept(&name);
        let report = memory.report(None);
        assert_eq!(found(&report), [], "{name}");
        assert_eq!((report.segments, report.records), (2, RECORDS), "{name}");
        let [truncated] = report.truncations[..] else {
            panic!("{name}: {:?}", report.truncations);
        };
        let records = fixtures::TRUNCATION;
        assert_eq!((truncated.segment, truncated.records), (2, records));
        assert_eq!(salvaged(&memory).0, Vec::from_iter(1..=RECORDS));
        let (durable, directory) = open(&name, algorithm, unit).unwrap();
        assert_eq!(durable, RECORDS, "{name}");
        drop(directory);
        // Its fields are covered: by the checksum, and by the tag.
        let mut forged = memory.clone();
        forged.segment(2)[248] ^= 1;
        assert_eq!(found(&forged.report(None))[0].0, DamageKind::Rot, "{name}");
        if algorithm.is_sealed() {
            let header = &mut forged.segment(2)[..4096];
            let checksum = crc32c::crc32c(&header[..4092]);
            header[4092..].copy_from_slice(&checksum.to_le_bytes());
            let damages = found(&forged.report(None));
            assert_eq!(damages[0].0, DamageKind::Tamper, "{name}");
        }
    });
}

#[test]
fn rot_is_found() {
    let damages = [(DamageKind::Rot, 1, 8_192, Some((4, 5)))];
    check_damaged("rot", &damages, [1, 2, 3, 6, 7], &[(4, 5)]);
    let opened = open("damaged/rot", Algorithm::HmacSha256, SealUnit::Record);
    // The end is whole; recovery reads no further back than it must.
    assert_eq!(opened.unwrap().0, RECORDS);
}

#[test]
fn a_torn_end_is_found_and_cut_off() {
    let damages = [(DamageKind::Torn, 2, 4_096, Some((7, 7)))];
    check_damaged("torn", &damages, 1..=6, &[(7, 7)]);
    let opened = open("damaged/torn", Algorithm::None, SealUnit::Batch);
    // The chunk goes as a whole: nothing says that it ever was durable.
    assert_eq!(opened.unwrap().0, 5);
}

#[test]
fn a_gap_is_found() {
    let damages = [(DamageKind::Gap, 2, 0, Some((3, 4)))];
    check_damaged("gap", &damages, [1, 2, 5, 6], &[(3, 4)]);
    let opened = open("damaged/gap", Algorithm::Blake3, SealUnit::Batch);
    assert!(matches!(opened, Err(OpenError::Damaged(damage)) if damage.segment == 2));
}

#[test]
fn a_reordering_is_found() {
    let damages = [
        (DamageKind::Reorder, 2, 0, None),
        (DamageKind::Truncated, 1, 8_192, Some((3, 4))),
        (DamageKind::Tamper, 2, 4_096, Some((5, 5))),
        (DamageKind::Reorder, 3, 0, None),
        (DamageKind::Stale, 3, 0, None),
        (DamageKind::Reorder, 3, 4_096, Some((3, 4))),
    ];
    // The keys are of the files' numbers: nothing vouches for what stands in another file.
    check_damaged("reorder", &damages, 1..=2, &[(3, 6)]);
    let opened = open("damaged/reorder", Algorithm::Blake3, SealUnit::Record);
    assert!(opened.is_err());
}

#[test]
fn older_data_in_the_place_of_newer_is_found() {
    let damages = [(DamageKind::Stale, 1, 12_288, Some((5, 5)))];
    check_damaged("stale", &damages, 1..=6, &[]);
}

#[test]
fn what_a_recycled_file_held_before_is_no_damage() {
    check_damaged("recycled", &[], 1..=4, &[]);
    let opened = open("damaged/recycled", Algorithm::Blake3, SealUnit::Batch);
    assert_eq!(opened.unwrap().0, 4);
}

#[test]
fn tampering_is_found() {
    let damages = [(DamageKind::Tamper, 1, 8_192, Some((4, 5)))];
    check_damaged("tamper", &damages, [1, 2, 3, 6, 7], &[(4, 5)]);
}

#[test]
fn a_missing_end_is_found_by_the_head() {
    let memory = kept("damaged/truncated");
    assert!(memory.report(None).is_whole());
    let maker = whole(Algorithm::Blake3, SealUnit::Batch);
    let head = Head::new(RECORDS, maker.tag(), Algorithm::Blake3);
    let damages = [(DamageKind::Truncated, 1, 12_288, Some((6, 7)))];
    assert_eq!(found(&memory.report(Some(head))), damages);
    assert_eq!(salvaged(&memory).0, [1, 2, 3, 4, 5]);
}

#[test]
fn a_newer_version_is_refused_everywhere() {
    let newer = FormatError::Version {
        found: 2,
        newest: 3,
    };
    let text = "segment 1: written in format version 2, and this program reads versions up to 3: \
                use a newer one";
    let memory = kept("damaged/version");
    let error = memory.verify(Some(&key()), None).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, VerifyError::Format { segment: 1, error } if error == newer));
    let error = memory.salvage(None, |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), text);
    let error = memory.reader(None, ReadFrom::Start).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, ReadError::Format { segment: 1, error } if error == newer));
    let opened = open("damaged/version", Algorithm::Blake3, SealUnit::Batch);
    let error = opened.unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, OpenError::Format { segment: 1, error } if error == newer));
}
