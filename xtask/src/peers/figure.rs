//! Figures: the rows of a table, and how each is read from a run.

use serde_json::Value;

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// How a figure is computed from a run's fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// Nanoseconds each: this field, in seconds, over `count`.
    NanosecondsEach(&'static str),
    /// The field as it is.
    Field(&'static str),
    /// The first field over the second.
    Quotient(&'static str, &'static str),
}

/// One row: a work and the shown part of its result.
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
    pub(crate) const fn each(label: &'static str, work: &'static str, unit: &'static str) -> Self {
        Self::of(
            label,
            work,
            unit,
            Better::Lower,
            Reading::NanosecondsEach("seconds"),
        )
    }

    pub(crate) const fn fill(label: &'static str, work: &'static str) -> Self {
        let reading = Reading::NanosecondsEach("fill_seconds");
        Self::of(label, work, "ns/msg", Better::Lower, reading)
    }

    pub(crate) const fn seconds(label: &'static str, work: &'static str) -> Self {
        Self::lower(label, work, "s", "seconds")
    }

    /// A field; smaller is better.
    pub(crate) const fn lower(
        label: &'static str,
        work: &'static str,
        unit: &'static str,
        field: &'static str,
    ) -> Self {
        Self::of(label, work, unit, Better::Lower, Reading::Field(field))
    }

    /// A field; larger is better.
    pub(crate) const fn higher(
        label: &'static str,
        work: &'static str,
        unit: &'static str,
        field: &'static str,
    ) -> Self {
        Self::of(label, work, unit, Better::Higher, Reading::Field(field))
    }

    pub(crate) const fn rate(label: &'static str, work: &'static str) -> Self {
        Self::higher(label, work, "msgs/s", "qps")
    }

    pub(crate) const fn commands(label: &'static str, work: &'static str) -> Self {
        Self::higher(label, work, "commands/s", "qps")
    }

    pub(crate) const fn us(label: &'static str, work: &'static str, field: &'static str) -> Self {
        Self::lower(label, work, "us", field)
    }

    pub(crate) const fn ratio(
        label: &'static str,
        work: &'static str,
        field: &'static str,
    ) -> Self {
        Self::lower(label, work, "ratio", field)
    }

    pub(crate) const fn p50(label: &'static str, work: &'static str) -> Self {
        Self::us(label, work, "p50_us")
    }

    pub(crate) const fn p99(label: &'static str, work: &'static str) -> Self {
        Self::us(label, work, "p99_us")
    }

    /// Processor time of a request in all threads of the server.
    pub(crate) const fn request_processor(label: &'static str, work: &'static str) -> Self {
        Self::lower(label, work, "us/request", "cpu_us")
    }

    pub(crate) const fn slices(label: &'static str, work: &'static str) -> Self {
        Self::higher(label, work, "slices/s", "slices_per_s")
    }

    /// Processor time of a command in all threads of the client.
    pub(crate) const fn command_processor(label: &'static str, work: &'static str) -> Self {
        Self::lower(label, work, "us/command", "cpu_us")
    }

    /// Payload bytes, without headers.
    pub(crate) const fn megabytes(label: &'static str, work: &'static str) -> Self {
        Self::higher(label, work, "MB/s", "mb_per_s")
    }

    /// Processor time of a message in all threads of the process.
    pub(crate) const fn processor(label: &'static str, work: &'static str) -> Self {
        let reading = Reading::NanosecondsEach("cpu_s");
        Self::of(label, work, "ns CPU/msg", Better::Lower, reading)
    }

    pub(crate) const fn deep_over_shallow(label: &'static str, work: &'static str) -> Self {
        let reading = Reading::Quotient("drain_rate_deep", "drain_rate_shallow");
        Self::of(label, work, "ratio", Better::Higher, reading)
    }

    pub(crate) const fn of(
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
}
