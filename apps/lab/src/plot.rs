//! Plots as inline SVG. Colours are the page's: the `number`-th thing of a plot has class `c{number}`.
//!
//! They are as wide as half a page on a desk and a whole one on a phone, so that their words can be read on
//! both.

mod axis;
mod bars;
mod lines;

pub(crate) use axis::{Axis, Scale};
pub(crate) use bars::{Bar, Bars, bars};
pub(crate) use lines::{Series, lines};

use maud::{Markup, html};

const WIDTH: f64 = 400.0;
const RIGHT: f64 = 14.0;
/// Between two lines of text.
const LINE: f64 = 17.0;
/// A letter's width, on average, generously.
const LETTER: f64 = 6.6;
/// Colours that the page has.
const COLOURS: usize = 8;

/// The class of a series' colour.
fn colour(number: usize) -> String {
    format!("c{}", number % COLOURS)
}

/// A coordinate or length.
fn at(length: f64) -> String {
    format!("{length:.1}")
}

/// About how wide a text is.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Where each name of a legend begins, and its line: as many in a line as fit. The last line's number is
/// also that of the lines below which the plot begins.
fn legend<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(f64, f64, &'a str)> {
    /// The mark before a name, and the gap behind it.
    const MARK: f64 = 18.0;
    const GAP: f64 = 14.0;
    let (mut x, mut y) = (0.0, LINE - 4.0);
    let place = |name: &'a str| {
        let needed = MARK + width(name);
        if x > 0.0 && x + needed > WIDTH - RIGHT {
            (x, y) = (0.0, y + LINE);
        }
        let at = x;
        x += needed + GAP;
        (at, y, name)
    };
    names.map(place).collect()
}

/// The legend as SVG, and its height.
fn draw_legend<'a>(names: impl Iterator<Item = &'a str>) -> (Markup, f64) {
    let places = legend(names);
    let svg = html! {
        @for (number, (x, y, name)) in places.iter().enumerate() {
            circle class=(colour(number)) cx=(at(x + 6.0)) cy=(at(y - 4.0)) r="4.5" {}
            text x=(at(x + 15.0)) y=(at(*y)) { (name) }
        }
    };
    (svg, places.last().map_or(0.0, |(_, y, _)| y + 8.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_breaks_its_line_where_it_is_full() {
        let name = "a name of twenty let";
        let places = legend([name; 7].into_iter());
        assert!(places.iter().all(|(x, ..)| x + width(name) < WIDTH));
        let lines: Vec<f64> = places.iter().map(|(_, y, _)| *y).collect();
        assert!(lines.is_sorted() && lines[0] < lines[6], "{lines:?}");
        // One that is too long for any line has one to itself.
        let long = "x".repeat(200);
        assert_eq!(legend([long.as_str()].into_iter())[0].0, 0.0);
    }
}
