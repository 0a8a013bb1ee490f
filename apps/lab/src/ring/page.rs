//! The scene's page: verdict, table and a bar for each run.

use super::{run::Outcome, table, verdict};
use crate::{
    figures::rate,
    page::Page,
    plot::{self, Bar},
};

const LEAD: &str = "A bounded ring between producers and one consumer that waits in four ways.";

/// The whole page.
pub(crate) fn page(outcomes: &[Outcome]) -> String {
    let mut page = Page::new("The ring", LEAD);
    for text in verdict::verdict(outcomes) {
        page.paragraph(&text);
    }
    page.table(&table::rows(outcomes));
    page.heading("Messages a second, by way of waiting and number of priorities");
    let bars: Vec<Bar> = outcomes
        .iter()
        .map(|outcome| Bar {
            name: outcome.plan.title(),
            parts: vec![outcome.rate()],
            note: rate(outcome.rate()),
        })
        .collect();
    page.plot(&plot::bars("messages a second", &[], &bars));
    page.finish()
}
