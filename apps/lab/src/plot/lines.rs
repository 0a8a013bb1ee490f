//! Lines over an axis that begins at 0, as queues' lengths over time.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Axis, LINE, RIGHT, WIDTH, at, colour, draw_legend, width};

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
pub(crate) fn lines(title: &str, x: Axis, y: Axis, series: &[Series]) -> Markup {
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
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", bottom + BOTTOM)) role="img" aria-label=(title) {
            (legend)
            text x="0" y=(at(top - 12.0)) { (y.title) }
            @for (share, name) in names {
                @let y = y_at(share);
                line.grid x1=(at(left)) x2=(WIDTH - RIGHT) y1=(at(y)) y2=(at(y)) {}
                text x=(at(left - 6.0)) y=(at(y + 4.0)) text-anchor="end" { (name) }
            }
            @for (share, name) in across.ticks() {
                @let x = x_at(share);
                line.tick x1=(at(x)) x2=(at(x)) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
                text x=(at(x)) y=(at(bottom + LINE)) text-anchor="middle" { (name) }
            }
            text x=(WIDTH - RIGHT) y=(at(bottom + 2.0 * LINE)) text-anchor="end" { (x.title) }
            @for (number, it) in series.iter().enumerate() {
                @let points = it.points.iter().map(|(x, y)| (x_at(across.share(*x)), y_at(up.share(*y))));
                polyline class=(colour(number)) points=(path(points)) {}
            }
        }
    }
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
        let svg = lines("x", AXIS, AXIS, &series).0;
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
        assert!(lines("x", AXIS, AXIS, &[]).0.ends_with("</svg>"));
    }

    #[test]
    fn points_that_cannot_be_told_apart_are_drawn_once() {
        let places = [(0.0, 0.0), (0.1, 0.0), (0.2, 0.4), (0.3, 9.0), (0.4, 9.1)];
        assert_eq!(path(places.into_iter()), "0.0,0.0 0.3,9.0 0.4,9.1");
    }
}
