//! The scene's section: durable rates of a naive writer and of streams, and how late they are.

use super::{disk::Disk, naive::Naive, plan::Plan, run::Outcome, table, verdict};
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

const LEGEND: &str = "durable/s: until the last message was durable in its mode; ack: from a buffer's first \
    message until that was durable";
const LEGEND_IN_MEMORY: &str = "synced/s: until the last message was synced as its mode has it; ack: from a \
    buffer's first message until that was synced";

/// What the runs came to.
pub(super) fn section(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Section {
    let texts = verdict::verdict(outcomes, naive, disk);
    Section {
        title: "Streams",
        lead: LEAD,
        original: ORIGINAL,
        headline: headline(outcomes, naive, disk).unwrap_or_default(),
        verdict: sentence(outcomes, naive, disk)
            .or(texts.first().cloned())
            .unwrap_or_default(),
        figures: figures(outcomes, naive, disk),
        comparison: comparison(outcomes, naive, disk),
        details: texts,
        tables: vec![table::rows(outcomes, naive, disk)],
        legend: if disk.is_in_memory() {
            LEGEND_IN_MEMORY
        } else {
            LEGEND
        },
        parameters: outcomes
            .first()
            .map_or_else(Vec::new, |it| parameters(&it.plan, disk)),
    }
}

fn headline(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Option<Headline> {
    let (best, naive) = (verdict::best_durable(outcomes, false)?, naive?);
    Some(Headline {
        failure: format!("{} messages/s, a sync for each", rate(naive.durable_per_s)),
        cure: format!(
            "{} messages/s {}, by group commit",
            rate(best.rate()),
            if disk.is_in_memory() {
                "synced (in memory)"
            } else {
                "durable"
            }
        ),
        ratio: times(best.rate() / naive.durable_per_s),
    })
}

fn sentence(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Option<String> {
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
    let warning = disk
        .warning()
        .map_or_else(String::new, |warning| warning + " ");
    Some(format!(
        "{warning}{} messages a second are {} by group commit{naive}{sealed}.{whole}",
        rate(best.rate()),
        disk.durable()
    ))
}

fn figures(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Vec<Figure> {
    let rates = bars(outcomes, Outcome::rate, rate);
    let durable = disk.durable();
    let [failure, cure] = verdict::best_durable(outcomes, false)
        .zip(naive)
        // Without a disk the naive writer does not wait for one.
        .filter(|_| !disk.is_in_memory())
        .map_or([Side::Neither; 2], |(best, naive)| {
            Side::pair(best.rate(), naive.durable_per_s)
        });
    let naive = naive.map(|naive| {
        let bars = Bars {
            bars: vec![Bar {
                name: "naive".to_owned(),
                parts: vec![naive.durable_per_s],
                note: rate(naive.durable_per_s),
                ..Bar::default()
            }],
            reach: rates.longest(),
            ..Bars::default()
        };
        figure(
            failure,
            "Messages a second, a sync for each",
            "A write and an fdatasync a message, on the same scale as the streams.",
            &bars,
        )
    });
    let of_streams = [
        figure(
            cure,
            &format!("Messages a second, {durable} in their mode"),
            if disk.is_in_memory() {
                "Sealed or not; none and interval are handed over only, batch is synced, to memory."
            } else {
                "Sealed or not; none and interval are handed over only, batch is on the disk."
            },
            &rates,
        ),
        figure(
            Side::Neither,
            "Megabytes of messages a second",
            &format!("Until the last one was {durable} in its mode."),
            &bars(outcomes, Outcome::megabytes, rate),
        ),
        figure(
            Side::Neither,
            &format!("Microseconds until {durable}, 99th percentile"),
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
        ..Bar::default()
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

fn comparison(outcomes: &[Outcome], naive: Option<&Naive>, disk: Disk) -> Vec<Vec<String>> {
    let durable = disk.durable();
    let row =
        |name: &str, original: &str, here: String| [name.to_owned(), original.to_owned(), here];
    let mut found = Vec::new();
    if let Some(best) = verdict::best_durable(outcomes, false) {
        found.extend([
            row("messages/s accepted", "231,941", rate(best.accepted_rate())),
            row(
                &format!("messages/s {durable}"),
                "none was",
                rate(best.rate()),
            ),
            row("MB/s", "200, not synced", rate(best.megabytes())),
        ]);
    }
    if let Some(sealed) = verdict::best_durable(outcomes, true) {
        found.push(row(
            &format!("messages/s sealed and {durable}"),
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

fn parameters(plan: &Plan, disk: Disk) -> Vec<(&'static str, String)> {
    vec![
        ("messages of each run", count(plan.messages)),
        ("bytes of a message", count(plan.size as u64)),
        ("writers", count(u64::from(plan.writers))),
        ("buffer", plan.buffer.to_string()),
        ("file system", disk.text()),
    ]
}
