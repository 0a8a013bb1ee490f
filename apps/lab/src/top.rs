//! `freeboard top`: the board in a terminal.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use freeboard_board::terminal::{Address, Feed, FeedError, HttpFeed, TerminalError, first_order};
use freeboard_board::{Query, ROWS_MAX, SortKey};

use crate::{console, interrupt::Interrupt, token, usage::Usage};

/// The time between the two frames that the rates of `--once` are made of.
const ONCE_SPAN: Duration = Duration::from_millis(500);

/// Knobs of `freeboard top`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArgs {
    /// The board: http://HOST:PORT, with /?token=TOKEN if it wants one
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:7700")]
    address: Address,

    /// Print one frame as text
    #[arg(long, conflicts_with = "json")]
    once: bool,

    /// Print one frame as JSON
    #[arg(long)]
    json: bool,

    /// Frames a second
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=10))]
    hz: u32,

    /// The system to begin with [default: the newest]
    #[arg(long, value_name = "NAME")]
    system: Option<String>,

    /// What actors are sorted by: name, type, state, depth, bound, high_water, in, out, accepted, handled,
    /// shed, restarts, queue_p50, queue_p99, handling_p99 or id
    #[arg(long, value_name = "COLUMN", default_value = "depth", value_parser = sort_key)]
    sort: SortKey,

    /// Which actors: words and comparisons, as `type:LogServer depth>10k`
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    /// The most actors in what --once and --json print
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ROWS_MAX)))]
    rows: u32,

    /// A file with the token, which is better kept out of the command line, and to which no other user may have
    /// access; or else the variable FREEBOARD_TOKEN is looked at
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

fn sort_key(text: &str) -> Result<SortKey, String> {
    SortKey::from_name(text).ok_or_else(|| {
        let names = SortKey::ALL.map(|(_, name)| name).join(", ");
        format!("the columns are {names}")
    })
}

/// Shows a board until the user quits, or prints one frame of it.
pub(crate) fn top(args: &TopArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let address = match token::find(args.token_file.as_deref())? {
        Some(token) => args.address.clone().or_token(&token).map_err(usage)?,
        None => args.address.clone(),
    };
    let query = Query {
        system: args.system.clone(),
        sort: args.sort,
        order: first_order(args.sort),
        filter: args.filter.clone(),
        limit: args.rows,
        ..Query::default()
    };
    let mut feed = HttpFeed::new(address);
    if args.json {
        let json = freeboard_board::terminal::json(&mut feed, &query)
            .map_err(|error| told(&feed, error))?;
        return print(&format!("{json}\n"));
    }
    if args.once {
        let text = freeboard_board::terminal::text(
            &mut feed,
            &query,
            freeboard_board::terminal::columns(),
            ONCE_SPAN,
        )
        .map_err(|error| told(&feed, error))?;
        return print(&text);
    }
    // A signal from outside must not end the process before the terminal is given back.
    let _listening = interrupt.listen(|| {});
    let every = Duration::from_secs(1) / args.hz;
    match freeboard_board::terminal::run(feed, query, every, || interrupt.has_come()) {
        Ok(()) => Ok(interrupt.exit_code()),
        Err(error @ TerminalError::NoTerminal) => Err(usage(format!(
            "{error}: --once prints a frame as text, --json as JSON"
        ))),
        Err(error) => Err(error.into()),
    }
}

fn usage(reason: impl ToString) -> anyhow::Error {
    Usage::new(reason.to_string()).into()
}

/// A question that the board does not answer is a mistake in asking.
fn told(feed: &HttpFeed, error: FeedError) -> anyhow::Error {
    let text = format!("{}: {error}", feed.origin());
    match error {
        FeedError::Refused { status: 401, .. } => usage(format!(
            "{}: this board needs its token, and this is none or another: --token-file, or $FREEBOARD_TOKEN",
            feed.origin()
        )),
        FeedError::Refused {
            status: 400 | 404, ..
        } => usage(text),
        _ => anyhow::Error::msg(text),
    }
}

fn print(text: &str) -> Result<ExitCode> {
    console::write_stdout(text).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}
