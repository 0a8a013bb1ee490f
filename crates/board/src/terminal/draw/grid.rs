//! A table that fits the screen: the most important columns; the first one takes the remaining width.

use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Rect},
    style::Style,
    text::Line,
    widgets::{Cell as TableCell, Row, Table, Widget},
};

use crate::terminal::{figures::rate_or_none, history::Span, palette::Palette};

/// A column of a table.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) title: String,
    /// The minimum, for the first column.
    pub(super) width: u16,
    /// Columns with the lowest ranks are shown if not all fit.
    pub(super) rank: u8,
    pub(super) alignment: Alignment,
}

impl Column {
    /// For text.
    pub(super) fn text(title: &str, width: u16, rank: u8) -> Self {
        Self {
            title: title.to_owned(),
            width,
            rank,
            alignment: Alignment::Left,
        }
    }

    /// For numbers.
    pub(super) fn figure(title: &str, width: u16, rank: u8) -> Self {
        Self {
            alignment: Alignment::Right,
            ..Self::text(title, width, rank)
        }
    }
}

/// One cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::styled(text, Style::new())
    }

    pub(super) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

/// Makes cells with the rates of counters of `now`, which were `before` at the beginning of the span.
pub(super) fn rates<'a, T>(
    span: Option<Span<'a>>,
    before: Option<&'a T>,
    now: &'a T,
) -> impl Fn(fn(&T) -> u64) -> Cell {
    move |field| {
        let rate = before.and_then(|before| span?.rate(field(before), field(now)));
        Cell::new(rate_or_none(rate))
    }
}

/// A table.
pub(super) struct Grid {
    pub(super) columns: Vec<Column>,
    /// Each has a cell for each column.
    pub(super) rows: Vec<Vec<Cell>>,
    /// The cursor's row; its page is shown.
    pub(super) selected: Option<usize>,
}

impl Grid {
    pub(super) fn draw(self, area: Rect, buffer: &mut Buffer, palette: Palette) {
        let kept = fitting(&self.columns, area.width);
        let Some(page_rows) = usize::from(area.height).checked_sub(1).filter(|&n| n > 0) else {
            return;
        };
        let first = self.selected.map_or(0, |row| row - row % page_rows);
        let cell_of = |column: &Column, cell: &Cell| {
            let line = Line::styled(cell.text.clone(), cell.style);
            TableCell::new(line.alignment(column.alignment))
        };
        let rows = self.rows.iter().enumerate().skip(first).take(page_rows);
        let rows = rows.map(|(index, cells)| {
            let cells = kept
                .iter()
                .filter_map(|&column| Some(cell_of(self.columns.get(column)?, cells.get(column)?)));
            let row = Row::new(cells);
            if self.selected == Some(index) {
                row.style(palette.selected())
            } else {
                row
            }
        });
        let head = kept.iter().map(|&column| {
            let column = &self.columns[column];
            let cell = Cell::styled(column.title.clone(), palette.title());
            cell_of(column, &cell)
        });
        let widths = kept.iter().map(|&column| match column {
            0 => Constraint::Fill(1),
            _ => Constraint::Length(self.columns[column].width),
        });
        Table::new(rows, widths)
            .header(Row::new(head))
            .column_spacing(1)
            .render(area, buffer);
    }
}

/// The columns that fit into `width`, from left to right.
fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (1..columns.len()).collect();
    by_rank.sort_by_key(|&column| columns[column].rank);
    let mut rest = width.saturating_sub(columns.first().map_or(0, |column| column.width));
    let mut kept = vec![0];
    for column in by_rank {
        let Some(left) = rest.checked_sub(columns[column].width + 1) else {
            // No narrower, less important column takes its place.
            break;
        };
        rest = left;
        kept.push(column);
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(width: u16, kept: &[usize]) {
        let columns = [
            Column::text("name", 10, 0),
            Column::figure("little", 5, 3),
            Column::figure("much", 5, 1),
            Column::figure("some", 5, 2),
        ];
        assert_eq!(fitting(&columns, width), kept, "{width} columns");
    }

    #[test]
    fn the_least_important_column_goes_first() {
        check(28, &[0, 1, 2, 3]);
        check(27, &[0, 2, 3]);
        check(21, &[0, 2]);
        check(0, &[0]);
    }
}
