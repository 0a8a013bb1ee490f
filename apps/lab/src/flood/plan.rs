//! One run of the flood, fully decided.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    knobs::{DamRule, Receive, RouteKind, SinkKind},
    sink::Sink,
    source::Source,
};
use crate::usage::Usage;

/// What one run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) senders: u32,
    pub(crate) source: Source,
    pub(crate) receive: Receive,
    pub(crate) sink: SinkKind,
    pub(crate) dam: Option<DamRule>,
    pub(crate) hold: bool,
    pub(crate) file: Option<PathBuf>,
    /// Keep the lines that the file has.
    pub(crate) appends: bool,
    /// Of the original's trials, which differ by their sink.
    pub(crate) is_trial: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) limit: Option<Duration>,
    pub(crate) watch_every: Duration,
    pub(crate) prints_watch: bool,
}

impl Plan {
    /// Lines of the whole flood.
    pub(crate) fn total(&self) -> u64 {
        self.source.total(self.senders)
    }

    /// Lines of each sender; of a replayed log, of the one that has most.
    pub(crate) fn messages(&self) -> u64 {
        self.source.count(0, self.senders)
    }

    /// Where the lines go first.
    pub(crate) const fn route(&self) -> RouteKind {
        match self.dam {
            None => RouteKind::Direct,
            Some(_) => RouteKind::Dam,
        }
    }

    /// The run in a few words, unique among those that are compared.
    pub(crate) fn title(&self) -> String {
        let receive = match self.receive {
            Receive::Indexed => "",
            Receive::Scan => " scan",
        };
        if self.is_trial {
            return format!("trial {}", self.sink.name());
        }
        match (self.dam, self.receive) {
            (None, Receive::Indexed) => "direct, indexed".to_owned(),
            (None, Receive::Scan) => "direct, scan".to_owned(),
            (Some(dam), _) => format!("dam {dam}{receive}"),
        }
    }

    /// Opens what the server writes to; `None` if it only counts.
    pub(crate) fn open_sink(&self) -> Result<Option<Sink>> {
        let opened = match (self.sink, &self.file) {
            (SinkKind::None, _) => return Ok(None),
            (SinkKind::Stream, path) => {
                return match Sink::open_stream(path.clone()) {
                    Ok(sink) => Ok(Some(sink)),
                    Err(error) => Err(Usage::new(format!("{error:#}")).into()),
                };
            }
            (SinkKind::Null, _) => OpenOptions::new()
                .write(true)
                .open("/dev/null")
                .context("cannot open /dev/null"),
            (_, Some(path)) => OpenOptions::new()
                .read(true)
                .append(self.appends)
                .write(true)
                .create(true)
                .truncate(!self.appends)
                .open(path)
                .with_context(|| format!("cannot open the sink {}", path.display())),
            (_, None) => {
                // It has no name: nothing is left of it, however this process ends.
                tempfile::tempfile().with_context(|| {
                    let folder = std::env::temp_dir();
                    format!("cannot make a temporary file in {}", folder.display())
                })
            }
        };
        match opened {
            Ok(mut file) => match end_of_lines(&mut file) {
                Ok(from) => Ok(Some(Sink::File { file, from })),
                Err(error) => Err(Usage::new(format!("cannot append: {error}")).into()),
            },
            Err(error) => Err(Usage::new(format!("{error:#}")).into()),
        }
    }
}

/// The length of the file, whose last line is ended if it was not.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let found = file.metadata()?;
    if !found.is_file() || found.len() == 0 {
        return Ok(0);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(found.len());
    }
    file.write_all(b"\n")?;
    Ok(found.len() + 1)
}
