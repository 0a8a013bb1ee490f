//! A page: words, tables and plots in one HTML file that needs nothing else, not even a script.

use std::fmt::{self, Write};

const STYLE: &str = include_str!("page/style.css");

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    html: String,
}

impl Page {
    /// Begins with a title.
    pub(crate) fn new(title: &str) -> Self {
        let title = escape(title);
        let mut page = Self {
            html: format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <title>Freeboard: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
            ),
        };
        page.element("h1", &title);
        page
    }

    /// What is markup already. Whatever comes from outside goes through [`escape`] first.
    pub(crate) fn markup(&mut self, markup: fmt::Arguments<'_>) {
        let _ = self.html.write_fmt(markup);
    }

    fn element(&mut self, tag: &str, inner: &str) {
        self.markup(format_args!("<{tag}>{inner}</{tag}>\n"));
    }

    /// A section's heading.
    pub(crate) fn heading(&mut self, text: &str) {
        self.element("h2", &escape(text));
    }

    /// A heading within a section.
    pub(crate) fn subheading(&mut self, text: &str) {
        self.element("h3", &escape(text));
    }

    /// What is to be read.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.element("p", &escape(text));
    }

    /// Text of a kind that the style knows.
    pub(crate) fn text(&mut self, kind: &str, text: &str) {
        self.markup(format_args!("<p class=\"{kind}\">{}</p>\n", escape(text)));
    }

    /// A table of figures; its first row is the header, and its first column the names.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) {
        self.html += "<div class=\"scroll\"><table class=\"measured\">\n";
        for (index, row) in rows.iter().enumerate() {
            let tag = if index == 0 { "th" } else { "td" };
            self.html += "<tr>";
            for cell in row {
                let _ = write!(self.html, "<{tag}>{}</{tag}>", escape(cell));
            }
            self.html += "</tr>\n";
        }
        self.html += "</table></div>\n";
    }

    /// Names, and what each has.
    pub(crate) fn list(&mut self, entries: &[(&str, String)]) {
        self.html += "<dl>\n";
        for (name, value) in entries {
            let (name, value) = (escape(name), escape(value));
            self.markup(format_args!("<dt>{name}</dt><dd>{value}</dd>\n"));
        }
        self.html += "</dl>\n";
    }

    /// The whole of it.
    pub(crate) fn finish(self) -> String {
        self.html + "</main>\n</body>\n</html>\n"
    }
}

/// Text as it stands in HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut page = Page::new("a & b");
        page.paragraph("<script>");
        page.text("dim", "\"quoted\"");
        page.table(&[vec!["<td>".to_owned()]]);
        page.list(&[("<dt>", "<dd>".to_owned())]);
        let html = page.finish();
        for text in [
            "<h1>a &amp; b</h1>",
            "&quot;quoted&quot;",
            "&lt;script&gt;",
            "<th>&lt;td&gt;</th>",
            "<dt>&lt;dt&gt;</dt><dd>&lt;dd&gt;</dd>",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
    }
}
