//! The report's page: a summary, a section for each scene, and the machine.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{Part, Report, State};
use crate::{figures::seconds, page, section::Headline};

const LEAD: &str = "Systems that met more load than they could take. Each failure and its cure were measured in this \
    run, on this machine.";

const COLUMNS: [&str; 7] = [
    "scene",
    "the failure",
    "the cure",
    "ratio",
    "other runtimes",
    "took",
    "ended",
];

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut machine = Vec::from(report.machine.entries());
    machine.extend([
        ("Freeboard", env!("CARGO_PKG_VERSION").to_owned()),
        ("command", report.command.clone()),
        ("took", seconds(report.seconds)),
    ]);
    let content = html! {
        p.lead { (LEAD) }
        p.dim {
            (report.summary()) ", " (format!("{:.0}", Timestamp::now())) ". " (report.machine.sentence())
            @for text in &report.others { " " (text) }
        }
        table.words {
            thead { tr { @for column in COLUMNS { th { (column) } } } }
            @for part in &report.parts { (row(part)) }
        }
        @for part in &report.parts { (section(part)) }
        section id="machine" { h2 { "Machine and run" } (page::list(&machine)) }
    };
    page::page("Overload, and what holds", &content)
}

/// Two rows: the figures, and the sentence below them.
fn row(part: &Part) -> Markup {
    let section = part.findings.as_ref().map(|it| &it.section);
    let none = Headline::default();
    let headline = section.map_or(&none, |it| &it.headline);
    let name = part.scene.name();
    let class = match part.state() {
        State::Ok => "good",
        State::Failed | State::Interrupted => "bad",
    };
    let cells = [
        html! { a href=(format!("#{name}")) { (name) } },
        html! { (headline.failure) },
        html! { (headline.cure) },
        html! { (headline.ratio) },
        html! { (headline.beside) },
        html! { (seconds(part.seconds)) },
        html! { span class=(class) { (part.state().name()) } },
    ];
    let verdict = part.failure.as_deref();
    let verdict = verdict.or(section.map(|it| it.verdict.as_str()));
    html! {
        tbody {
            tr { @for (column, cell) in COLUMNS.iter().zip(cells) { td data-label=(column) { (cell) } } }
            tr.sentence { td colspan=(COLUMNS.len()) { (verdict.unwrap_or_default()) } }
        }
    }
}

fn section(part: &Part) -> Markup {
    let section = part.findings.as_ref().map(|it| &it.section);
    let (title, lead) = section.map_or((part.scene.name(), part.scene.lead()), |it| {
        (it.title, it.lead)
    });
    html! {
        section id=(part.scene.name()) {
            h2 { (title) }
            p.lead { (lead) }
            @if let Some(failure) = &part.failure {
                p.verdict.failed { "It failed: " (failure) }
            } @else if part.state() == State::Interrupted {
                p.verdict.failed { "It was interrupted: the runs below are a part of it." }
            }
            @if let Some(section) = section { (section.content(false)) }
            p.dim {
                "To run it again:"
                @for command in part.scene.commands(part.size) { br; code { (command) } }
            }
        }
    }
}
