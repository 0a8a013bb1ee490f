//! The scene's section: rates and processor time by way of waiting, beside the original's rates.

use super::{
    plan::Plan,
    run::Outcome,
    table,
    verdict::{self, of_original},
};
use crate::{
    figures::{count, rate, times},
    plot::{self, Bar, Bars},
    section::{Figure, Headline, Section, Side, rows},
    table::unseen,
};

const LEAD: &str = "A bounded ring between producers and one consumer that waits in four ways.";

const ORIGINAL: &str = "A Java actor framework, 2014, whose mailbox is a ring for each priority: through a ring of \
    1,024, one producer, 10 M messages, it took 468,863 messages a second blocking and 1,252,227 sleeping. A \
    second priority halved the first. Its fetcher then waited by spinning, with more such threads than cores: \
    idle, it used 60 % of a processor, and under load its threads kept each other from running.";

/// What the runs came to.
pub(crate) fn section(outcomes: &[Outcome]) -> Section {
    let texts = verdict::verdict(outcomes);
    Section {
        title: "The ring",
        lead: LEAD,
        original: ORIGINAL,
        headline: headline(outcomes).unwrap_or_default(),
        verdict: sentence(outcomes)
            .or(texts.first().cloned())
            .unwrap_or_default(),
        figures: figures(outcomes),
        comparison: comparison(outcomes),
        details: texts,
        tables: vec![table::rows(outcomes)],
        legend: "",
        parameters: outcomes
            .first()
            .map_or_else(Vec::new, |it| parameters(&it.plan)),
    }
}

/// Of the first run that the original had, too.
fn headline(outcomes: &[Outcome]) -> Option<Headline> {
    let mut both = outcomes
        .iter()
        .filter_map(|it| Some((it, of_original(&it.plan)?)));
    let (outcome, original) = both.next()?;
    let wait = outcome.plan.wait.name();
    Some(Headline {
        failure: format!("{} messages/s, {wait} (2014)", rate(original)),
        cure: format!("{} messages/s, {wait}", rate(outcome.rate())),
        ratio: times(outcome.rate() / original),
    })
}

/// What a second priority costs, beside what it cost the original.
fn sentence(outcomes: &[Outcome]) -> Option<String> {
    let one = outcomes.iter().find(|it| it.plan.priorities == 1)?;
    let mut same = outcomes.iter().filter(|it| it.plan.wait == one.plan.wait);
    let two = same.find(|it| it.plan.priorities == 2)?;
    let original = of_original(&two.plan)? / of_original(&one.plan)?;
    Some(format!(
        "{} messages a second through one ring ({}), and {:.2} times that with a second priority; in the original \
         that left {original:.2}.",
        rate(one.rate()),
        one.plan.wait.name(),
        two.rate() / one.rate()
    ))
}

fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    let figure = |side, title: &str, note: &str, bars: Vec<Bar>| {
        let bars = Bars {
            bars,
            ..Bars::default()
        };
        (!bars.bars.is_empty()).then(|| Figure {
            side,
            title: title.to_owned(),
            note: note.to_owned(),
            svg: plot::bars(title, &bars),
        })
    };
    let bar = |plan: &Plan, value: f64, note: String| Bar {
        name: name(plan),
        parts: vec![value],
        note,
    };
    let original = outcomes.iter().filter_map(|it| {
        let original = of_original(&it.plan)?;
        Some(bar(&it.plan, original, rate(original)))
    });
    let ours = outcomes
        .iter()
        .map(|it| bar(&it.plan, it.rate(), rate(it.rate())));
    let cost = outcomes.iter().filter_map(|it| {
        let cost = it.processor_seconds? * 1e9 / it.received.max(1) as f64;
        Some(bar(&it.plan, cost, format!("{} ns", rate(cost))))
    });
    let figures = [
        figure(
            Side::Failure,
            "Messages a second, the original, 2014",
            "On its own machine and a JVM; the bars have a scale of their own.",
            original.collect(),
        ),
        figure(
            Side::Cure,
            "Messages a second, here",
            "By way of waiting and number of priorities.",
            ours.collect(),
        ),
        figure(
            Side::Neither,
            "Processor time of a message, here",
            "Of producer and consumer together, while messages come as fast as they can.",
            cost.collect(),
        ),
    ];
    figures.into_iter().flatten().collect()
}

fn name(plan: &Plan) -> String {
    let plural = if plan.priorities == 1 { "y" } else { "ies" };
    format!("{}, {} priorit{plural}", plan.wait.name(), plan.priorities)
}

fn comparison(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let row = |it: &Outcome| {
        let original = of_original(&it.plan);
        [
            name(&it.plan),
            original.map_or_else(unseen, rate),
            rate(it.rate()),
            original.map_or_else(unseen, |original| times(it.rate() / original)),
        ]
    };
    rows(
        ["messages/s", "the original, 2014", "here", ""],
        outcomes.iter().map(row).collect(),
    )
}

fn parameters(plan: &Plan) -> Vec<(&'static str, String)> {
    vec![
        ("messages of each run", count(plan.messages)),
        ("ring", count(plan.ring as u64)),
        ("producers", count(u64::from(plan.producers))),
    ]
}
