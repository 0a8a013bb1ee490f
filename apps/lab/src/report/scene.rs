//! The scenes of the report, as command lines that a reader can repeat.

use anyhow::Result;
use clap::{Args, Parser, ValueEnum};

use crate::{
    balance::BalanceArgs, console::Console, eager::EagerArgs, fetch::FetchArgs, findings::Findings,
    flood::FloodArgs, interrupt::Interrupt, ring::RingArgs, scene, streams::StreamsArgs,
};

/// The scenes, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scene {
    /// A log server behind a flooded mailbox
    Flood,
    /// Long native calls against a fair scheduler
    Balance,
    /// Four ways of waiting for a ring
    Ring,
    /// Small messages to disk
    Streams,
    /// When a busy scheduler polls the network
    Eager,
    /// A push-notification fetcher
    Fetch,
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// So that all scenes show what they are for, and end within three minutes on two cores.
    Full,
    /// So that all scenes end within seconds.
    Quick,
}

impl Scene {
    pub(super) const ALL: [Self; 6] = [
        Self::Flood,
        Self::Balance,
        Self::Ring,
        Self::Streams,
        Self::Eager,
        Self::Fetch,
    ];

    /// As on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Flood => "flood",
            Self::Balance => "balance",
            Self::Ring => "ring",
            Self::Streams => "streams",
            Self::Eager => "eager",
            Self::Fetch => "fetch",
        }
    }

    /// What it is, in a line.
    pub(super) const fn lead(self) -> &'static str {
        match self {
            Self::Flood => "a log server behind a flooded mailbox, and the dam that saves it",
            Self::Balance => "long native calls, lost wake-ups and blocked workers",
            Self::Ring => "four ways of waiting for a bounded ring",
            Self::Streams => "many small messages to disk: durable, sealed, in order",
            Self::Eager => "when a busy scheduler polls the network",
            Self::Fetch => "a push-notification fetcher, in original mode and in Freeboard mode",
        }
    }

    /// How long it takes, about, on two cores: what the progress bar is divided by.
    pub(super) const fn about_seconds(self) -> u64 {
        match self {
            Self::Flood => 15,
            Self::Balance => 20,
            Self::Ring => 8,
            Self::Streams => 15,
            Self::Eager => 40,
            Self::Fetch => 45,
        }
    }

    /// The knobs of each call of the scene.
    pub(super) const fn knobs(self, size: Size) -> &'static [&'static str] {
        match (self, size) {
            (Self::Flood, Size::Full) => &[""],
            (Self::Flood, Size::Quick) => &["--senders 10 --messages 200"],
            (Self::Balance, Size::Full) => &[
                "--yield never --procs 400 --repeats 20",
                "--procs 400 --repeats 20",
                "--fault drop-wakes --procs 400 --repeats 20",
                "--native sleep",
            ],
            (Self::Balance, Size::Quick) => &[
                "--yield never --procs 20 --repeats 5 --bytes 65536",
                "--procs 20 --repeats 5 --bytes 65536",
                "--fault drop-wakes --procs 20 --repeats 5 --bytes 65536",
                "--native sleep --procs 10 --repeats 2",
            ],
            (Self::Ring, Size::Full) => &[
                "--messages 4000000",
                "--messages 50000 --priorities 1 --idle 8 --wait busyspin",
                "--messages 50000 --priorities 1 --idle 8 --wait blocking",
            ],
            (Self::Ring, Size::Quick) => &[
                "--messages 1000",
                "--messages 1000 --priorities 1 --idle 8 --wait busyspin",
                "--messages 1000 --priorities 1 --idle 8 --wait blocking",
            ],
            (Self::Streams, Size::Full) => &["--messages 1000000"],
            (Self::Streams, Size::Quick) => &["--messages 500"],
            (Self::Eager, Size::Full) => &["--scene http,sweep --cpu-us 0,100,1000"],
            (Self::Eager, Size::Quick) => {
                &["--scene http,sweep --cpu-us 0 --requests 200 --time 0.1 --rounds 1 --clients 4"]
            }
            (Self::Fetch, Size::Full) => &["--step 1,3,5,9,end --time 2"],
            (Self::Fetch, Size::Quick) => &["--step 1 --scale 0.02 --time 0.3"],
        }
    }

    /// Whoever wants one of them again.
    pub(super) fn commands(self, size: Size) -> impl Iterator<Item = String> {
        let calls = self.knobs(size).iter();
        calls.map(move |knobs| {
            format!("freeboard lab {} {knobs}", self.name())
                .trim_end()
                .to_owned()
        })
    }

    /// Runs it.
    pub(super) fn run(
        self,
        size: Size,
        console: &Console,
        interrupt: &Interrupt,
    ) -> Result<Findings> {
        let knobs = self.knobs(size);
        match self {
            Self::Flood => scene::play(&all::<FloodArgs>(knobs)?, console, interrupt),
            Self::Balance => scene::play(&all::<BalanceArgs>(knobs)?, console, interrupt),
            Self::Ring => scene::play(&all::<RingArgs>(knobs)?, console, interrupt),
            Self::Streams => scene::play(&all::<StreamsArgs>(knobs)?, console, interrupt),
            Self::Eager => scene::play(&all::<EagerArgs>(knobs)?, console, interrupt),
            Self::Fetch => scene::play(&all::<FetchArgs>(knobs)?, console, interrupt),
        }
    }
}

/// A command line of nothing but a scene's knobs.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line<A: Args> {
    #[command(flatten)]
    args: A,
}

fn all<A: Args>(knobs: &[&str]) -> Result<Vec<A>> {
    let parse = |knobs: &&str| {
        let line = Line::try_parse_from(knobs.split_whitespace())?;
        Ok(line.args)
    };
    knobs.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_has_a_command_line_of_its_own_that_is_understood() {
        use crate::cli::Cli;

        for scene in Scene::ALL {
            assert_eq!(Scene::from_str(scene.name(), false), Ok(scene));
            for size in [Size::Full, Size::Quick] {
                for command in scene.commands(size) {
                    let parsed = Cli::try_parse_from(command.split_whitespace());
                    assert!(parsed.is_ok(), "{command}: {parsed:?}");
                }
            }
        }
    }
}
