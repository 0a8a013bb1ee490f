//! The scene's page: verdict, tables, and plots of queues, workers' time and elapsed times.

use freeboard::meter::WorkerState;

use super::{run::Outcome, table, verdict};
use crate::{
    figures::{count, seconds},
    page::Page,
    plot::{self, Axes, Bar, Series},
};

const LEAD: &str = "Long native calls against a fair scheduler.";

/// The whole page.
pub(crate) fn page(outcome: &Outcome) -> String {
    let mut page = Page::new("Balance", LEAD);
    page.note(&verdict::opening(&outcome.plan));
    for text in verdict::verdict(outcome) {
        page.paragraph(&text);
    }
    page.table(&table::measures(outcome));
    page.note(table::LEGEND);
    page.heading("Length of each worker's queue");
    page.plot(&queues(outcome));
    page.heading("Where each worker's time went");
    page.plot(&utilisation(outcome));
    page.table(&table::workers(outcome));
    page.heading("Elapsed time of each process, the shortest first");
    page.plot(&elapsed(outcome));
    page.finish()
}

fn queues(outcome: &Outcome) -> String {
    let series: Vec<Series> = (0..outcome.plan.schedulers)
        .map(|worker| Series {
            name: format!("worker {worker}"),
            points: outcome
                .seen
                .points
                .iter()
                .filter_map(|point| {
                    let length = point.queues.get(worker)?;
                    Some((point.at.as_secs_f64(), *length as f64))
                })
                .collect(),
        })
        .collect();
    let axes = Axes {
        x: seconds,
        y: |length| count(length as u64),
        y_unit: 1.0,
    };
    plot::lines("length of each worker's queue over time", axes, &series)
}

fn utilisation(outcome: &Outcome) -> String {
    let legend = WorkerState::ALL.map(WorkerState::name);
    let bars: Vec<Bar> = outcome
        .workers
        .iter()
        .map(|worker| Bar {
            name: format!("worker {}", worker.index),
            parts: WorkerState::ALL
                .map(|state| worker.times.of(state) as f64)
                .into(),
            note: format!("{:.1} % in use", worker.times.utilisation() * 100.0),
        })
        .collect();
    plot::bars("each worker's time by state", &legend, &bars)
}

fn elapsed(outcome: &Outcome) -> String {
    let mut sorted = outcome.elapsed.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let points = sorted
        .iter()
        .enumerate()
        .map(|(rank, time)| (rank as f64 + 1.0, *time))
        .collect();
    let axes = Axes {
        x: |rank| count(rank.round() as u64),
        y: seconds,
        y_unit: 0.001,
    };
    let series = Series {
        name: "elapsed".to_owned(),
        points,
    };
    plot::lines("elapsed time by rank", axes, &[series])
}
