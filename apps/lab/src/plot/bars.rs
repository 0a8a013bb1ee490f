//! Horizontal bars, each in one or more parts, as where a worker's time went.

use maud::{Markup, html};

use super::{LINE, RIGHT, WIDTH, at, colour, draw_legend, width};
use crate::section::Side;

const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
/// The least that is left for the bars themselves.
const FIELD_MIN: f64 = 100.0;
/// The least that can be seen of a value above 0.
const SEEN_MIN: f64 = 1.0;

/// One bar.
#[derive(Debug, Default)]
pub(crate) struct Bar {
    pub(crate) name: String,
    /// The lengths of its parts, in the order of the legend.
    pub(crate) parts: Vec<f64>,
    /// Said behind it.
    pub(crate) note: String,
    /// Whether it shows a failure or a cure, which have colours of their own.
    pub(crate) side: Side,
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

/// All of them in one picture. Names that leave too little for the bars are above them.
pub(crate) fn bars(title: &str, bars: &Bars<'_>) -> Markup {
    let widest = |text: fn(&Bar) -> &str| {
        let widths = bars.bars.iter().map(|bar| width(text(bar)));
        widths.fold(0.0, f64::max)
    };
    let beside = widest(|bar| &bar.name) + 8.0;
    let notes = widest(|bar| &bar.note) + 6.0 + RIGHT;
    let is_beside = WIDTH - beside - notes >= FIELD_MIN;
    let (left, row_height) = match is_beside {
        true => (beside, ROW),
        false => (0.0, ROW + LINE),
    };
    let longest = bars.longest().max(bars.reach).max(f64::MIN_POSITIVE);
    let scale = (WIDTH - left - notes).max(FIELD_MIN) / longest;
    let (legend, top) = draw_legend(bars.legend.iter().copied());
    let height = top + row_height * bars.bars.len() as f64 + 4.0;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) {
            (legend)
            @for (row, bar) in bars.bars.iter().enumerate() {
                (draw(bar, left, top + row_height * row as f64 + 4.0, scale))
            }
        }
    }
}

/// A bar whose parts begin at `left`. At 0 its name is above it.
fn draw(bar: &Bar, left: f64, y: f64, scale: f64) -> Markup {
    let is_beside = left > 0.0;
    let name_y = at(y + BAR - 4.0);
    let y = if is_beside { y } else { y + LINE };
    let text_y = at(y + BAR - 4.0);
    let mut x = left;
    let parts = bar.parts.iter().map(|length| {
        let seen = if *length > 0.0 { SEEN_MIN } else { 0.0 };
        let (begin, width) = (x, (length * scale).max(seen));
        x += width;
        (begin, width)
    });
    let parts: Vec<(f64, f64)> = parts.collect();
    html! {
        @if is_beside {
            text x=(at(left - 8.0)) y=(name_y) text-anchor="end" { (bar.name) }
        } @else {
            text x="0" y=(name_y) { (bar.name) }
        }
        @for (number, (x, width)) in parts.into_iter().enumerate() {
            rect class={ (colour(number)) " " (bar.side.class()) } x=(at(x)) y=(at(y)) width=(at(width)) height=(BAR) {}
        }
        text.figure x=(at(x + 6.0)) y=(text_y) { (bar.note) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(parts: &[f64]) -> Bar {
        Bar {
            name: "worker".to_owned(),
            parts: parts.to_vec(),
            note: "50 %".to_owned(),
            side: Side::Neither,
        }
    }

    /// Where each part begins, and how long it is.
    fn rects(svg: &Markup) -> Vec<(f64, f64)> {
        let svg = &svg.0;
        let value = |rect: &str, name: &str| -> f64 {
            let (_, rest) = rect.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let rects = svg.split('<').filter(|line| line.starts_with("rect"));
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
        assert!(bars("x", &Bars::default()).0.ends_with("</svg>"));
    }

    #[test]
    fn long_names_and_notes_do_not_push_bars_out_of_the_picture() {
        for name in [3, 30, 60] {
            let mut long = bar(&[5.0]);
            long.name = "n".repeat(name);
            long.note = "1,230,000 messages/s".to_owned();
            let note = width(&long.note);
            let all = Bars {
                bars: vec![long, bar(&[1.0])],
                ..Bars::default()
            };
            let rects = rects(&bars("x", &all));
            assert!(rects[0].0 + rects[0].1 + note <= WIDTH, "{name}: {rects:?}");
            assert!(
                (rects[0].1 - 5.0 * rects[1].1).abs() < 0.5,
                "{name}: {rects:?}"
            );
        }
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
