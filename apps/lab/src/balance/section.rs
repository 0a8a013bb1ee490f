//! The scene's section: queues, workers' time and elapsed times, of each run.

use freeboard::meter::WorkerState;

use super::{
    knobs::NativeKind, plan::Plan, record::Elapsed, run::Outcome, table, verdict, watch::Point,
};
use crate::{
    figures::{count, counted, hundredths, seconds, short},
    plot::{self, Axis, Bar, Bars, Series},
    section::{Figure, Headline, Section, Side, rows},
    table::unseen,
};

const LEAD: &str = "Long native calls against a fair scheduler, and workers asleep beside work.";

const ORIGINAL: &str = "Erlang, 2013: many processes, all born on one scheduler, computed MD5 in native code that \
    does not yield. The first of them was through after 2.62 s and the last after 126.17 s (R15B01; in R16B 2.69 \
    and 139.57 s): 50 times as long for the same work. After some runs schedulers collapsed: one stayed at 100 %, \
    the others at 18 to 20 %, asleep while there was work, until the node was restarted.";

/// What the runs came to.
pub(crate) fn section(outcomes: &[Outcome]) -> Section {
    let fair = find(outcomes, |plan| {
        plan.fault.is_none() && plan.native == NativeKind::Cpu
    });
    let shown = fair.or(outcomes.first());
    let texts = outcomes.iter().map(|it| {
        let opening = verdict::opening(&it.plan);
        std::iter::once(opening).chain(verdict::verdict(it))
    });
    Section {
        title: "Balance",
        lead: LEAD,
        original: ORIGINAL,
        headline: fair.and_then(headline).unwrap_or_default(),
        verdict: sentence(outcomes, shown),
        figures: figures(outcomes),
        comparison: comparison(outcomes, fair),
        details: texts.flatten().collect(),
        tables: outcomes
            .iter()
            .flat_map(|it| [table::measures(it), table::workers(it)])
            .collect(),
        legend: table::LEGEND,
        parameters: parameters(outcomes),
    }
}

fn find(outcomes: &[Outcome], is: impl Fn(&Plan) -> bool) -> Option<&Outcome> {
    outcomes.iter().find(|it| is(&it.plan))
}

/// How much later the last process was through than the first in the original, R16B.
const ORIGINAL_MAX_OVER_MIN: f64 = 139.57 / 2.69;

fn headline(fair: &Outcome) -> Option<Headline> {
    let max_over_min = Elapsed::of(&fair.elapsed)?.max_over_min();
    Some(Headline {
        failure: format!(
            "the last process {ORIGINAL_MAX_OVER_MIN:.0} x as late as the first (published, 2013)"
        ),
        cure: format!("the last process {max_over_min:.2} x as late"),
        // The one was not measured here.
        ratio: unseen(),
    })
}

fn sentence(outcomes: &[Outcome], shown: Option<&Outcome>) -> String {
    let Some(shown) = shown else {
        return String::new();
    };
    let is_fair = shown.plan.fault.is_none() && shown.plan.native == NativeKind::Cpu;
    let mut texts = match Elapsed::of(&shown.elapsed).filter(|_| is_fair) {
        None => verdict::verdict(shown).into_iter().take(1).collect(),
        Some(elapsed) => vec![format!(
            "The last of {} processes was through {:.2} times as late as the first; in the original it was {:.0} \
             times.",
            count(shown.elapsed.len() as u64),
            elapsed.max_over_min(),
            ORIGINAL_MAX_OVER_MIN
        )],
    };
    if let Some(broken) = find(outcomes, |plan| plan.fault.is_some()) {
        texts.push(collapses(broken));
    }
    texts.join(" ")
}

/// What lost wake-ups came to.
fn collapses(broken: &Outcome) -> String {
    let scheduler = &broken.scheduler;
    match scheduler.collapses {
        0 => "With wake-ups lost on purpose no collapse was seen.".to_owned(),
        collapses => format!(
            "With wake-ups lost on purpose a collapse was seen {}, within {:.1} ms at most{}.",
            counted(collapses, "time"),
            scheduler.collapse_detect_ns_max as f64 / 1e6,
            if broken.is_whole() {
                ", and all processes were through nevertheless"
            } else {
                ""
            }
        ),
    }
}

/// Of each kind all runs', so that what goes wrong stands beside what does not.
fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    let time = outcomes.iter().flat_map(|it| it.seen.points.last());
    let time = time.map(|it| it.at.as_secs_f64()).fold(0.0, f64::max);
    let (computing, blocking): (Vec<_>, Vec<_>) = outcomes
        .iter()
        .partition(|it| it.plan.native == NativeKind::Cpu);
    let fair = || computing.iter().filter(|it| it.plan.fault.is_none());
    let unfairness = fair().flat_map(|it| unfairness(it));
    let queues = computing.iter().map(|it| queues(it, outcomes, time));
    let utilisation = outcomes.iter().map(|it| utilisation(it, outcomes));
    let blocked = blocking.iter().map(|it| blocked(it));
    let elapsed = fair().map(|it| elapsed_times(it));
    let all = unfairness.chain(queues).chain(utilisation);
    all.chain(blocked).chain(elapsed).collect()
}

