//! A table that fits the screen: the most important columns; the first one takes the remaining width.

use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Rect},
    style::Style,
    text::Line,
    widgets::{Cell as TableCell, Row, Table, Widget},
};

use crate::terminal::{figures::rate_or_none, history::Span, palette::Palette};

/// A column of a table, and the cell that it shows of a row.
pub(super) struct Column<'a, R> {
    pub(super) title: String,
    /// The minimum, for the first column.
    width: u16,
    /// Columns with the lowest ranks are shown if not all fit.
    pub(super) rank: u8,
    alignment: Alignment,
    cell: Box<dyn Fn(&R) -> Cell + 'a>,
}

impl<'a, R> Column<'a, R> {
    /// For text.
    pub(super) fn text<C: Into<Cell>>(
        title: &str,
        width: u16,
        rank: u8,
        cell: impl Fn(&R) -> C + 'a,
    ) -> Self {
        Self {
            title: title.to_owned(),
            width,
            rank,
            alignment: Alignment::Left,
            cell: Box::new(move |row| cell(row).into()),
        }
    }

    /// For numbers.
    pub(super) fn figure<C: Into<Cell>>(
        title: &str,
        width: u16,
        rank: u8,
        cell: impl Fn(&R) -> C + 'a,
    ) -> Self {
        Self {
            alignment: Alignment::Right,
            ..Self::text(title, width, rank, cell)
        }
    }
}

/// One cell.
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(super) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// A value now and at the beginning of the span, for rates.
pub(super) struct Change<'a, T> {
    pub(super) now: &'a T,
    pub(super) before: Option<&'a T>,
    pub(super) span: Option<Span<'a>>,
}

impl<T> Change<'_, T> {
    /// The rate of a counter.
    pub(super) fn rate(&self, field: impl Fn(&T) -> u64) -> String {
        let rate = self
            .before
            .and_then(|before| self.span?.rate(field(before), field(self.now)));
        rate_or_none(rate)
    }
}

/// Draws a table. `selected` is the cursor's row; its page is shown.
pub(super) fn draw<R>(
    rows: &[R],
    columns: &[Column<'_, R>],
    selected: Option<usize>,
    area: Rect,
    buffer: &mut Buffer,
    palette: Palette,
) {
    let measures: Vec<_> = columns.iter().map(|it| (it.width, it.rank)).collect();
    let kept = fitting(&measures, area.width);
    let Some(page_rows) = usize::from(area.height).checked_sub(1).filter(|&n| n > 0) else {
        return;
    };
    let first = selected.map_or(0, |row| row - row % page_rows);
    let kept_columns = || kept.iter().map(|&index| &columns[index]);
    let table_cell = |column: &Column<'_, R>, cell: Cell| {
        TableCell::new(Line::styled(cell.text, cell.style).alignment(column.alignment))
    };
    let shown = rows.iter().enumerate().skip(first).take(page_rows);
    let shown = shown.map(|(index, row)| {
        let row = Row::new(kept_columns().map(|column| table_cell(column, (column.cell)(row))));
        match selected == Some(index) {
            true => row.style(palette.selected()),
            false => row,
        }
    });
    let head = kept_columns()
        .map(|column| table_cell(column, Cell::styled(column.title.clone(), palette.title())));
    let widths = kept.iter().map(|&column| match column {
        0 => Constraint::Fill(1),
        _ => Constraint::Length(columns[column].width),
    });
    Table::new(shown, widths)
        .header(Row::new(head))
        .column_spacing(1)
        .render(area, buffer);
}

/// The columns that fit into `width`, from left to right, given their widths and ranks.
fn fitting(columns: &[(u16, u8)], width: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (1..columns.len()).collect();
    by_rank.sort_by_key(|&column| columns[column].1);
    let mut rest = width.saturating_sub(columns.first().map_or(0, |column| column.0));
    let mut kept = vec![0];
    for column in by_rank {
        let Some(left) = rest.checked_sub(columns[column].0 + 1) else {
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
    use super::fitting;

    #[test]
    fn the_least_important_column_goes_first() {
        for (width, kept) in [
            (28, &[0, 1, 2, 3][..]),
            (27, &[0, 2, 3]),
            (21, &[0, 2]),
            (0, &[0]),
        ] {
            let columns = [(10, 0), (5, 3), (5, 1), (5, 2)];
            assert_eq!(fitting(&columns, width), kept, "{width} columns");
        }
    }
}
