//! What is read off a run: one row of a table each.

use serde_json::Value;

/// A set of works that is measured together and has its own section in PERFORMANCE.md.
pub(crate) trait Group: Send + Sync + Clone + 'static {
    /// The section's name.
    const NAME: &'static str;
    /// The rows of its table.
    const FIGURES: &'static [Figure];
}

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// How a figure comes out of a run's fields.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// Nanoseconds each: this field, in seconds, over `count`.
    NanosecondsEach(&'static str),
    /// The field as it is.
    Field(&'static str),
    /// The first field over the second.
    Quotient(&'static str, &'static str),
}

/// One row: a work, and what of its result is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Unique within its group; goals refer to it.
    pub(crate) label: &'static str,
    pub(crate) work: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    reading: Reading,
}

impl Figure {
    const fn each(label: &'static str, work: &'static str, unit: &'static str) -> Self {
        Self::of(
            label,
            work,
            unit,
            Better::Lower,
            Reading::NanosecondsEach("seconds"),
        )
    }

    const fn fill(label: &'static str, work: &'static str) -> Self {
        let reading = Reading::NanosecondsEach("fill_seconds");
        Self::of(label, work, "ns/msg", Better::Lower, reading)
    }

    const fn seconds(label: &'static str, work: &'static str) -> Self {
        Self::of(label, work, "s", Better::Lower, Reading::Field("seconds"))
    }

    const fn deep_over_shallow(label: &'static str, work: &'static str) -> Self {
        let reading = Reading::Quotient("drain_rate_deep", "drain_rate_shallow");
        Self::of(label, work, "ratio", Better::Higher, reading)
    }

    const fn of(
        label: &'static str,
        work: &'static str,
        unit: &'static str,
        better: Better,
        reading: Reading,
    ) -> Self {
        Self {
            label,
            work,
            unit,
            better,
            reading,
        }
    }

    /// The figure of one run, if the run reported what it needs.
    pub(crate) fn read(&self, fields: &Value) -> Option<f64> {
        let number = |name: &str| fields[name].as_f64().filter(|value| value.is_finite());
        match self.reading {
            Reading::Field(name) => number(name),
            Reading::NanosecondsEach(name) => quotient(number(name)? * 1e9, number("count")?),
            Reading::Quotient(above, below) => quotient(number(above)?, number(below)?),
        }
    }

    /// How many times better `ours` is than `other`: above 1 we are ahead.
    pub(crate) fn times_better(&self, ours: f64, other: f64) -> Option<f64> {
        match self.better {
            Better::Lower => quotient(other, ours),
            Better::Higher => quotient(ours, other),
        }
    }
}

fn quotient(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// The works that `figures` need, each once, in their order.
pub(crate) fn work_names(figures: &[Figure]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for figure in figures {
        if !names.contains(&figure.work) {
            names.push(figure.work);
        }
    }
    names
}

/// Messages between actors.
#[derive(Clone, Debug)]
pub(crate) struct Messaging;

impl Group for Messaging {
    const NAME: &'static str = "messaging";
    const FIGURES: &'static [Figure] = &[
        Figure::each("fan-in 2 x 2 M", "fanin_2x2m", "ns/msg"),
        Figure::each("fan-in 100 x 10 k", "fanin_100x10k", "ns/msg"),
        Figure::each("ping-pong", "pingpong", "ns/msg"),
        Figure::each("ask", "ask", "ns/ask"),
        Figure::each("ring of 1,000", "ring_1000", "ns/hop"),
        Figure::each("spawn, run, end 1 M", "spawn", "ns/actor"),
        Figure::of(
            "idle 1 M, memory",
            "idle_1m",
            "B/actor",
            Better::Lower,
            Reading::Field("bytes_per_actor"),
        ),
        Figure::each("idle 1 M, spawn", "idle_1m", "ns/actor"),
        Figure::each("backlog 1 k, drain", "backlog_1k", "ns/msg"),
        Figure::each("backlog 64 k, drain", "backlog_64k", "ns/msg"),
        Figure::each("backlog 1 M, drain", "backlog_1m", "ns/msg"),
        Figure::each("backlog 8 M, drain", "backlog_8m", "ns/msg"),
        Figure::fill("backlog 1 k, fill", "backlog_1k"),
        Figure::fill("backlog 64 k, fill", "backlog_64k"),
        Figure::fill("backlog 1 M, fill", "backlog_1m"),
        Figure::fill("backlog 8 M, fill", "backlog_8m"),
    ];
}

/// The flood of a log server.
#[derive(Clone, Debug)]
pub(crate) struct Flood;

impl Group for Flood {
    const NAME: &'static str = "flood";
    const FIGURES: &'static [Figure] = &[
        Figure::of(
            "direct, scan, rate deep",
            "flood_direct_scan",
            "msgs/s",
            Better::Higher,
            Reading::Field("drain_rate_deep"),
        ),
        Figure::seconds("direct, raw", "flood_direct_raw"),
        Figure::seconds("direct, buffered", "flood_direct_buffered"),
        Figure::seconds("dam, poll", "flood_dam_poll"),
        Figure::seconds("dam, credit", "flood_dam_credit"),
        Figure::deep_over_shallow("direct, raw, deep / shallow", "flood_direct_raw"),
        Figure::deep_over_shallow("direct, buffered, deep / shallow", "flood_direct_buffered"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nanoseconds_are_those_of_one_unit() {
        let figure = Figure::each("a", "a", "ns/msg");
        let fields = json!({"count": 4_000_000, "seconds": 0.5});
        assert_eq!(figure.read(&fields), Some(125.0));
        assert_eq!(figure.read(&json!({"seconds": 1.0})), None);
        assert_eq!(figure.read(&json!({"seconds": 1.0, "count": 0})), None);
    }

    #[test]
    fn better_is_above_one_both_ways() {
        let lower = Figure::seconds("a", "a");
        let higher = Figure::deep_over_shallow("a", "a");
        assert_eq!(lower.times_better(2.0, 8.0), Some(4.0));
        assert_eq!(higher.times_better(8.0, 2.0), Some(4.0));
        assert_eq!(lower.times_better(0.0, 8.0), None);
    }

    #[test]
    fn labels_are_unique_and_works_come_once() {
        for figures in [Messaging::FIGURES, Flood::FIGURES] {
            for (index, figure) in figures.iter().enumerate() {
                assert!(
                    figures[index + 1..]
                        .iter()
                        .all(|other| other.label != figure.label)
                );
            }
        }
        assert_eq!(work_names(Messaging::FIGURES).len(), 11);
    }
}
