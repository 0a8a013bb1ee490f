//! `freeboard logs`: lines of a log server's stream, or of log files.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use clap::Args;
use freeboard_logd::{
    query::{Filter, Form, Grep, Note, Query, QueryError, QueryReport, SeverityRange, parse_time},
    settings::duration,
};
use jiff::{Zoned, tz::TimeZone};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::fstat,
    process::{Resource, getrlimit, setrlimit},
};

use crate::{
    console::say,
    interrupt::Interrupt,
    stream::{KeyArgs, Unchecked, open_storage},
    usage::Usage,
};

/// The last lines that are printed first when further ones are waited for.
const FOLLOWED_LINES: usize = 10;

/// Knobs of `freeboard logs`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogsArgs {
    /// A log server's stream, or its archive, such as s3://bucket/log; a log file, which is read with its rotated files;
    /// or a directory of log files
    #[arg(value_name = "DIR")]
    path: PathBuf,

    #[command(flatten)]
    key: KeyArgs,

    /// Lines received at this time or later, by this log's clock; of log files, lines with this time or a later one:
    /// 2026-11-23 10:00, 10:00, Nov 23 10:00:00, -1h, 1h ago, 2 days ago, yesterday, today, midnight, now, @1700000000
    #[arg(short = 'S', long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,

    /// Lines received at this time or before; see --late-by
    #[arg(
        short = 'U',
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "follow"
    )]
    until: Option<String>,

    /// Lines that this regular expression matches; without capital letters it matches capitals too
    #[arg(short, long, value_name = "PATTERN")]
    grep: Option<Grep>,

    /// This severity and more urgent ones: emerg, alert, crit, err, warning, notice, info, debug; or FROM..TO
    #[arg(short = 'p', long, value_name = "SEVERITY", default_value = "debug")]
    severity: SeverityRange,

    /// Lines that name this host; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Lines of this source, or of all whose name begins with it and a colon: tcp, tcp:10.0.0.7; may be repeated
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,

    /// Only the last lines: so many, or 10 with --follow
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,

    /// Print lines that come, until Ctrl-C; also of a log file, and of the files that take its name later
    #[arg(short, long)]
    follow: bool,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    /// Print lines as they came, with control characters
    #[arg(long, conflicts_with = "json")]
    raw: bool,

    /// Print and take times in UTC
    #[arg(long)]
    utc: bool,

    /// Stop reading at lines that came to this log so long after --until; a relay may deliver lines late
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    late_by: Duration,
}

impl LogsArgs {
    fn query(&self) -> Result<Query, Usage> {
        let zone = if self.utc {
            TimeZone::UTC
        } else {
            TimeZone::system()
        };
        let now = Zoned::now().with_time_zone(zone.clone());
        let time = |text: &Option<String>| {
            let time = text.as_deref().map(|text| parse_time(text, &now));
            time.transpose()
                .map_err(|error| Usage::new(error.to_string()))
        };
        let filter = Filter {
            since_ns: time(&self.since)?,
            until_ns: time(&self.until)?,
            severity: self.severity,
            hosts: self.host.clone(),
            sources: self.source.clone(),
            grep: self.grep.clone(),
        };
        // An address of an archive.
        let storage = match self.path.to_str().is_some_and(|path| path.contains("://")) {
            true => Some(open_storage(&self.path).map_err(Usage::new)?.0),
            false => None,
        };
        if self.follow && storage.is_some() {
            return Err(Usage::new("--follow: an archive cannot be followed"));
        }
        let follows_all = self.follow && self.since.is_none();
        Ok(Query {
            storage,
            key: self.key.key(&self.path)?,
            filter,
            lines: self.lines.or(follows_all.then_some(FOLLOWED_LINES)),
            follow: self.follow,
            late_by: self.late_by,
            form: match (self.json, self.raw) {
                (true, _) => Form::Json,
                (_, true) => Form::Raw,
                _ => Form::Text,
            },
            zone,
            ..Query::new(&self.path)
        })
    }
}

/// Whether the reader of a pipe or socket has gone.
fn is_unread(out: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(out, PollFlags::empty())];
    let now = Timespec::default();
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(gone)
}

/// Whether standard output and standard error are one terminal, pipe or file.
fn is_shared() -> bool {
    let identity = |fd: BorrowedFd<'_>| fstat(fd).map(|it| (it.st_dev, it.st_ino, it.st_rdev));
    let out = identity(io::stdout().as_fd());
    out.is_ok() && out == identity(io::stderr().as_fd())
}

/// Prints the lines.
pub(crate) fn logs(args: &LogsArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let query = args.query()?;
    // All files of a log are open at once. Where the limit stays, an error says so.
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    let _ = setrlimit(Resource::Nofile, files);
    // Without a listener Ctrl-C ends the process at once.
    let _listening = args.follow.then(|| interrupt.listen(|| {}));
    let is_stopped = || interrupt.has_come() || is_unread(&io::stdout());
    // Marks of damage in the output are seen there already.
    let is_shared = is_shared();
    let mut warn = |note: Note<'_>| match note {
        Note::Damage(_) if is_shared => {}
        Note::Damage(text) | Note::Remark(text) => say(text),
    };
    let done = query.run(&mut io::stdout().lock(), &mut warn, &is_stopped);
    let report = done.map_err(|error| match error {
        QueryError::NoLog(_) | QueryError::NothingInside(_) | QueryError::Open { .. } => {
            Unchecked(error.to_string()).into()
        }
        QueryError::Follow(_) => Usage::new(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    if report == QueryReport::default() && !args.follow {
        say("-- No entries --");
    }
    Ok(match report.damages {
        0 => interrupt.exit_code(),
        _ => ExitCode::FAILURE,
    })
}
