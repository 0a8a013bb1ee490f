//! The report's page: a summary, a section for each scene, and where all that was measured.

use jiff::Timestamp;

use super::{Part, Report, State};
use crate::{
    figures::seconds,
    page::{Page, escape},
    section::Headline,
};

const LEAD: &str = "Systems that met more load than they could take: what went wrong, on this machine or as it \
    was published, and the cure beside it.";

const COLUMNS: [&str; 6] = ["scene", "the failure", "the cure", "ratio", "took", "ended"];

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = Page::new("Overload, and what holds");
    page.text("lead", LEAD);
    page.text(
        "dim",
        &format!("{}, {:.0}", report.summary(), Timestamp::now()),
    );
    summary(&mut page, &report.parts);
    for part in &report.parts {
        section(&mut page, part);
    }
    page.markup(format_args!("<section id=\"machine\">\n"));
    page.heading("Machine and run");
    let mut entries = Vec::from(report.machine.entries());
    entries.extend([
        ("Freeboard", env!("CARGO_PKG_VERSION").to_owned()),
        ("command", report.command.clone()),
        ("took", seconds(report.seconds)),
    ]);
    page.list(&entries);
    page.markup(format_args!("</section>\n"));
    page.finish()
}

fn summary(page: &mut Page, parts: &[Part]) {
    page.markup(format_args!("<table class=\"words\">\n<thead><tr>"));
    for column in COLUMNS {
        page.markup(format_args!("<th>{column}</th>"));
    }
    page.markup(format_args!("</tr></thead>\n"));
    for part in parts {
        row(page, part);
    }
    page.markup(format_args!("</table>\n"));
}

/// Two rows: the figures, and the sentence below them.
fn row(page: &mut Page, part: &Part) {
    let headline = part.findings.as_ref().map(|it| &it.section.headline);
    let none = Headline::default();
    let Headline {
        failure,
        cure,
        ratio,
    } = headline.unwrap_or(&none);
    let name = part.scene.name();
    let cells = [
        format!("<a href=\"#{name}\">{name}</a>"),
        escape(failure),
        escape(cure),
        escape(ratio),
        seconds(part.seconds),
        ended(part.state()),
    ];
    page.markup(format_args!("<tbody><tr>"));
    for (column, cell) in COLUMNS.iter().zip(cells) {
        page.markup(format_args!("<td data-label=\"{column}\">{cell}</td>"));
    }
    let verdict = part.failure.as_deref();
    let verdict = verdict.or(part.findings.as_ref().map(|it| it.section.verdict.as_str()));
    page.markup(format_args!(
        "</tr>\n<tr class=\"sentence\"><td colspan=\"{}\">{}</td></tr></tbody>\n",
        COLUMNS.len(),
        escape(verdict.unwrap_or_default())
    ));
}

fn ended(state: State) -> String {
    let class = match state {
        State::Ok => "good",
        State::Failed | State::Interrupted => "bad",
    };
    format!("<span class=\"{class}\">{}</span>", state.name())
}

fn section(page: &mut Page, part: &Part) {
    page.markup(format_args!("<section id=\"{}\">\n", part.scene.name()));
    match &part.findings {
        Some(findings) => {
            page.heading(findings.section.title);
            page.text("lead", findings.section.lead);
        }
        None => {
            page.heading(part.scene.name());
            page.text("lead", part.scene.lead());
        }
    }
    match (&part.failure, part.state()) {
        (Some(failure), _) => page.text("verdict failed", &format!("It failed: {failure}")),
        (None, State::Interrupted) => {
            page.text(
                "verdict failed",
                "It was interrupted: what follows is a part of it.",
            );
        }
        (None, _) => {}
    }
    if let Some(findings) = &part.findings {
        findings.section.write(page, false);
    }
    page.markup(format_args!("<p class=\"dim\">To run it again:"));
    for command in part.scene.commands(part.size) {
        page.markup(format_args!("<br><code>{}</code>", escape(&command)));
    }
    page.markup(format_args!("</p>\n</section>\n"));
}
