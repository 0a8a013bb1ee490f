//! Tables for the terminal.

use comfy_table::{
    CellAlignment, ContentArrangement, Table, TableComponent, modifiers::UTF8_ROUND_CORNERS,
    presets,
};

/// What a cell shows of a measure that was not seen.
pub(crate) fn unseen() -> String {
    "-".to_owned()
}

/// Rows as text, the first of them the header. The first column is words, the others are figures.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let mut rows = rows.iter();
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .apply_modifier(UTF8_ROUND_CORNERS)
        .remove_style(TableComponent::VerticalLines)
        .set_content_arrangement(ContentArrangement::Disabled);
    if let Some(header) = rows.next() {
        table.set_header(header);
    }
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
