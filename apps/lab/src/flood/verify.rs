//! Afterwards: is every accepted line in the file, once, in its sender's order?

use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
};

use anyhow::{Context, Result};

use super::{
    line::parse_generated, log::Log, log_server::Account, outcome::Ending, plan::Plan,
    source::Source, tally::Tally,
};
use crate::figures::count;

const READ_BYTES: usize = 1 << 20;

/// What the check found.
#[derive(Debug)]
pub(crate) struct Verdict {
    finding: String,
    is_whole: bool,
}

impl Verdict {
    /// Whether nothing is missing, doubled or out of order.
    pub(crate) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The check in words.
    pub(crate) fn finding(&self) -> &str {
        &self.finding
    }

    /// Something else went wrong.
    pub(crate) fn fail(&mut self, text: String) {
        self.is_whole = false;
        self.finding = text;
    }
}

/// Checks the counts against each other, and the file against what was sent.
pub(crate) fn verify(
    plan: &Plan,
    file: Option<(File, u64)>,
    account: &Account,
    tally: &Tally,
    ending: &Ending,
) -> Verdict {
    let accepted = tally.accepted();
    let accounted = account.handled + tally.lost();
    let checked = if accounted == accepted {
        check_file(plan, file, account, tally, ending)
    } else {
        Err(anyhow::anyhow!(
            "{} lines were accepted, but {} handled and {} left behind",
            count(accepted),
            count(account.handled),
            count(tally.lost())
        ))
    };
    match checked {
        Ok(finding) => Verdict {
            finding,
            is_whole: true,
        },
        Err(error) => Verdict {
            finding: format!("NOT WHOLE: {error:#}"),
            is_whole: false,
        },
    }
}

fn check_file(
    plan: &Plan,
    file: Option<(File, u64)>,
    account: &Account,
    tally: &Tally,
    ending: &Ending,
) -> Result<String> {
    let has_failed = matches!(ending, Ending::Failed(_));
    let (file, from) = match file {
        Some((file, from)) if is_regular(&file) => (file, from),
        _ => {
            anyhow::ensure!(!has_failed, "there is no file to read back");
            return Ok(format!(
                "{} lines counted; there is no file to read back",
                count(account.handled)
            ));
        }
    };
    let mut senders = Senders {
        found: vec![0; plan.senders as usize],
        plan,
        account,
    };
    let lines = senders.read(file, from, has_failed)?;
    if lines != account.written {
        let (lines, written) = (count(lines), count(account.written));
        anyhow::bail!("{lines} lines are in the file, {written} were written");
    }
    let is_complete = account.written == tally.accepted();
    for (sender, found) in (0..).zip(&senders.found) {
        let accepted = tally.accepted_from(sender);
        if *found > accepted || (is_complete && *found < accepted) {
            anyhow::bail!("sender {sender}: {found} lines in the file, {accepted} accepted");
        }
    }
    Ok(if is_complete {
        format!(
            "read back: all {} accepted lines are in the file, once, in each sender's order",
            count(lines)
        )
    } else {
        format!(
            "read back: the {} lines written are each sender's first ones, in order; written + left \
             = accepted ({} + {} = {})",
            count(lines),
            count(account.written),
            count(tally.accepted() - account.written),
            count(tally.accepted())
        )
    })
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// How many lines of each sender were found so far.
struct Senders<'a> {
    found: Vec<u64>,
    plan: &'a Plan,
    account: &'a Account,
}

impl Senders<'_> {
    /// Reads the file from this byte on; the number of its lines.
    fn read(&mut self, mut file: File, from: u64, may_be_torn: bool) -> Result<u64> {
        file.seek(SeekFrom::Start(from))
            .context("cannot read the file back")?;
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let (mut line, mut lines) = (Vec::new(), 0);
        loop {
            line.clear();
            let bytes = reader
                .read_until(b'\n', &mut line)
                .context("cannot read the file back")?;
            if bytes == 0 {
                return Ok(lines);
            }
            if line.pop_if(|last| *last == b'\n').is_none() {
                anyhow::ensure!(may_be_torn, "the last line is torn");
                return Ok(lines);
            }
            self.check(lines, &line)
                .with_context(|| format!("line {}", lines + 1))?;
            lines += 1;
        }
    }

    fn check(&mut self, index: u64, text: &[u8]) -> Result<()> {
        match &self.plan.source {
            Source::Generated { .. } => self.check_generated(text),
            Source::Replayed(log) => self.check_replayed(index, text, log),
        }
    }

    fn check_generated(&mut self, text: &[u8]) -> Result<()> {
        let (sender, sequence) =
            parse_generated(text).context("is not what any sender formatted")?;
        let found = self
            .found
            .get_mut(sender as usize)
            .with_context(|| format!("there is no sender {sender}"))?;
        anyhow::ensure!(
            *found == u64::from(sequence),
            "sender {sender}: message {found} was expected, not {sequence}"
        );
        *found += 1;
        Ok(())
    }

    fn check_replayed(&mut self, index: u64, text: &[u8], log: &Log) -> Result<()> {
        let order = self.account.order.as_deref().unwrap_or_default();
        let sender = *order
            .get(index as usize)
            .context("is one more than was written")?;
        let found = &mut self.found[sender as usize];
        let number = *found * u64::from(self.plan.senders) + u64::from(sender);
        anyhow::ensure!(
            number < log.len() && log.line(number) == text,
            "is not line {} of the input, which sender {sender} sent",
            number + 1
        );
        *found += 1;
        Ok(())
    }
}
