//! Lines over an axis that begins at 0, as queues' lengths over time.

use std::fmt::Write;

use super::{COLOURS, RIGHT, TOP, WIDTH, colour};
use crate::page::escape;

const HEIGHT: f64 = 240.0;
const LEFT: f64 = 84.0;
const BOTTOM: f64 = 30.0;
const GRID_LINES: u32 = 4;

/// How the axes are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axes {
    pub(crate) x: fn(f64) -> String,
    pub(crate) y: fn(f64) -> String,
    /// The least distance between two grid lines.
    pub(crate) y_unit: f64,
}

/// One line. Its points have rising x.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// All series in one picture.
pub(crate) fn lines(title: &str, axes: Axes, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|it| it.points.iter());
    let x_max = points().map(|(x, _)| *x).fold(0.001, f64::max);
    let y_max = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let y_top = round_up(y_max, axes.y_unit);
    let x_at = |x: f64| LEFT + x / x_max * (WIDTH - LEFT - RIGHT);
    let y_at = |y: f64| HEIGHT - BOTTOM - y / y_top * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    );
    for step in 0..=GRID_LINES {
        let share = f64::from(step) / f64::from(GRID_LINES);
        let y = (y_top * share / axes.y_unit).floor() * axes.y_unit;
        let at = y_at(y);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            escape(&(axes.y)(y))
        );
    }
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            x_at(share * x_max),
            HEIGHT - 8.0,
            escape(&(axes.x)(share * x_max))
        );
    }
    for (number, it) in series.iter().enumerate() {
        let points: Vec<String> = it
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y)))
            .collect();
        let class = colour(number);
        let _ = writeln!(
            svg,
            "<polyline class=\"c{class}\" points=\"{}\"/>",
            points.join(" ")
        );
        // Further names would run out of the picture, and their colours repeat.
        if number < COLOURS {
            let _ = writeln!(
                svg,
                "<text class=\"c{class}\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT - 6.0,
                TOP + 14.0 + 16.0 * number as f64,
                escape(&it.name)
            );
        }
    }
    svg + "</svg>\n"
}

/// The next of 4, 6, 8, 10, 12, 16, 20, 40, 60 and so on times the unit: what four divides nicely.
fn round_up(value: f64, unit: f64) -> f64 {
    let mut unit = unit;
    loop {
        for digit in [4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0] {
            if unit * digit >= value {
                return unit * digit;
            }
        }
        unit *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes = Axes {
        x: |x| format!("{x} s"),
        y: |y| y.to_string(),
        y_unit: 1.0,
    };

    #[test]
    fn the_axis_ends_above_the_highest_point() {
        for (value, end) in [
            (0.0, 4.0),
            (4.0, 4.0),
            (5.0, 6.0),
            (1_024.0, 1_200.0),
            (999_500.0, 1_000_000.0),
        ] {
            assert_eq!(round_up(value, 1.0), end);
        }
        assert!(round_up(f64::MAX / 10.0, 1.0).is_finite());
        assert!((0.5..0.7).contains(&round_up(0.5, 0.001)));
    }

    #[test]
    fn every_point_is_within_the_picture() {
        let series = [1_000.0, 1.0].map(|factor| Series {
            name: "<x>".to_owned(),
            points: (0..5)
                .map(|step| (f64::from(step), f64::from(step) * factor))
                .collect(),
        });
        let svg = lines("x", AXES, &series);
        assert_eq!(svg.matches("points=\"").count(), 2);
        assert_eq!(svg.matches("&lt;x&gt;").count(), 2);
        let pairs = svg
            .split("points=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .flat_map(|points| points.split(' '));
        let mut count = 0;
        for pair in pairs {
            let (x, y) = pair.split_once(',').unwrap();
            assert!((0.0..=WIDTH).contains(&x.parse().unwrap()), "{pair}");
            assert!((0.0..=HEIGHT).contains(&y.parse().unwrap()), "{pair}");
            count += 1;
        }
        assert_eq!(count, 10);
        assert!(lines("x", AXES, &[]).ends_with("</svg>\n"));
    }
}
