//! The families of a stream that has been written and opened again.

use freeboard_meter::{Exposition, Sample};
use freeboard_stream::{StreamOptions, StreamWriter};

fn append(stream: &StreamWriter, count: usize) {
    for _ in 0..count {
        stream.append(b"a record").unwrap().wait().unwrap();
    }
}

fn samples(stream: &StreamWriter) -> Vec<Sample> {
    let mut text = Exposition::new();
    stream.snapshot().render("journal", &mut text);
    let families = text.families().iter();
    families
        .flat_map(|family| family.samples.clone())
        .inspect(|sample| assert_eq!(sample.label("stream"), Some("journal"), "{sample:?}"))
        .collect()
}

fn value(samples: &[Sample], name: &str) -> f64 {
    let sample = samples.iter().find(|sample| sample.name == name);
    sample.unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn records_are_counted_from_when_the_stream_was_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || StreamOptions::new().open(directory.path()).expect("opens");
    let first = open();
    append(&first, 5);
    first.close().expect("closes");
    let stream = open();
    append(&stream, 2);
    let samples = samples(&stream);
    let value = |name: &str| value(&samples, name);
    for step in ["accepted", "written", "durable"] {
        let name = format!("freeboard_stream_records_{step}_total");
        assert_eq!(value(&name), 2.0, "{name}");
    }
    assert_eq!(value("freeboard_stream_durable_sequence"), 7.0);
    assert_eq!(value("freeboard_stream_records_lag"), 0.0);
    assert_eq!(value("freeboard_stream_write_seconds_count"), 2.0);
    assert_eq!(value("freeboard_stream_flush_bytes_count"), 2.0);
    // Bytes stay bytes, and times become seconds.
    let written = value("freeboard_stream_written_bytes_total");
    assert_eq!(value("freeboard_stream_flush_bytes_sum"), written);
    assert!(value("freeboard_stream_write_seconds_sum") < 60.0);
    stream.close().expect("closes");
}
