//! What the server writes to, opened.

use std::{
    fs::File,
    io::{BufWriter, Seek, Write},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result};
use freeboard::{
    board::Shown,
    stream::{ReaderOptions, StreamOptions, StreamWriter},
};
use tempfile::TempDir;

use crate::board;

/// What the server writes to, opened. Its clones are the same sink.
#[derive(Debug)]
pub(crate) enum Sink {
    File {
        file: File,
        /// Its length when it was opened.
        from: u64,
    },
    Stream {
        stream: StreamWriter,
        path: PathBuf,
        /// Removes the directory in the end, if nobody named one.
        room: Option<Arc<TempDir>>,
    },
}

impl Sink {
    /// A new stream in this directory, or in a temporary one.
    pub(crate) fn open_stream(path: Option<PathBuf>) -> Result<Self> {
        let (path, room) = match path {
            Some(path) => (path, None),
            None => {
                let room = TempDir::with_prefix("freeboard-flood-")
                    .context("cannot make a temporary directory")?;
                (room.path().to_owned(), Some(Arc::new(room)))
            }
        };
        let is_empty =
            std::fs::read_dir(&path).map_or(true, |mut entries| entries.next().is_none());
        anyhow::ensure!(is_empty, "{} is not empty", path.display());
        let stream = StreamOptions::new()
            .shards(1)
            .open(&path)
            .with_context(|| format!("cannot open the stream {}", path.display()))?;
        Ok(Self::Stream { stream, path, room })
    }

    /// The same sink once more.
    pub(crate) fn share(&self) -> Result<Self> {
        Ok(match self {
            Self::File { file, from } => Self::File {
                file: file.try_clone().context("cannot share the sink's handle")?,
                from: *from,
            },
            Self::Stream { stream, path, room } => Self::Stream {
                stream: stream.clone(),
                path: path.clone(),
                room: room.clone(),
            },
        })
    }

    /// Shows a stream on the board.
    pub(crate) fn show(&self) -> Option<Shown> {
        let Self::Stream { stream, .. } = self else {
            return None;
        };
        let seen = stream.clone();
        board::show("stream", "log", move |text| {
            seen.snapshot().render("log", text)
        })
    }

    /// A file of the written lines, and where they begin. A stream is closed first.
    pub(crate) fn read_back(self) -> Result<(File, u64)> {
        let (stream, path, _room) = match self {
            Self::File { file, from } => return Ok((file, from)),
            Self::Stream { stream, path, room } => (stream, path, room),
        };
        stream.close().context("the stream did not close")?;
        let mut lines =
            BufWriter::new(tempfile::tempfile().context("cannot make a temporary file")?);
        let mut reader = ReaderOptions::new().open(path)?;
        while let Some(record) = reader.next_ref()? {
            lines.write_all(record.payload)?;
            lines.write_all(b"\n")?;
        }
        let mut file = lines
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok((file, 0))
    }
}
