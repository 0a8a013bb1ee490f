//! The plot of one run: both queues over time.

use super::{monitor::Point, outcome::Outcome};
use crate::{
    figures::{count, counted, seconds, short},
    plot::{self, Axis, Scale, Series},
    section::{Figure, Side},
};

pub(super) fn queues(outcome: &Outcome, side: Side) -> Figure {
    let series = |name: &str, length: fn(&Point) -> u64| Series {
        name: name.to_owned(),
        points: outcome
            .points
            .iter()
            .map(|point| (point.at.as_secs_f64(), length(point) as f64))
            .collect(),
    };
    let server = series("the server's queue", |point| point.server);
    let series = match outcome.plan.dam {
        None => vec![server],
        Some(_) => vec![server, series("the dam's", |point| point.dam)],
    };
    let x = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short)
    };
    let y = Axis {
        scale: Scale::Logarithmic,
        ..Axis::linear("queued lines, logarithmic", short).reaching(outcome.plan.total() as f64)
    };
    let title = format!("queued lines over time: {}", outcome.plan.title());
    let record = &outcome.record;
    Figure {
        side,
        svg: plot::lines(&title, x, y, &series),
        title,
        note: format!(
            "The server's queue is never longer than {}; {} written in {}.",
            count(record.peak_queue.server),
            counted(record.written, "line"),
            seconds(record.seconds)
        ),
    }
}
