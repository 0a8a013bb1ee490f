//! The scene's command line, and the runs it asks for.

use clap::{Args, ValueEnum};

use super::plan::{Plan, Wait};
use crate::{outputs::OutputArgs, peers::PeerArgs};

const MESSAGES_MAX: u64 = 1_000_000_000_000;
const RING_MAX: u64 = 1 << 20;
const PRODUCERS_MAX: i64 = 64;
const IDLE_MAX: i64 = 64;
const PRIORITIES_MAX: i64 = 8;

/// What may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WaitChoice {
    /// Polls a few times, then sleeps until it is woken: costs least while it waits, most when it is woken
    Blocking,
    /// Spins, then yields, then sleeps until it is woken
    Sleeping,
    /// Spins, then yields its core again and again
    Yielding,
    /// Spins on, and takes its core for itself
    #[value(alias = "busy-spin")]
    Busyspin,
    /// One after the other
    All,
}

impl WaitChoice {
    /// The ways, in order.
    const fn waits(self) -> &'static [Wait] {
        match self {
            Self::Blocking => &[Wait::Blocking],
            Self::Sleeping => &[Wait::Sleeping],
            Self::Yielding => &[Wait::Yielding],
            Self::Busyspin => &[Wait::Busyspin],
            Self::All => &[
                Wait::Blocking,
                Wait::Sleeping,
                Wait::Yielding,
                Wait::Busyspin,
            ],
        }
    }
}

/// Parameters of `freeboard lab ring`.
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

    /// Rounds, in which the numbers of priorities take turns; the one with the median ratio of the last rate to the first is
    /// shown [default: 5, of several priorities; else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,

    /// Idle consumers beside it, which wait in the same way on their own threads
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=IDLE_MAX))]
    idle: u32,

    #[command(flatten)]
    pub(super) peers: PeerArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

impl RingArgs {
    fn priorities(&self) -> &[u32] {
        match (self.priorities.as_slice(), self.wait) {
            ([], WaitChoice::All) => &[1, 2],
            ([], _) => &[1],
            (given, _) => given,
        }
    }

    /// Rounds of each run.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(match self.priorities() {
            [_] => 1,
            _ => 5,
        })
    }

    /// The runs, in order.
    pub(super) fn plans(&self) -> Vec<Plan> {
        let priorities = self.priorities();
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
        check("--wait blocking", &["blocking, 1 priority"]);
        check(
            "--wait sleeping --priorities 1,8",
            &["sleeping, 1 priority", "sleeping, 8 priorities"],
        );
        check(
            "--priorities 3",
            &[
                "blocking, 3 priorities",
                "sleeping, 3 priorities",
                "yielding, 3 priorities",
                "busyspin, 3 priorities",
            ],
        );
        check(
            "",
            &[
                "blocking, 1 priority",
                "blocking, 2 priorities",
                "sleeping, 1 priority",
                "sleeping, 2 priorities",
                "yielding, 1 priority",
                "yielding, 2 priorities",
                "busyspin, 1 priority",
                "busyspin, 2 priorities",
            ],
        );
    }
}
