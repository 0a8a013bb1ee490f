//! The scene's section: latency, processor time and polls by policy.

use super::{
    answer::{self, Answer},
    plan::{Plan, Workload},
    run::Outcome,
    table, verdict,
};
use crate::{
    figures::{count, rate, times},
    plot::{self, Bar, Bars},
    section::{Figure, Headline, Section, Side, rows},
    table::unseen,
};

const LEAD: &str = "When does a busy scheduler look at the network? A server by three policies.";

const ORIGINAL: &str = "Erlang/OTP 17.4: schedulers with work looked at the network rarely, and (lazy) not before \
    all that the last poll had found was done; with eager check I/O they poll at once. Under ab -c 60 -n 100000 \
    eager found something in 13.6 % of its attempts and lazy in 6.5 %, for 1.11 times the polls; time and requests \
    a second were within 0.5 %. The author asked whether eager only helps with much computing and little I/O, \
    where it keeps I/O from starving.";

/// What the runs came to.
pub(super) fn section(outcomes: &[Outcome]) -> Section {
    let texts = verdict::verdict(outcomes);
    let answer = answer::answer(outcomes);
    Section {
        title: "Eager",
        lead: LEAD,
        original: ORIGINAL,
        headline: headline(outcomes).unwrap_or_default(),
        verdict: match answer {
            Some(Answer { help, .. }) => help,
            None => texts.first().cloned().unwrap_or_default(),
        },
        figures: figures(outcomes),
        comparison: comparison(outcomes),
        details: texts,
        tables: vec![table::rows(outcomes)],
        legend: "drain is the original's lazy; readiness: from when a socket could be read until its handler ran; \
                 gap: between two polls",
        parameters: parameters(outcomes),
    }
}

/// Of the heaviest computing in the sweep, where the original's question is.
fn headline(outcomes: &[Outcome]) -> Option<Headline> {
    let sweep = || outcomes.iter().filter(|it| is_sweep(&it.plan));
    let heaviest = sweep().map(|it| it.plan.cpu_us).max()?;
    let find = |policy: &str| {
        let mut found = sweep().filter(|it| it.plan.cpu_us == heaviest);
        found.find(|it| it.plan.policy.name() == policy)
    };
    let (drain, eager) = (find("drain")?, find("eager")?);
    let p99 = |it: &Outcome| rate(it.asked.p99_us);
    let drain_text = format!(
        "p99 {} us, drain, {} us of computing",
        p99(drain),
        count(heaviest)
    );
    let cure = format!("p99 {} us, eager", p99(eager));
    let (failure, ratio) = if !answer::is_decided(eager) {
        (format!("undecided: {drain_text}"), unseen())
    } else if answer::is_quicker(eager, drain) {
        (drain_text, times(drain.asked.p99_us / eager.asked.p99_us))
    } else if answer::is_quicker(drain, eager) {
        (format!("none: {drain_text}"), "eager is slower".to_owned())
    } else {
        (format!("neither: {drain_text}"), "no difference".to_owned())
    };
    Some(Headline {
        failure,
        cure,
        ratio,
    })
}

const fn is_sweep(plan: &Plan) -> bool {
    matches!(plan.workload, Workload::Sweep { .. })
}

fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    let (sweep, workloads): (Vec<&Outcome>, Vec<&Outcome>) =
        outcomes.iter().partition(|it| is_sweep(&it.plan));
    let mut figures = Vec::new();
    if !sweep.is_empty() {
        figures.extend([
            figure(
                "Latency beside actors that only compute",
                "99th percentile in microseconds, by computing for each request and policy.",
                &sweep,
                |it| it.asked.p99_us,
            ),
            figure(
                "From readiness to run",
                "99th percentile in microseconds: how long a busy scheduler leaves a socket alone.",
                &sweep,
                |it| it.poller.readiness_to_run.p99 as f64 / 1e3,
            ),
            figure(
                "Processor time of a request",
                "In microseconds, without the actors that only compute.",
                &sweep,
                |it| it.cpu_us().unwrap_or(0.0),
            ),
            figure(
                "Looks a second",
                "At the network.",
                &sweep,
                Outcome::poll_rate,
            ),
        ]);
    }
    if !workloads.is_empty() {
        figures.extend([
            figure(
                "Requests a second",
                "With nothing beside them.",
                &workloads,
                Outcome::rate,
            ),
            figure(
                "Attempts to look that found something",
                "In percent, as the original counted them.",
                &workloads,
                won_percent,
            ),
        ]);
    }
    figures
}

