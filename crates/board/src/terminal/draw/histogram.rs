//! A histogram of times by octave.

use crate::OctaveCount;
use freeboard_meter::HistogramSummary;
use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Layout, Rect},
    text::{Line, Span as Words},
    widgets::{Sparkline, Widget},
};

use crate::terminal::{
    figures::{short, time},
    palette::Palette,
};

/// Draws a title with percentiles, the bars, and the range of times.
pub(super) fn draw(
    title: &str,
    octaves: &[OctaveCount],
    summary: Option<&HistogramSummary>,
    area: Rect,
    buffer: &mut Buffer,
    palette: Palette,
) {
    let [head, bars, axis] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let figures = summary.map(|summary| {
        format!(
            "  p50 {}  p99 {}  max {}  n {}",
            time(summary.p50),
            time(summary.p99),
            time(summary.max),
            short(summary.count)
        )
    });
    Line::from(vec![
        Words::styled(title.to_owned(), palette.title()),
        Words::raw(figures.unwrap_or_default()),
    ])
    .render(head, buffer);
    let Some((from_ns, counts)) = dense(octaves) else {
        Line::styled("nothing measured yet", palette.dim()).render(bars, buffer);
        return;
    };
    let columns = usize::from(bars.width) / counts.len();
    // One column of space between bars, if it fits.
    let (wide, space) = match columns {
        0 | 1 => (1, 0),
        columns => (columns.min(5) - 1, 1),
    };
    let cells: Vec<u64> = counts
        .iter()
        .flat_map(|&count| {
            let bar = std::iter::repeat_n(count, wide);
            bar.chain(std::iter::repeat_n(0, space))
        })
        .collect();
    Sparkline::default()
        .data(&cells)
        .style(palette.accent())
        .render(bars, buffer);
    let width = u16::try_from(cells.len()).unwrap_or(u16::MAX);
    let axis = Rect {
        width: axis.width.min(width.max(20)),
        ..axis
    };
    let until_ns = from_ns.max(1).checked_shl(counts.len() as u32);
    let until = time(until_ns.unwrap_or(u64::MAX));
    Line::styled(time(from_ns), palette.dim()).render(axis, buffer);
    Line::styled(until, palette.dim())
        .alignment(Alignment::Right)
        .render(axis, buffer);
}

/// Adds histograms octave by octave.
pub(super) fn sum(histograms: &[Vec<OctaveCount>]) -> Vec<OctaveCount> {
    let mut counts = std::collections::BTreeMap::new();
    for octave in histograms.iter().flatten() {
        let count: &mut u64 = counts.entry(octave.from_ns).or_default();
        *count = count.saturating_add(octave.count);
    }
    let counts = counts.into_iter();
    counts
        .map(|(from_ns, count)| OctaveCount { from_ns, count })
        .collect()
}

/// The lower bound of the first octave that is not empty, and the counts from it to the last that is not empty.
/// Times of 0 count in the octave of 1 ns.
fn dense(octaves: &[OctaveCount]) -> Option<(u64, Vec<u64>)> {
    let mut counts = [0_u64; u64::BITS as usize];
    for octave in octaves {
        let count = &mut counts[octave.from_ns.max(1).ilog2() as usize];
        *count = count.saturating_add(octave.count);
    }
    let first = counts.iter().position(|&count| count > 0)?;
    let last = counts.iter().rposition(|&count| count > 0)?;
    Some((1 << first, counts[first..=last].to_vec()))
}