/// How much later the last process was through than the first, as published and as it is here.
fn unfairness(outcome: &Outcome) -> Vec<Figure> {
    let Some(elapsed) = Elapsed::of(&outcome.elapsed) else {
        return Vec::new();
    };
    let figure = |side, whose: &str, note: &str, ratios: &[(&str, f64)]| {
        let bars = ratios.iter().map(|(name, ratio)| Bar {
            name: (*name).to_owned(),
            parts: vec![*ratio],
            note: format!("{ratio:.2} x"),
            ..Bar::default()
        });
        let bars = Bars {
            bars: bars.collect(),
            reach: ORIGINAL_MAX_OVER_MIN,
            ..Bars::default()
        };
        Figure {
            side,
            title: format!("The last process over the first, {whose}"),
            note: note.to_owned(),
            svg: plot::bars("elapsed time of the last process over the first's", &bars),
        }
    };
    let published = [
        ("R15B01, 2013", 126.17 / 2.62),
        ("R16B, 2013", ORIGINAL_MAX_OVER_MIN),
        ("OTP 25.2, two cores", 17.0),
    ];
    vec![
        figure(
            Side::Published,
            "Erlang",
            "How many times as long the same work took, on other machines: R15B01 and R16B as published, OTP 25.2 \
             as measured for comparison.",
            &published,
        ),
        figure(
            fair_side(elapsed),
            "here",
            "On the same scale.",
            &[("Freeboard", elapsed.max_over_min())],
        ),
    ]
}

fn fair_side(elapsed: Elapsed) -> Side {
    if verdict::is_fair(elapsed) {
        Side::Cure
    } else {
        Side::Neither
    }
}

/// What a run shows of collapses beside the others: a sound one is a cure if another one collapsed.
fn side(outcome: &Outcome, outcomes: &[Outcome]) -> Side {
    let collapsed = |it: &Outcome| it.scheduler.collapses > 0;
    if collapsed(outcome) {
        Side::Failure
    } else if outcome.plan.native == NativeKind::Sleep {
        rescue_side(outcome)
    } else if outcome.plan.fault.is_none() && outcomes.iter().any(collapsed) {
        Side::Cure
    } else {
        Side::Neither
    }
}

/// Whether calls that block took less than workers that wait for them would.
fn rescue_side(outcome: &Outcome) -> Side {
    if outcome.scheduler.rescues > 0 && outcome.makespan < verdict::waited(outcome) {
        Side::Cure
    } else {
        Side::Neither
    }
}

/// What tells a run from the others.
fn kind(plan: &Plan) -> &'static str {
    match (plan.fault, plan.native) {
        (Some(_), _) => "wake-ups lost on purpose",
        (None, NativeKind::Cpu) => "calls that compute",
        (None, NativeKind::Sleep) => "calls that block",
    }
}

fn queues(outcome: &Outcome, outcomes: &[Outcome], time: f64) -> Figure {
    let points = &outcome.seen.points;
    let series = |name, length: &dyn Fn(&Point) -> Option<u64>| Series {
        name,
        points: points
            .iter()
            .filter_map(|point| Some((point.at.as_secs_f64(), length(point)? as f64)))
            .collect(),
    };
    let shared = series("shared".to_owned(), &|point| Some(point.shared));
    let of_worker = |worker: usize| {
        series(format!("worker {worker}"), &|point| {
            point.queues.get(worker).copied()
        })
    };
    let series: Vec<Series> = (0..outcome.plan.schedulers)
        .map(of_worker)
        .chain([shared])
        .collect();
    let x = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short).reaching(time)
    };
    let y = Axis::linear("processes queued", short).reaching(f64::from(outcome.plan.procs));
    let scheduler = &outcome.scheduler;
    let note = match scheduler.collapses {
        0 => "No worker was seen asleep while there was work.".to_owned(),
        collapses => format!(
            "{} a worker was seen asleep beside work; the monitor woke one {}: {:.1} ms of workers' time lost.",
            counted(collapses, "time"),
            counted(scheduler.forced_wakes, "time"),
            scheduler.wasted_core_ns as f64 / 1e6
        ),
    };
    Figure {
        side: side(outcome, outcomes),
        title: format!("Processes in queues: {}", kind(&outcome.plan)),
        note,
        svg: plot::lines("lengths of the queues over time", x, y, &series),
    }
}

