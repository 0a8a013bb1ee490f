//! The same ring as the LMAX Disruptor: one producer, one consumer, no priorities.

use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::{Record, plan::Plan};
use crate::{interrupt::Interrupt, peers::Peers, scene::Run, section::Side};

/// It runs four rounds, of which the last counts; each is far below this.
const LIMIT: Duration = Duration::from_secs(60);

/// The line that the program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    count: u64,
    seconds: f64,
    qps: f64,
    cpu_s: f64,
}

/// The run's title, if the Disruptor has such a ring: its size is a power of two.
pub(super) fn title(plan: &Plan) -> Option<String> {
    let is_like = (plan.producers, plan.priorities, plan.idle) == (1, 1, 0);
    (is_like && plan.ring.is_power_of_two()).then(|| format!("LMAX {}", plan.wait.name()))
}

pub(super) fn run(plan: &Plan, peers: &Peers, interrupt: &Interrupt) -> Result<Run<Record>> {
    let disruptor = peers.disruptor(interrupt)?;
    let work = format!("ring_{}", plan.wait.name());
    let count = plan.messages.to_string();
    let ring = plan.ring.to_string();
    let arguments = [&work, "--count", &count, "--ring", &ring];
    let printed: Printed = disruptor.run(&arguments, LIMIT, interrupt)?;
    let title = format!("LMAX {}", plan.wait.name());
    Ok(Run {
        side: Side::Peer,
        parameters: format!(
            "LMAX Disruptor after three rounds to warm up: {}",
            plan.parameters()
        ),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: None,
        title,
        record: Record {
            wait: plan.wait,
            priorities: plan.priorities,
            ring: plan.ring,
            producers: plan.producers,
            idle: plan.idle,
            messages: printed.count,
            seconds: printed.seconds,
            qps: printed.qps,
            cpu_s: Some(printed.cpu_s),
        },
    })
}
