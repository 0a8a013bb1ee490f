//! The scene's command line, and the runs it asks for.

use clap::Args;

use super::{knobs::WaitChoice, plan::Plan};
use crate::outputs::OutputArgs;

const MESSAGES_MAX: u64 = 1_000_000_000_000;
const RING_MAX: u64 = 1 << 20;
const PRODUCERS_MAX: i64 = 64;
const IDLE_MAX: i64 = 64;
const PRIORITIES_MAX: i64 = 8;

/// Knobs of `freeboard lab ring`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RingArgs {
    /// Messages of each run, of all producers together
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..=MESSAGES_MAX))]
    messages: u64,

    /// Messages that each priority's ring holds; this bound is kept exactly, whatever the number:
    /// only its slots are rounded up to a power of two
    #[arg(long, value_name = "N", default_value_t = 1_024,
          value_parser = clap::value_parser!(u64).range(1..=RING_MAX))]
    ring: u64,

    /// Threads that send
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=PRODUCERS_MAX))]
    producers: u32,

    /// Priorities, 1 to 8, over which the messages are spread evenly; of a list, as 1,2, each is a
    /// run [default: 1; 1,2 with --wait all]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=PRIORITIES_MAX))]
    priorities: Vec<u32>,

    /// How the consumer waits
    #[arg(long, value_enum, default_value_t = WaitChoice::All)]
    wait: WaitChoice,

    /// Consumers beside it that get nothing, and wait in the same way on threads of their own
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=IDLE_MAX))]
    idle: u32,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

impl RingArgs {
    /// The runs that are asked for.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let priorities: &[u32] = match (self.priorities.as_slice(), self.wait) {
            ([], WaitChoice::All) => &[1, 2],
            ([], _) => &[1],
            (given, _) => given,
        };
        let waits = self.wait.waits().iter();
        waits
            .flat_map(|wait| priorities.iter().map(move |lanes| (*wait, *lanes)))
            .map(|(wait, priorities)| Plan {
                messages: self.messages,
                ring: self.ring as usize,
                producers: self.producers,
                priorities,
                wait,
                idle: self.idle,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RingArgs,
    }

    fn check(line: &str, titles: &[&str]) {
        let words = std::iter::once("x").chain(line.split_whitespace());
        let plans = Line::parse_from(words).args.plans();
        let planned: Vec<String> = plans.iter().map(Plan::title).collect();
        assert_eq!(planned, titles, "{line}");
    }

    #[test]
    fn each_way_runs_with_each_number_of_priorities() {
        check("--wait blocking", &["blocking 1"]);
        check(
            "--wait sleeping --priorities 1,8",
            &["sleeping 1", "sleeping 8"],
        );
        check(
            "--priorities 3",
            &["blocking 3", "sleeping 3", "yielding 3", "busyspin 3"],
        );
        check(
            "",
            &[
                "blocking 1",
                "blocking 2",
                "sleeping 1",
                "sleeping 2",
                "yielding 1",
                "yielding 2",
                "busyspin 1",
                "busyspin 2",
            ],
        );
    }
}
