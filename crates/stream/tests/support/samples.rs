//! Small whole streams of every kind, to be damaged.

use freeboard_stream::format::{ALIGNMENT, Algorithm, SealUnit};

use super::StreamMaker;

/// A stream, and what it holds.
pub(crate) struct Sample {
    pub(crate) maker: StreamMaker,
    /// The records, from record 1 on.
    pub(crate) written: Vec<Vec<u8>>,
    /// Its segments, with what follows the last chunk in a file that was preallocated or recycled.
    pub(crate) segments: Vec<Vec<u8>>,
}

/// The stream of a kind: three segments of three chunks of three records, one of them longer than a
/// page. Bits 0 and 1 say the algorithm, bit 2 the unit, bit 3 that zeros follow, bit 4 that the
/// files were recycled.
pub(crate) fn sample(kind: u8) -> Sample {
    let algorithm = Algorithm::ALL[usize::from(kind & 3)];
    let unit = if kind & 4 == 0 {
        SealUnit::Record
    } else {
        SealUnit::Batch
    };
    let mut maker = StreamMaker::new(algorithm, unit);
    maker.is_recycled = kind & 16 != 0;
    let mut written = Vec::new();
    for segment in 1..=3u8 {
        maker.epoch = segment.into();
        maker.segment();
        for chunk in 0..3usize {
            let bytes = |record: usize| record * 50 + chunk / 2 * 1_500;
            let records = (0..3usize).map(|record| vec![segment; bytes(record)]);
            let records: Vec<_> = records.collect();
            maker.chunk(&records);
            written.extend(records);
        }
    }
    let mut segments = maker.segments().to_vec();
    if maker.is_recycled {
        let stale = segments[0][ALIGNMENT..3 * ALIGNMENT].to_vec();
        segments[2].extend(stale);
    }
    if kind & 8 != 0 {
        let last = &mut segments[2];
        last.resize(last.len() + 3 * ALIGNMENT, 0);
    }
    Sample {
        maker,
        written,
        segments,
    }
}
