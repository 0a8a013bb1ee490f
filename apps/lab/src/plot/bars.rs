//! Horizontal bars, each in one or more parts, as where a worker's time went.

use std::fmt::Write;

use super::{RIGHT, TOP, WIDTH, colour};
use crate::page::escape;

const LEFT: f64 = 150.0;
const ROW: f64 = 22.0;
const BAR: f64 = 16.0;
/// Room behind the longest bar, for its note.
const NOTE: f64 = 90.0;
const LEGEND: f64 = 24.0;

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// The lengths of its parts, in the order of the legend.
    pub(crate) parts: Vec<f64>,
    /// Said behind it.
    pub(crate) note: String,
}

/// All bars in one picture; the longest fills it. An empty legend is left out.
pub(crate) fn bars(title: &str, legend: &[&str], bars: &[Bar]) -> String {
    let total = |bar: &Bar| bar.parts.iter().sum::<f64>();
    let longest = bars.iter().map(total).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT - NOTE) / longest;
    let legend_height = if legend.is_empty() { 0.0 } else { LEGEND };
    let height = TOP + legend_height + ROW * bars.len() as f64 + TOP;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    );
    let step = (WIDTH - LEFT - RIGHT) / legend.len().max(1) as f64;
    for (number, name) in legend.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text class=\"c{}\" x=\"{:.1}\" y=\"{}\">{}</text>",
            colour(number),
            LEFT + step * number as f64,
            TOP + 10.0,
            escape(name)
        );
    }
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + legend_height + ROW * row as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + BAR - 4.0,
            escape(&bar.name)
        );
        let mut x = LEFT;
        for (number, length) in bar.parts.iter().enumerate() {
            let width = length * scale;
            let _ = writeln!(
                svg,
                "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{BAR}\"/>",
                colour(number)
            );
            x += width;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 6.0,
            y + BAR - 4.0,
            escape(&bar.note)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_behind_each_other_and_within_the_picture() {
        let bar = |parts: &[f64]| Bar {
            name: "worker".to_owned(),
            parts: parts.to_vec(),
            note: "50 %".to_owned(),
        };
        let svg = bars("x", &["run", "park"], &[bar(&[3.0, 1.0]), bar(&[0.5, 0.5])]);
        let value = |rect: &str, name: &str| -> f64 {
            let (_, rest) = rect.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let rects: Vec<(f64, f64)> = svg
            .lines()
            .filter(|line| line.starts_with("<rect"))
            .map(|rect| (value(rect, "x"), value(rect, "width")))
            .collect();
        assert_eq!(rects.len(), 4);
        for pair in rects.chunks(2) {
            assert!((pair[0].0 + pair[0].1 - pair[1].0).abs() < 0.2, "{rects:?}");
            assert!(pair[1].0 + pair[1].1 <= WIDTH - RIGHT, "{rects:?}");
        }
        assert!(bars("x", &[], &[]).ends_with("</svg>\n"));
    }
}
