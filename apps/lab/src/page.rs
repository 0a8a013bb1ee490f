//! A page: words, tables and plots in one HTML file that needs nothing else.

use std::fmt::Write;

use jiff::Timestamp;

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1d2733; --dim: #6b7785; --rule: #d5dbe1; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --dim: #93a0ad; --rule: #35404b;
  --paper: #151b21; } }
.c0 { --c: #2f86c9; } .c1 { --c: #e2711d; } .c2 { --c: #2e9e6b; } .c3 { --c: #b5559b; }
.c4 { --c: #8a919b; } .c5 { --c: #d1495b; } .c6 { --c: #c9a227; } .c7 { --c: #6a78d1; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
p { margin: .4rem 0; } .dim { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--dim); } svg text[class] { fill: var(--c); }
.grid { stroke: var(--rule); stroke-width: 1; }
polyline { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; }
rect { fill: var(--c); }";

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    html: String,
}

impl Page {
    /// Begins with a title, and what the page is about.
    pub(crate) fn new(title: &str, lead: &str) -> Self {
        let (title, lead) = (escape(title), escape(lead));
        Self {
            html: format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <title>Freeboard: {title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
                 <h1>{title}</h1>\n<p class=\"dim\">{lead} {:.0}</p>\n",
                Timestamp::now()
            ),
        }
    }

    /// Begins a section.
    pub(crate) fn heading(&mut self, text: &str) {
        let _ = writeln!(self.html, "<h2>{}</h2>", escape(text));
    }

    /// What is to be read.
    pub(crate) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.html, "<p>{}</p>", escape(text));
    }

    /// What may be read.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = writeln!(self.html, "<p class=\"dim\">{}</p>", escape(text));
    }

    /// A table; its first row is the header.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) {
        self.html += "<div class=\"scroll\"><table>\n";
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

    /// A plot, as SVG.
    pub(crate) fn plot(&mut self, svg: &str) {
        self.html += svg;
    }

    /// The whole of it.
    pub(crate) fn finish(self) -> String {
        self.html + "</body>\n</html>\n"
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
        let mut page = Page::new("a & b", "\"quoted\"");
        page.paragraph("<script>");
        page.table(&[vec!["<td>".to_owned()]]);
        let html = page.finish();
        for text in ["a &amp; b", "&quot;quoted&quot;", "&lt;script&gt;"] {
            assert!(html.contains(text), "{text} in {html}");
        }
        assert!(html.contains("<th>&lt;td&gt;</th>"), "{html}");
    }
}
