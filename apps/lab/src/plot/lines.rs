//! Lines over an axis that begins at 0, as queues' lengths over time.

use std::fmt::Write;

use super::{Axis, LINE, RIGHT, WIDTH, colour, draw_legend, width};
use crate::page::escape;

/// Of the field that the lines lie in.
const HEIGHT: f64 = 170.0;
/// Ticks and title of the axis below.
const BOTTOM: f64 = 2.0 * LINE + 4.0;
/// Points that lie closer cannot be told apart.
const APART: f64 = 0.5;

/// One line. Its points have rising x.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// All series in one picture.
pub(crate) fn lines(title: &str, x: Axis, y: Axis, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|it| it.points.iter());
    let (across, up) = (
        x.ruler(points().map(|(x, _)| *x).fold(0.0, f64::max), false),
        y.ruler(points().map(|(_, y)| *y).fold(0.0, f64::max), true),
    );
    let names = up.ticks();
    let left = names
        .iter()
        .map(|(_, name)| width(name))
        .fold(0.0, f64::max)
        + 10.0;
    let (legend, legend_height) = draw_legend(series.iter().map(|it| it.name.as_str()));
    let top = legend_height + LINE + 8.0;
    let bottom = top + HEIGHT;
    let x_at = |share: f64| left + share * (WIDTH - left - RIGHT);
    let y_at = |share: f64| bottom - share * HEIGHT;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n{legend}\
         <text x=\"0\" y=\"{:.1}\">{}</text>\n",
        bottom + BOTTOM,
        escape(title),
        top - 12.0,
        escape(y.title)
    );
    for (share, name) in names {
        let at = y_at(share);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            left - 6.0,
            at + 4.0,
            escape(&name)
        );
    }
    for (share, name) in across.ticks() {
        let at = x_at(share);
        let _ = writeln!(
            svg,
            "<line class=\"tick\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            bottom + LINE,
            escape(&name)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        bottom + 2.0 * LINE,
        escape(x.title)
    );
    for (number, it) in series.iter().enumerate() {
        let places = it.points.iter();
        let places = places.map(|(x, y)| (x_at(across.share(*x)), y_at(up.share(*y))));
        let _ = writeln!(
            svg,
            "<polyline class=\"c{}\" points=\"{}\"/>",
            colour(number),
            path(places)
        );
    }
    svg + "</svg>\n"
}

/// The points as SVG has them, without those that would lie on the one before.
fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    let mut places = places.peekable();
    while let Some((x, y)) = places.next() {
        let is_apart =
            last.is_none_or(|(at_x, at_y)| (x - at_x).abs() >= APART || (y - at_y).abs() >= APART);
        if is_apart || places.peek().is_none() {
            let gap = if path.is_empty() { "" } else { " " };
            let _ = write!(path, "{gap}{x:.1},{y:.1}");
            last = Some((x, y));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis::linear("things", |value| value.to_string());

    #[test]
    fn every_point_is_within_the_picture() {
        let series = [1_000.0, 1.0].map(|factor| Series {
            name: "<x>".to_owned(),
            points: (0..5)
                .map(|step| (f64::from(step), f64::from(step) * factor))
                .collect(),
        });
        let svg = lines("x", AXIS, AXIS, &series);
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
            assert!((0.0..=400.0).contains(&y.parse().unwrap()), "{pair}");
            count += 1;
        }
        assert_eq!(count, 10);
        assert!(lines("x", AXIS, AXIS, &[]).ends_with("</svg>\n"));
    }

    #[test]
    fn points_that_cannot_be_told_apart_are_drawn_once() {
        let places = [(0.0, 0.0), (0.1, 0.0), (0.2, 0.4), (0.3, 9.0), (0.4, 9.1)];
        assert_eq!(path(places.into_iter()), "0.0,0.0 0.3,9.0 0.4,9.1");
    }
}
