//! An HTML page that needs no other file and no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page/style.css");

/// A page with a title and its content.
pub(crate) fn page(title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Freeboard: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (content) } }
        }
    };
    page.into_string()
}

/// A table; its first row is the header, its first column has the names.
pub(crate) fn table(rows: &[Vec<String>]) -> Markup {
    html! {
        div.scroll { table.measured {
            @for (index, row) in rows.iter().enumerate() {
                tr { @for cell in row {
                    @if index == 0 { th { (cell) } } @else { td { (cell) } }
                } }
            }
        } }
    }
}

/// Names and their values.
pub(crate) fn list(entries: &[(&str, String)]) -> Markup {
    html! { dl { @for (name, value) in entries { dt { (name) } dd { (value) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let table = table(&[vec!["<td>".to_owned()]]);
        let list = list(&[("<dt>", "<dd>".to_owned())]);
        let page = page("a & b", &html! { (table) (list) });
        for text in [
            "<h1>a &amp; b</h1>",
            "<th>&lt;td&gt;</th>",
            "<dt>&lt;dt&gt;</dt><dd>&lt;dd&gt;</dd>",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
    }
}
