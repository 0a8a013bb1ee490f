//! A file behind a thread of its own, as Erlang's files without `raw`: each call sends a request and waits for its reply.

use std::{
    io,
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use super::file_sink::FileSink;

#[derive(Debug)]
enum Request {
    Write(Box<[u8]>),
    Flush,
}

/// The result of a request, and the state of the file after it.
#[derive(Debug)]
struct Reply {
    result: io::Result<()>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    lines_written: u64,
    flush_due_in: Option<Duration>,
}

/// The caller's end.
#[derive(Debug)]
pub(crate) struct FileProcess {
    /// `None` when it ends.
    requests: Option<mpsc::Sender<Request>>,
    replies: mpsc::Receiver<Reply>,
    state: State,
    thread: Option<JoinHandle<()>>,
}

impl FileProcess {
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(mut sink: FileSink) -> io::Result<Self> {
        let (requests, asked) = mpsc::channel();
        let (answer, replies) = mpsc::channel();
        let serve = move || {
            for request in asked {
                let result = match request {
                    Request::Write(line) => sink.write(&line),
                    Request::Flush => sink.flush(),
                };
                let state = State {
                    lines_written: sink.lines_written(),
                    flush_due_in: sink.flush_due_in(),
                };
                if answer.send(Reply { result, state }).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("flood-file".to_owned());
        Ok(Self {
            requests: Some(requests),
            replies,
            state: State::default(),
            thread: Some(thread.spawn(serve)?),
        })
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.call(Request::Write(line.into()))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.call(Request::Flush)
    }

    fn call(&mut self, request: Request) -> io::Result<()> {
        let ended = || io::Error::other("the file's thread has ended");
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).map_err(|_| ended())?;
        let reply = self.replies.recv().map_err(|_| ended())?;
        self.state = reply.state;
        reply.result
    }

    pub(crate) fn flush_due_in(&self) -> Option<Duration> {
        self.state.flush_due_in
    }

    pub(crate) fn lines_written(&self) -> u64 {
        self.state.lines_written
    }
}

impl Drop for FileProcess {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}
