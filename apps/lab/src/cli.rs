//! The command line.

use clap::{Parser, Subcommand};

use crate::flood::FloodArgs;

const EXAMPLES: &str = "\
Examples:
  freeboard                             the flood, four ways, compared (about 20 s)
  freeboard lab flood --help            its knobs
  freeboard lab flood --dam credit:512  one run, through a dam with a window of 512";

/// Freeboard's laboratory: overload failures, and the cure beside each.
///
/// Without a command it runs the flood scene four ways and compares them.
#[derive(Debug, Parser)]
#[command(name = "freeboard", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What it can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a scene of the laboratory
    #[command(subcommand)]
    Lab(Scene),
}

const FLOOD_EXAMPLES: &str = "\
Examples:
  freeboard lab flood
      direct with scan, direct with indexed, both dams; then a table that compares them
  freeboard lab flood --route direct --receive indexed --hold --sink raw
      one run: all is queued before the server begins, each line is a write(2) of its own
  freeboard lab flood --dam poll:10000:100ms --watch
      the original's dam, watched once a second
  freeboard lab flood --input /var/log/syslog --file copy.log --senders 4 --route direct
      replays a real log and keeps what the server wrote
  zcat old.log.gz | freeboard lab flood --input - --json - | jq .runs[].drain_rate_deep
      reads standard input, prints only JSON

Exit codes: 0 done; 1 the run failed, or a line is missing; 2 bad usage; 130 Ctrl-C.";

/// The scenes.
#[derive(Debug, Subcommand)]
pub(crate) enum Scene {
    /// A log server behind a flooded mailbox, and the dam that saves it
    ///
    /// Many senders tell lines to one log server, which writes each to a file and waits for the
    /// answer. If it waits by searching its mailbox (scan) it collapses behind a long queue; if the
    /// answer has a slot of its own (indexed), or a dam keeps the queue short, it does not.
    ///
    /// Without --route, --receive and --dam four runs are shown one after the other and compared:
    /// direct with scan, direct with indexed (both with --hold), a polling dam, a credit dam.
    #[command(after_help = FLOOD_EXAMPLES)]
    Flood(Box<FloodArgs>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
