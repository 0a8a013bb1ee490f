//! The scene's section: rates and processor time by way of waiting, beside the original's rates.

use super::{
    knobs::Wait,
    plan::Plan,
    run::Outcome,
    table,
    verdict::{self, of_original, of_two},
};
use crate::{
    figures::{count, counted, rate, times},
    plot::{self, Bar, Bars},
    processor,
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
        parameters: parameters(outcomes),
    }
}

/// Two runs beside idle consumers, of which one has them spin and the other one has them block.
struct Crowd<'a> {
    spinning: &'a Outcome,
    blocking: &'a Outcome,
}

impl<'a> Crowd<'a> {
    fn of(outcomes: &'a [Outcome]) -> Option<Self> {
        let find = |wait, is: &dyn Fn(&Plan) -> bool| {
            let mut found = outcomes.iter().filter(|it| it.plan.wait == wait);
            found.find(|it| it.is_sound() && is(&it.plan))
        };
        let spinning = find(Wait::Busyspin, &|plan| plan.idle > 0)?;
        let is_alike = |plan: &Plan| {
            (plan.idle, plan.priorities) == (spinning.plan.idle, spinning.plan.priorities)
        };
        let blocking = find(Wait::Blocking, &is_alike)?;
        Some(Self { spinning, blocking })
    }

    fn sides(&self) -> [Side; 2] {
        Side::pair(self.blocking.rate(), self.spinning.rate())
    }

    /// Consumers and producers, which spin or block alike.
    fn threads(&self) -> String {
        let plan = &self.spinning.plan;
        let cores = processor::cores() as u64;
        format!(
            "{} threads on {}",
            plan.idle + plan.producers + 1,
            counted(cores, "core")
        )
    }

    /// Each on a scale that is as long as the quicker one.
    fn figures(&self) -> [Figure; 2] {
        let [spins, blocks] = self.sides();
        let reach = self.spinning.rate().max(self.blocking.rate());
        let figure = |side, outcome: &Outcome, how: &str| {
            let rate = rate(outcome.rate());
            let title = format!("Messages a second, {how} beside {} idle", outcome.plan.idle);
            let bars = Bars {
                bars: vec![Bar {
                    name: outcome.plan.wait.name().to_owned(),
                    parts: vec![outcome.rate()],
                    note: rate,
                }],
                reach,
                ..Bars::default()
            };
            Figure {
                side,
                svg: plot::bars(&title, &bars),
                title,
                note: format!(
                    "{} that wait in this way, most of them for nothing.",
                    self.threads()
                ),
            }
        };
        [
            figure(spins, self.spinning, "spinning"),
            figure(blocks, self.blocking, "blocking"),
        ]
    }
}

/// Of what went wrong here; else of the first run that the original had, too.
fn headline(outcomes: &[Outcome]) -> Option<Headline> {
    if let Some(crowd) = Crowd::of(outcomes) {
        let Crowd { spinning, blocking } = &crowd;
        return Some(Headline {
            failure: format!(
                "{} messages/s, all of {} spin",
                rate(spinning.rate()),
                crowd.threads()
            ),
            cure: format!("{} messages/s, they block", rate(blocking.rate())),
            ratio: times(blocking.rate() / spinning.rate()),
        });
    }
    let mut both = outcomes
        .iter()
        .filter_map(|it| Some((it, of_original(&it.plan)?)));
    let (outcome, original) = both.next()?;
    let wait = outcome.plan.wait.name();
    Some(Headline {
        failure: format!("{} messages/s, {wait} (published, 2014)", rate(original)),
        cure: format!("{} messages/s, {wait}", rate(outcome.rate())),
        // The one is of another machine.
        ratio: unseen(),
    })
}

/// What a second priority costs, beside what it cost the original; and what spinning does.
fn sentence(outcomes: &[Outcome]) -> Option<String> {
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let one = outcomes.iter().find(|it| it.plan.priorities == 1)?;
    let two = of_two(&all, one)?;
    let original = of_original(&two.plan)? / of_original(&one.plan)?;
    let crowd = Crowd::of(outcomes).map_or_else(String::new, |crowd| {
        format!(
            " Where all of {} spin it is {} messages a second, where they block {}.",
            crowd.threads(),
            rate(crowd.spinning.rate()),
            rate(crowd.blocking.rate())
        )
    });
    Some(format!(
        "{} messages a second through one ring ({}), and {:.2} times that with a second priority; in the original \
         that left {original:.2}.{crowd}",
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
            Side::Published,
            "Messages a second, the original, 2014",
            "On its own machine and a JVM; the bars have a scale of their own.",
            original.collect(),
        ),
        figure(
            Side::Neither,
            "Messages a second, here",
            "By way of waiting and number of priorities.",
            ours.collect(),
        ),
        figure(
            Side::Neither,
            "Processor time of a message, here",
            "Of all threads together, while messages come as fast as they can.",
            cost.collect(),
        ),
    ];
    let crowd = Crowd::of(outcomes).map(|crowd| crowd.figures());
    let figures = figures.into_iter().flatten();
    crowd.into_iter().flatten().chain(figures).collect()
}

fn name(plan: &Plan) -> String {
    let plural = if plan.priorities == 1 { "y" } else { "ies" };
    let (wait, beside) = (plan.wait.name(), plan.beside());
    format!("{wait}, {} priorit{plural}{beside}", plan.priorities)
}

fn comparison(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let row = |it: &Outcome| {
        let original = of_original(&it.plan);
        [
            name(&it.plan),
            original.map_or_else(unseen, rate),
            rate(it.rate()),
        ]
    };
    rows(
        ["messages/s", "the original, 2014", "here"],
        // It had nobody beside it.
        outcomes
            .iter()
            .filter(|it| it.plan.idle == 0)
            .map(row)
            .collect(),
    )
}

/// Of each run.
fn parameters(outcomes: &[Outcome]) -> Vec<(&'static str, String)> {
    let plans = outcomes.iter().map(|it| &it.plan);
    plans
        .map(|plan| {
            let ring = count(plan.ring as u64);
            (
                "run",
                format!("{} through a ring of {ring}", verdict::opening(plan)),
            )
        })
        .collect()
}
