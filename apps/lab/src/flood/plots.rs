//! The plot of one run: both queues over time.

use super::{monitor::Point, plan::Plan, record::RunRecord};
use crate::{
    figures::{count, counted, seconds, short},
    plot::{self, Axis, Scale, Series},
    section::{Figure, Side},
};

pub(super) fn queues(
    run: &str,
    plan: &Plan,
    record: &RunRecord,
    points: &[Point],
    side: Side,
) -> Figure {
    let series = |name: &str, length: fn(&Point) -> u64| Series {
        name: name.to_owned(),
        points: points
            .iter()
            .map(|point| (point.at.as_secs_f64(), length(point) as f64))
            .collect(),
    };
    let server = series("the server's queue", |point| point.server);
    let series = match plan.dam {
        None => vec![server],
        Some(_) => vec![server, series("the dam's", |point| point.dam)],
    };
    let x = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short)
    };
    let y = Axis {
        scale: Scale::Logarithmic,
        ..Axis::linear("queued lines, logarithmic", short).reaching(plan.total() as f64)
    };
    let title = format!("queued lines over time: {run}");
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
