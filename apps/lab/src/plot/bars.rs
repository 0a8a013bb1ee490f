//! Horizontal bars, each in one or more parts, as where a worker's time went.

use std::fmt::Write;

use super::{RIGHT, WIDTH, colour, draw_legend, width};
use crate::page::escape;

const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
/// The least that is left for the bars themselves.
const FIELD_MIN: f64 = 100.0;
/// The least that can be seen of a value above 0.
const SEEN_MIN: f64 = 1.0;

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// The lengths of its parts, in the order of the legend.
    pub(crate) parts: Vec<f64>,
    /// Said behind it.
    pub(crate) note: String,
}

/// Bars that are compared.
#[derive(Debug, Default)]
pub(crate) struct Bars<'a> {
    /// What their parts are; empty where they have one.
    pub(crate) legend: &'a [&'a str],
    pub(crate) bars: Vec<Bar>,
    /// What would fill the picture, if that is longer than the longest of them, so that another one can be
    /// compared with it.
    pub(crate) reach: f64,
}

impl Bars<'_> {
    /// The longest of them.
    pub(crate) fn longest(&self) -> f64 {
        let total = |bar: &Bar| bar.parts.iter().sum::<f64>();
        self.bars.iter().map(total).fold(0.0, f64::max)
    }
}

/// All of them in one picture.
pub(crate) fn bars(title: &str, bars: &Bars<'_>) -> String {
    let widest = |text: fn(&Bar) -> &str| {
        let widths = bars.bars.iter().map(|bar| width(text(bar)));
        widths.fold(0.0, f64::max)
    };
    let left = widest(|bar| &bar.name) + 8.0;
    let field = WIDTH - left - widest(|bar| &bar.note) - 6.0 - RIGHT;
    let longest = bars.longest().max(bars.reach).max(f64::MIN_POSITIVE);
    let scale = field.max(FIELD_MIN) / longest;
    let (legend, top) = draw_legend(bars.legend.iter().copied());
    let height = top + ROW * bars.bars.len() as f64 + 4.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n{legend}",
        escape(title)
    );
    for (row, bar) in bars.bars.iter().enumerate() {
        let y = top + ROW * row as f64 + 4.0;
        let text_y = y + BAR - 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{text_y:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            escape(&bar.name)
        );
        let mut x = left;
        for (number, length) in bar.parts.iter().enumerate() {
            let seen = if *length > 0.0 { SEEN_MIN } else { 0.0 };
            let width = (length * scale).max(seen);
            let _ = writeln!(
                svg,
                "<rect class=\"c{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>",
                colour(number)
            );
            x += width;
        }
        let _ = writeln!(
            svg,
            "<text class=\"figure\" x=\"{:.1}\" y=\"{text_y:.1}\">{}</text>",
            x + 6.0,
            escape(&bar.note)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(parts: &[f64]) -> Bar {
        Bar {
            name: "worker".to_owned(),
            parts: parts.to_vec(),
            note: "50 %".to_owned(),
        }
    }

    /// Where each part begins, and how long it is.
    fn rects(svg: &str) -> Vec<(f64, f64)> {
        let value = |rect: &str, name: &str| -> f64 {
            let (_, rest) = rect.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let rects = svg.lines().filter(|line| line.starts_with("<rect"));
        rects
            .map(|it| (value(it, "x"), value(it, "width")))
            .collect()
    }

    #[test]
    fn parts_lie_behind_each_other_and_within_the_picture() {
        let svg = bars(
            "x",
            &Bars {
                legend: &["run", "park"],
                bars: vec![bar(&[3.0, 1.0]), bar(&[0.5, 0.5])],
                reach: 0.0,
            },
        );
        let rects = rects(&svg);
        assert_eq!(rects.len(), 4);
        for pair in rects.chunks(2) {
            assert!((pair[0].0 + pair[0].1 - pair[1].0).abs() < 0.2, "{rects:?}");
            assert!(pair[1].0 + pair[1].1 <= WIDTH - RIGHT, "{rects:?}");
        }
        assert!(bars("x", &Bars::default()).ends_with("</svg>\n"));
    }

    #[test]
    fn what_reaches_further_makes_bars_shorter_but_none_unseen() {
        let of = |reach| Bars {
            bars: vec![bar(&[1.0]), bar(&[0.0])],
            reach,
            ..Bars::default()
        };
        let alone = rects(&bars("x", &of(0.0)));
        let beside = rects(&bars("x", &of(2.0)));
        assert!((beside[0].1 * 2.0 - alone[0].1).abs() < 0.2, "{beside:?}");
        assert_eq!(rects(&bars("x", &of(1e12)))[0].1, 1.0);
        assert_eq!(beside[1].1, 0.0);
    }
}
