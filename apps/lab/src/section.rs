//! A scene's section: what went wrong in the original, that going wrong here, and the cure beside it.
//!
//! A scene's own page is its section alone; the report has one of each.

use jiff::Timestamp;

use maud::{Markup, Render, html};
use serde::Serialize;

use crate::{page, table::unseen};

/// What a figure is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Side {
    /// It goes wrong.
    Failure,
    /// It does not, any more.
    Cure,
    /// It runs here as the original had it.
    Original,
    /// It ran on another runtime.
    Peer,
    /// A failure and its cure in one picture.
    Both,
    /// Nothing goes wrong in it, or it says nothing of that.
    #[default]
    Neither,
}

impl Side {
    /// That of a picture of several runs.
    pub(crate) fn of_all(sides: impl Iterator<Item = Self> + Clone) -> Self {
        let has = |side| sides.clone().any(|it| it == side);
        match (has(Self::Failure), has(Self::Cure)) {
            (true, true) => Self::Both,
            (true, false) => Self::Failure,
            (false, true) => Self::Cure,
            (false, false) => Self::Neither,
        }
    }

    /// The class of a bar.
    pub(crate) const fn class(self) -> &'static str {
        self.class_and_tag().0
    }

    /// Its style, and what is said of it.
    const fn class_and_tag(self) -> (&'static str, &'static str) {
        match self {
            Self::Failure => ("failure", "going wrong here"),
            Self::Cure => ("cure", "the cure"),
            Self::Original => ("original", "as the original had it"),
            Self::Peer => ("peer", "another runtime"),
            Self::Both => ("both", "failure and cure"),
            Self::Neither => ("neither", "neither failure nor cure"),
        }
    }
}

/// A plot and what it says.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) side: Side,
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) svg: Markup,
}

/// The scene in a line of a table.
#[derive(Debug, Serialize)]
pub(crate) struct Headline {
    /// In a sentence, without the ratio.
    pub(crate) claim: String,
    pub(crate) failure: String,
    pub(crate) cure: String,
    /// Of the cure to the failure.
    pub(crate) ratio: String,
    /// The same measure on other runtimes.
    pub(crate) beside: String,
}

impl Default for Headline {
    fn default() -> Self {
        Self {
            claim: String::new(),
            failure: unseen(),
            cure: unseen(),
            ratio: unseen(),
            beside: unseen(),
        }
    }
}

/// What there is to be said of a scene.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// What the scene is.
    pub(crate) lead: &'static str,
    /// What went wrong in the original, with its figures.
    pub(crate) original: &'static str,
    pub(crate) headline: Headline,
    /// In a sentence.
    pub(crate) verdict: String,
    /// A failure and its cure one after the other, so that they stand side by side.
    pub(crate) figures: Vec<Figure>,
    /// Ours against the original's figures, the header first.
    pub(crate) comparison: Vec<Vec<String>>,
    /// All that the runs show, in words.
    pub(crate) details: Vec<String>,
    /// All that was measured, the headers first.
    pub(crate) tables: Vec<Vec<Vec<String>>>,
    /// What the measures are that do not speak for themselves.
    pub(crate) legend: &'static str,
    pub(crate) parameters: Vec<(&'static str, String)>,
}

impl Section {
    /// A page of its own.
    pub(crate) fn page(&self) -> String {
        let content = html! {
            p.lead { (self.lead) }
            p.dim { (format!("{:.0}", Timestamp::now())) }
            (self.content(true))
        };
        page::page(self.title, &content)
    }

    /// All but title and lead.
    pub(crate) fn content(&self, shows_details: bool) -> Markup {
        html! {
            p.verdict { (self.verdict) }
            h3 { "In the original" }
            p { (self.original) }
            h3 { "Here" }
            div.figures { @for figure in &self.figures { (figure) } }
            @if self.comparison.len() > 1 {
                h3 { "Against the original's figures" }
                (page::table(&self.comparison))
                p.dim { "The original's figures were measured on its own machine, in its year." }
            }
            details open[shows_details] {
                summary { "All measurements" }
                @for text in &self.details { p { (text) } }
                @for table in &self.tables { (page::table(table)) }
                @if !self.legend.is_empty() { p.dim { (self.legend) } }
            }
            details open[shows_details] {
                summary { "Parameters" }
                (page::list(&self.parameters))
            }
        }
    }
}

impl Render for Figure {
    fn render(&self) -> Markup {
        let (class, tag) = self.side.class_and_tag();
        html! {
            figure class=(class) {
                figcaption { span.tag { (tag) } b { (self.title) } span { (self.note) } }
                (self.svg)
            }
        }
    }
}
