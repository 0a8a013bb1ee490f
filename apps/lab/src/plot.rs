//! Plots as inline SVG. Colours are the page's: the `number`-th thing of a plot has class `c{number}`.

mod bars;
mod lines;

pub(crate) use bars::{Bar, bars};
pub(crate) use lines::{Axes, Series, lines};

const WIDTH: f64 = 720.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
/// Colours that the page has.
const COLOURS: usize = 8;

fn colour(number: usize) -> usize {
    number % COLOURS
}
