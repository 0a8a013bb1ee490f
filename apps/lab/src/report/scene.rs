//! The scenes of the report, as command lines that a reader can repeat.

use anyhow::Result;
use clap::{Args, Parser, ValueEnum};

use crate::{
    balance::BalanceArgs, console::Console, eager::EagerArgs, fetch::FetchArgs, findings::Findings,
    flood::FloodArgs, goodput::GoodputArgs, interrupt::Interrupt, peers::Peers, ring::RingArgs,
    scene, scene::Calls, streams::StreamsArgs,
};

/// The scenes, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scene {
    /// Answers in time under too much load
    Goodput,
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
    Full,
    Quick,
}

/// Calls a generic function with the parameters of a scene.
macro_rules! with {
    ($scene:expr, $function:ident ( $($argument:expr),* )) => {
        match $scene {
            Scene::Goodput => $function::<GoodputArgs>($($argument),*),
            Scene::Flood => $function::<FloodArgs>($($argument),*),
            Scene::Balance => $function::<BalanceArgs>($($argument),*),
            Scene::Ring => $function::<RingArgs>($($argument),*),
            Scene::Streams => $function::<StreamsArgs>($($argument),*),
            Scene::Eager => $function::<EagerArgs>($($argument),*),
            Scene::Fetch => $function::<FetchArgs>($($argument),*),
        }
    };
}

impl Scene {
    pub(super) const ALL: [Self; 7] = [
        Self::Goodput,
        Self::Flood,
        Self::Balance,
        Self::Ring,
        Self::Streams,
        Self::Eager,
        Self::Fetch,
    ];

    /// As on the command line.
    pub(super) fn name(self) -> &'static str {
        with!(self, name())
    }

    /// The scene in a line.
    pub(super) fn lead(self) -> &'static str {
        self.calls().about
    }

    /// About how long it takes on two cores.
    pub(super) fn about_seconds(self) -> u64 {
        self.calls().seconds
    }

    fn calls(self) -> Calls {
        with!(self, calls())
    }

    /// The parameters of each call of the scene.
    pub(super) fn parameters(self, size: Size) -> &'static [&'static str] {
        let calls = self.calls();
        match size {
            Size::Full => calls.full,
            Size::Quick => calls.quick,
        }
    }

    /// The commands that repeat its calls.
    pub(super) fn commands(self, size: Size) -> impl Iterator<Item = String> {
        let calls = self.parameters(size).iter();
        calls.map(move |parameters| {
            format!("freeboard lab {} {parameters}", self.name())
                .trim_end()
                .to_owned()
        })
    }

    /// Runs it.
    pub(super) fn run(
        self,
        size: Size,
        console: &Console,
        peers: &Peers,
        interrupt: &Interrupt,
    ) -> Result<Findings> {
        with!(self, play(self.parameters(size), console, peers, interrupt))
    }
}

fn name<S: scene::Scene>() -> &'static str {
    S::ABOUT.name
}

fn calls<S: scene::Scene>() -> Calls {
    S::REPORT
}

fn play<S: scene::Scene + Args>(
    parameters: &[&str],
    console: &Console,
    peers: &Peers,
    interrupt: &Interrupt,
) -> Result<Findings> {
    let parse = |parameters: &&str| Line::<S>::try_parse_from(parameters.split_whitespace());
    let lines: Result<Vec<Line<S>>, clap::Error> = parameters.iter().map(parse).collect();
    let calls: Vec<S> = lines?.into_iter().map(|line| line.args).collect();
    scene::play(&calls, console, peers, interrupt)
}

/// A command line of nothing but a scene's parameters.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line<A: Args> {
    #[command(flatten)]
    args: A,
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
