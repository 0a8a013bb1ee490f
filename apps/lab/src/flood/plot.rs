//! A plot of both queues' lengths over time, as inline SVG.

use std::fmt::Write;

use super::monitor::Point;
use crate::figures::{count, seconds};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;
const GRID_LINES: u64 = 4;

/// One line of the plot.
struct Series {
    class: &'static str,
    name: &'static str,
    length: fn(&Point) -> u64,
}

const SERIES: [Series; 2] = [
    Series {
        class: "dam",
        name: "dam",
        length: |point| point.dam,
    },
    Series {
        class: "server",
        name: "server",
        length: |point| point.server,
    },
];

/// Both queues over time; the dam's only if there is one.
pub(crate) fn queues(title: &str, points: &[Point], has_dam: bool) -> String {
    let series = &SERIES[usize::from(!has_dam)..];
    let time_max = points.last().map_or(0.0, |last| last.at.as_secs_f64());
    let time_max = time_max.max(0.001);
    let lengths = series.iter().flat_map(|it| points.iter().map(it.length));
    let length_max = round_up(lengths.max().unwrap_or(0).max(GRID_LINES));
    let x = |point: &Point| LEFT + point.at.as_secs_f64() / time_max * (WIDTH - LEFT - RIGHT);
    let y =
        |length: u64| HEIGHT - BOTTOM - length as f64 / length_max as f64 * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}: queued lines \
         over time\">\n"
    );
    for step in 0..=GRID_LINES {
        let length = length_max * step / GRID_LINES;
        let at = y(length);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            count(length)
        );
    }
    for (step, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            LEFT + step * (WIDTH - LEFT - RIGHT),
            HEIGHT - 8.0,
            seconds(step * time_max)
        );
    }
    for (index, it) in series.iter().enumerate() {
        let line: Vec<String> = points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point), y((it.length)(point))))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"{}\" points=\"{}\"/>\
             <text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            it.class,
            line.join(" "),
            it.class,
            WIDTH - RIGHT - 6.0,
            TOP + 14.0 + 16.0 * index as f64,
            it.name
        );
    }
    svg + "</svg>\n"
}

/// The next number with one digit that four divides nicely: 4, 8, 20, 40, 80 and so on.
fn round_up(length: u64) -> u64 {
    let mut unit = 1u64;
    loop {
        for digit in [4, 6, 8, 10, 12, 16, 20] {
            if let Some(rounded) = unit.checked_mul(digit).filter(|it| *it >= length) {
                return rounded;
            }
        }
        match unit.checked_mul(10) {
            Some(next) => unit = next,
            None => return length,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_axis_ends_above_the_longest_queue() {
        for (length, end) in [(4, 4), (5, 6), (1_024, 1_200), (999_500, 1_000_000)] {
            assert_eq!(round_up(length), end);
        }
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn every_point_is_within_the_picture() {
        let points: Vec<Point> = (0..5)
            .map(|step| Point {
                at: Duration::from_millis(step),
                dam: step * 1_000,
                server: step,
            })
            .collect();
        let svg = queues("x", &points, true);
        let lines = svg.matches("points=\"").count();
        assert_eq!(lines, 2);
        for pair in svg
            .split('"')
            .filter(|it| it.contains(',') && it.contains('.'))
        {
            for point in pair.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                assert!((0.0..=WIDTH).contains(&x.parse().unwrap()), "{point}");
                assert!((0.0..=HEIGHT).contains(&y.parse().unwrap()), "{point}");
            }
        }
        assert_eq!(queues("x", &points, false).matches("points=\"").count(), 1);
        assert!(queues("x", &[], true).ends_with("</svg>\n"));
    }
}
