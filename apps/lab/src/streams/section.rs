//! The scene's section: durable rates of a naive writer and of streams, and how late they are.

use super::{naive::Naive, plan::Plan, run::Outcome, table, verdict};
use crate::{
    figures::{count, rate, times},
    plot::{self, Bar, Bars},
    section::{Figure, Headline, Section, Side, rows},
};

const LEAD: &str =
    "As many small messages to disk as the machine can take: sealed, durable streams.";

const ORIGINAL: &str = "An Erlang stream writer, 2013: 231,941 messages of 128 B a second accumulated, 200 MB/s \
    flushed. But the message that triggered a flush was lost, blocks were written with the newest message first, \
    and asynchronous blocks overtook each other. Nothing was framed or synced, the last buffer was never flushed, \
    and the rate it printed was that of accumulating, not the disk's. Who wants to be safe instead syncs each \
    message, which is slow.";

/// What the runs came to.
pub(super) fn section(outcomes: &[Outcome], naive: Option<&Naive>) -> Section {
    let texts = verdict::verdict(outcomes, naive);
    Section {
        title: "Streams",
        lead: LEAD,
        original: ORIGINAL,
        headline: headline(outcomes, naive).unwrap_or_default(),
        verdict: sentence(outcomes, naive)
            .or(texts.first().cloned())
            .unwrap_or_default(),
        figures: figures(outcomes, naive),
        comparison: comparison(outcomes, naive),
        details: texts,
        tables: vec![table::rows(outcomes, naive)],
        legend: "durable/s: until the last message was durable in its mode; ack: from a buffer's first message \
                 until that was durable",
        parameters: outcomes
            .first()
            .map_or_else(Vec::new, |it| parameters(&it.plan)),
    }
}

fn headline(outcomes: &[Outcome], naive: Option<&Naive>) -> Option<Headline> {
    let (best, naive) = (verdict::best_durable(outcomes, false)?, naive?);
    Some(Headline {
        failure: format!("{} messages/s, a sync for each", rate(naive.durable_per_s)),
        cure: format!("{} messages/s durable, by group commit", rate(best.rate())),
        ratio: times(best.rate() / naive.durable_per_s),
    })
}

fn sentence(outcomes: &[Outcome], naive: Option<&Naive>) -> Option<String> {
    let best = verdict::best_durable(outcomes, false)?;
    let naive = naive.map_or_else(String::new, |naive| {
        format!(
            ", where a sync for each message reaches {}",
            rate(naive.durable_per_s)
        )
    });
    let sealed = verdict::best_durable(outcomes, true).map_or_else(String::new, |sealed| {
        let share = sealed.rate() / best.rate();
        format!(
            "; sealed with {} it is {share:.2} of that",
            sealed.plan.seal
        )
    });
    let whole = if outcomes.iter().all(Outcome::is_sound) {
        " All were read back, once and in order."
    } else {
        ""
    };
    Some(format!(
        "{} messages a second are durable by group commit{naive}{sealed}.{whole}",
        rate(best.rate())
    ))
}

fn figures(outcomes: &[Outcome], naive: Option<&Naive>) -> Vec<Figure> {
    let rates = bars(outcomes, Outcome::rate, rate);
    let naive = naive.map(|naive| {
        let bars = Bars {
            bars: vec![Bar {
                name: "naive".to_owned(),
                parts: vec![naive.durable_per_s],
                note: rate(naive.durable_per_s),
            }],
            reach: rates.longest(),
            ..Bars::default()
        };
        figure(
            Side::Failure,
            "Messages a second, a sync for each",
            "A write and an fdatasync a message, on the same scale as the streams.",
            &bars,
        )
    });
    let of_streams = [
        figure(
            Side::Cure,
            "Messages a second, durable in their mode",
            "Sealed or not; none and interval are handed over only, batch is on the disk.",
            &rates,
        ),
        figure(
            Side::Neither,
            "Megabytes of messages a second",
            "Until the last one was durable in its mode.",
            &bars(outcomes, Outcome::megabytes, rate),
        ),
        figure(
            Side::Neither,
            "Microseconds until durable, 99th percentile",
            "Of each buffer's first message, while writers append as fast as they can: mostly queueing.",
            &bars(outcomes, |it| it.acknowledge_us().1, rate),
        ),
    ];
    naive.into_iter().chain(of_streams).collect()
}

fn figure(side: Side, title: &str, note: &str, bars: &Bars<'_>) -> Figure {
    Figure {
        side,
        title: title.to_owned(),
        note: note.to_owned(),
        svg: plot::bars(title, bars),
    }
}

fn bars(
    outcomes: &[Outcome],
    value: fn(&Outcome) -> f64,
    note: fn(f64) -> String,
) -> Bars<'static> {
    let bars = outcomes.iter().map(|outcome| Bar {
        name: name(&outcome.plan),
        parts: vec![value(outcome)],
        note: note(value(outcome)),
    });
    Bars {
        bars: bars.collect(),
        ..Bars::default()
    }
}

/// Short enough for a bar's margin.
fn name(plan: &Plan) -> String {
    let seal = if plan.seal.is_sealed() {
        format!(", {}/{}", plan.seal, plan.unit)
    } else {
        String::new()
    };
    format!("{}x{} {}{seal}", plan.writers, plan.size, plan.sync)
}

fn comparison(outcomes: &[Outcome], naive: Option<&Naive>) -> Vec<Vec<String>> {
    let row =
        |name: &str, original: &str, here: String| [name.to_owned(), original.to_owned(), here];
    let mut found = Vec::new();
    if let Some(best) = verdict::best_durable(outcomes, false) {
        found.extend([
            row("messages/s accepted", "231,941", rate(best.accepted_rate())),
            row("messages/s durable", "none was", rate(best.rate())),
            row("MB/s", "200, not synced", rate(best.megabytes())),
        ]);
    }
    if let Some(sealed) = verdict::best_durable(outcomes, true) {
        found.push(row(
            "messages/s sealed and durable",
            "none was",
            rate(sealed.rate()),
        ));
    }
    found.extend(naive.map(|it| row("messages/s, a sync for each", "-", rate(it.durable_per_s))));
    if !outcomes.is_empty() {
        let (accepted, read) = outcomes.iter().fold((0, 0), |(accepted, read), it| {
            (accepted + it.accepted, read + it.read)
        });
        let is_sound = outcomes.iter().all(Outcome::is_sound);
        let order = if is_sound {
            "as appended"
        } else {
            "NOT as appended"
        };
        found.extend([
            row(
                "messages lost",
                "one at each flush",
                count(accepted.saturating_sub(read)),
            ),
            row(
                "order on the disk",
                "newest first, blocks out of turn",
                order.to_owned(),
            ),
        ]);
    }
    rows(["", "the original, 2013", "here"], found)
}

fn parameters(plan: &Plan) -> Vec<(&'static str, String)> {
    vec![
        ("messages of each run", count(plan.messages)),
        ("bytes of a message", count(plan.size as u64)),
        ("writers", count(u64::from(plan.writers))),
        ("buffer", plan.buffer.to_string()),
    ]
}
