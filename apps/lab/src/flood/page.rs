//! The page: verdict, table and a plot for each run, in one file that needs nothing else.

use std::fmt::Write;

use jiff::Timestamp;

use super::{plot, run::Outcome, table, verdict};

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1d2733; --dim: #6b7785; --rule: #d5dbe1; --paper: #fff;
  --dam: #1f77b4; --server: #d95f02; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --dim: #93a0ad; --rule: #35404b;
  --paper: #151b21; --dam: #6cb4ee; --server: #ff9f4a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
p { margin: .4rem 0; } .dim { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--dim); } .grid { stroke: var(--rule); stroke-width: 1; }
polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
polyline.dam { stroke: var(--dam); } polyline.server { stroke: var(--server); }
svg text.dam { fill: var(--dam); } svg text.server { fill: var(--server); }";

/// The whole page.
pub(crate) fn page(outcomes: &[Outcome]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Freeboard: the flood</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>The flood</h1>\n<p class=\"dim\">A log server behind a flooded mailbox, and the dam \
         that saves it. {:.0}</p>\n",
        Timestamp::now()
    );
    for text in verdict::verdict(outcomes) {
        let _ = writeln!(html, "<p>{}</p>", escape(&text));
    }
    write_table(&mut html, outcomes);
    for outcome in outcomes {
        let title = escape(&outcome.plan.title());
        let _ = writeln!(
            html,
            "<h2>{title}</h2>\n<p class=\"dim\">{}</p>",
            escape(outcome.verdict.finding())
        );
        html += &plot::queues(&title, &outcome.points, outcome.plan.dam.is_some());
    }
    html + "</body>\n</html>\n"
}

fn write_table(html: &mut String, outcomes: &[Outcome]) {
    *html += "<div class=\"scroll\"><table>\n";
    for (index, row) in table::rows(outcomes).iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        *html += "<tr>";
        for cell in row {
            let _ = write!(html, "<{tag}>{}</{tag}>", escape(cell));
        }
        *html += "</tr>\n";
    }
    let legend = escape(table::LEGEND);
    let _ = writeln!(html, "</table></div>\n<p class=\"dim\">{legend}</p>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
