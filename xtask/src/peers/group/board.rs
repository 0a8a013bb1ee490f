//! The suite of what watching costs.

use super::super::figure::Figure;
use super::super::peer::Kind;
use super::{Group, Rivals};

/// Actors that pass messages on at random, so that both workers are always busy, watched 10 times a second or
/// once: by the board with a viewer, by `System::snapshot` in a thread, on the BEAM by a process that asks for
/// each one's `process_info`. Throughput is set beside that of the same run when nobody looks.
#[derive(Clone, Debug)]
pub(crate) struct Board;

impl Group for Board {
    const NAME: &'static str = "board";
    const PEERS: &'static [&'static str] = &["freeboard", "freeboard-snapshot", "beam"];
    const RIVALS: Rivals = Rivals {
        title: "the BEAM",
        kinds: &[Kind::ActorRuntime],
    };
    const FIGURES: &'static [Figure] = &[
        Figure::rate("10 k, nobody looks", "board_10k"),
        throughput("10 k, 10/s, throughput", "board_10k"),
        cost("10 k, 10/s, CPU a message", "board_10k"),
        readings("10 k, 10/s, readings", "board_10k"),
        reading_time("10 k, 10/s, a reading", "board_10k"),
        watcher("10 k, 10/s, watcher's CPU", "board_10k"),
        viewer("10 k, 10/s, viewer's CPU", "board_10k"),
        throughput("10 k, 1/s, throughput", "board_10k_1hz"),
        readings("10 k, 1/s, readings", "board_10k_1hz"),
        watcher("10 k, 1/s, watcher's CPU", "board_10k_1hz"),
        Figure::rate("100 k, nobody looks", "board_100k"),
        throughput("100 k, 10/s, throughput", "board_100k"),
        cost("100 k, 10/s, CPU a message", "board_100k"),
        readings("100 k, 10/s, readings", "board_100k"),
        reading_time("100 k, 10/s, a reading", "board_100k"),
        watcher("100 k, 10/s, watcher's CPU", "board_100k"),
        throughput("100 k, 1/s, throughput", "board_100k_1hz"),
        readings("100 k, 1/s, readings", "board_100k_1hz"),
        watcher("100 k, 1/s, watcher's CPU", "board_100k_1hz"),
    ];
}

const fn throughput(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "ratio", "watched_ratio")
}

/// What a message costs the workers, watched over not.
const fn cost(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "ratio", "cost_ratio")
}

const fn readings(label: &'static str, work: &'static str) -> Figure {
    Figure::higher(label, work, "readings/s", "readings_per_s")
}

const fn reading_time(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "ms", "reading_ms")
}

const fn watcher(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "% of 2 cores", "watcher_percent")
}

const fn viewer(label: &'static str, work: &'static str) -> Figure {
    Figure::lower(label, work, "% of 2 cores", "viewer_percent")
}