fn utilisation(outcome: &Outcome, outcomes: &[Outcome]) -> Figure {
    let legend = WorkerState::ALL.map(WorkerState::name);
    let bars = outcome.workers.iter().map(|worker| Bar {
        name: format!("worker {}", worker.index),
        parts: WorkerState::ALL
            .map(|state| worker.times.of(state) as f64)
            .into(),
        note: format!("{:.1} %", worker.times.utilisation() * 100.0),
        ..Bar::default()
    });
    let bars = Bars {
        legend: &legend,
        bars: bars.collect(),
        reach: 0.0,
    };
    Figure {
        side: side(outcome, outcomes),
        title: format!("Where each worker's time went: {}", kind(&outcome.plan)),
        note: format!(
            "Percent of its time in use; {} in all.",
            seconds(outcome.makespan)
        ),
        svg: plot::bars("each worker's time by state", &bars),
    }
}

fn elapsed_times(outcome: &Outcome) -> Figure {
    let mut sorted = outcome.elapsed.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let points = sorted.iter().enumerate();
    let points = points.map(|(rank, time)| (rank as f64 + 1.0, *time));
    let series = Series {
        name: "seconds until it was through".to_owned(),
        points: points.collect(),
    };
    let y = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short)
    };
    let x = Axis::linear("processes, the quickest first", short);
    Figure {
        side: Elapsed::of(&outcome.elapsed).map_or(Side::Neither, fair_side),
        title: "When each process was through".to_owned(),
        note: "A flat line is a fair scheduler.".to_owned(),
        svg: plot::lines("elapsed time by rank", x, y, &[series]),
    }
}

/// Calls that block: what workers that wait would take, and what it took.
fn blocked(outcome: &Outcome) -> Figure {
    let bar = |name: &str, time: f64| Bar {
        name: name.to_owned(),
        parts: vec![time],
        note: hundredths(time),
        ..Bar::default()
    };
    let bars = Bars {
        bars: vec![
            bar("if workers waited", verdict::waited(outcome)),
            bar("as it was", outcome.makespan),
        ],
        ..Bars::default()
    };
    Figure {
        side: rescue_side(outcome),
        title: "Calls that block".to_owned(),
        note: format!(
            "{} calls of {} ms each; {} a worker's place went to a spare thread. The first bar is computed.",
            count(outcome.calls),
            outcome.plan.sleep.as_millis(),
            counted(outcome.scheduler.rescues, "time")
        ),
        svg: plot::bars("seconds until all were through", &bars),
    }
}

fn comparison(outcomes: &[Outcome], fair: Option<&Outcome>) -> Vec<Vec<String>> {
    let row =
        |name: &str, original: &str, here: String| [name.to_owned(), original.to_owned(), here];
    let mut found = Vec::new();
    if let Some((fair, elapsed)) = fair.and_then(|it| Some((it, Elapsed::of(&it.elapsed)?))) {
        let utilisation = fair.utilisation();
        let least = utilisation.iter().copied().fold(1.0, f64::min);
        found.extend([
            row(
                "first process through",
                "2.62 s; 2.69 s",
                hundredths(elapsed.min),
            ),
            row(
                "last process through",
                "126.17 s; 139.57 s",
                hundredths(elapsed.max),
            ),
            row(
                "max / min",
                "48; 52 (OTP 25.2, two cores: 17)",
                format!("{:.2}", elapsed.max_over_min()),
            ),
            row(
                "least busy worker",
                "18 to 20 %",
                format!("{:.1} %", least * 100.0),
            ),
            row(
                "makespan / ideal",
                "-",
                fair.makespan_over_ideal()
                    .map_or_else(unseen, |it| format!("{it:.3}")),
            ),
        ]);
    }
    if let Some(broken) = find(outcomes, |plan| plan.fault.is_some()) {
        let scheduler = &broken.scheduler;
        found.push(row(
            "a collapse, provoked, is seen within",
            "- (it lasted until a restart)",
            match scheduler.collapses {
                0 => "none was seen".to_owned(),
                _ => format!("{:.1} ms", scheduler.collapse_detect_ns_max as f64 / 1e6),
            },
        ));
    }
    if let Some(blocking) = find(outcomes, |plan| plan.native == NativeKind::Sleep) {
        found.push(row(
            "a blocked worker's place is given on after (p99)",
            "the call",
            blocking
                .rescue_delay_p99_ns()
                .map_or_else(unseen, |ns| format!("{:.2} ms", ns as f64 / 1e6)),
        ));
    }
    rows(["", "the original (R15B01; R16B)", "here"], found)
}

/// Of each run.
fn parameters(outcomes: &[Outcome]) -> Vec<(&'static str, String)> {
    let plans = outcomes.iter().map(|it| &it.plan);
    plans
        .map(|plan| (kind(plan), verdict::parameters(plan)))
        .collect()
}