/// None of the policies goes wrong by itself: they are compared.
fn figure(title: &str, note: &str, outcomes: &[&Outcome], value: fn(&Outcome) -> f64) -> Figure {
    let bars = outcomes.iter().map(|outcome| Bar {
        name: name(&outcome.plan),
        parts: vec![value(outcome)],
        note: rate(value(outcome)),
        ..Bar::default()
    });
    let bars = Bars {
        bars: bars.collect(),
        ..Bars::default()
    };
    Figure {
        side: Side::Neither,
        title: title.to_owned(),
        note: note.to_owned(),
        svg: plot::bars(title, &bars),
    }
}

/// Short enough for a bar's margin.
fn name(plan: &Plan) -> String {
    let policy = plan.policy.name();
    match plan.workload {
        Workload::Sweep { .. } => format!("{} us, {policy}", count(plan.cpu_us)),
        Workload::Short => format!("short, {policy}"),
        Workload::Kept => format!("kept, {policy}"),
        Workload::Proxy(_) => format!("proxy, {policy}"),
    }
}

fn won_percent(outcome: &Outcome) -> f64 {
    let polls = outcome.poller.polls();
    100.0 * polls.won() as f64 / polls.attempts.max(1) as f64
}

fn comparison(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let find = |is_workload: fn(&Workload) -> bool, policy: &str| {
        let mut found = outcomes.iter().filter(|it| is_workload(&it.plan.workload));
        found.find(|it| it.plan.policy.name() == policy)
    };
    let won =
        |it: Option<&Outcome>| it.map_or_else(unseen, |it| format!("{:.1} %", won_percent(it)));
    let mut found = Vec::new();
    for (workload, what, original) in [
        (
            is_short as fn(&Workload) -> bool,
            "short connections",
            ["13.6 %", "6.5 %", "1.11"],
        ),
        (
            is_proxy,
            "a proxy before a database",
            ["21 %", "20.5 %", "1.04"],
        ),
    ] {
        let (eager, drain) = (find(workload, "eager"), find(workload, "drain"));
        if eager.is_none() && drain.is_none() {
            continue;
        }
        let polls = |it: &Outcome| (it.poller.polls().nonwait + it.poller.polls().wait) as f64;
        let ratio = eager
            .zip(drain)
            .map(|(eager, drain)| polls(eager) / polls(drain).max(1.0));
        let [eager_won, lazy_won, polls] = original.map(str::to_owned);
        found.extend([
            [
                format!("{what}: attempts that found something"),
                eager_won,
                lazy_won,
                won(eager),
                won(drain),
            ],
            [
                format!("{what}: polls, over those of lazy"),
                polls,
                "1".to_owned(),
                ratio.map_or_else(unseen, |ratio| format!("{ratio:.2}")),
                "1".to_owned(),
            ],
        ]);
    }
    let header = [
        "",
        "2014, eager",
        "2014, lazy",
        "here, eager",
        "here, drain",
    ];
    rows(header, found)
}

const fn is_short(workload: &Workload) -> bool {
    matches!(workload, Workload::Short)
}

const fn is_proxy(workload: &Workload) -> bool {
    matches!(workload, Workload::Proxy(_))
}

fn parameters(outcomes: &[Outcome]) -> Vec<(&'static str, String)> {
    let Some(first) = outcomes.first() else {
        return Vec::new();
    };
    let mut parameters = vec![("clients at once", count(u64::from(first.plan.clients)))];
    if let Some(workload) = outcomes.iter().find(|it| !is_sweep(&it.plan)) {
        parameters.push(("requests of a run", count(workload.plan.requests)));
    }
    if let Some(sweep) = outcomes.iter().find(|it| is_sweep(&it.plan)) {
        parameters.push((
            "rounds of the sweep",
            format!(
                "{}; the one with the median p99 is shown",
                sweep.plan.rounds
            ),
        ));
    }
    parameters
}
