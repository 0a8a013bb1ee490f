//! A server with sinks that the test controls.

use std::{
    collections::VecDeque,
    io::Write as _,
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use freeboard::{
    System,
    flow::Backoff,
    net::poller::{Policy, Poller},
    stream::{ReaderOptions, StreamOptions},
};
use freeboard_logd::{
    Batch, Config, Framing, InputConfig, Intake, LogRecord, Marks, Server, Sink, SinkConfig,
    SinkError, StopReport, StreamSinkConfig, TcpConfig,
};

pub(crate) use freeboard_test_servers::{LONG, eventually};

/// A running server.
pub(crate) struct Rig {
    pub(crate) server: Arc<Server>,
    pub(crate) system: System,
    pub(crate) poller: Poller,
}

impl Rig {
    /// A server with these settings, and TCP on a free port as the last input.
    pub(crate) fn start(config: Config) -> Self {
        Self::try_start(config).expect("it starts")
    }

    pub(crate) fn try_start(config: Config) -> Result<Self, freeboard_logd::StartError> {
        let mut config = config;
        config.inputs.push(InputConfig::Tcp(TcpConfig {
            framing: Framing::Newline,
            ..TcpConfig::new(([127, 0, 0, 1], 0).into())
        }));
        Self::try_start_as_is(config)
    }

    /// As [`Rig::start`], without a further input.
    pub(crate) fn start_as_is(config: Config) -> Self {
        Self::try_start_as_is(config).expect("it starts")
    }

    pub(crate) fn try_start_as_is(config: Config) -> Result<Self, freeboard_logd::StartError> {
        let poller = Poller::new(2, Policy::default()).expect("a poller");
        let system = System::builder().workers(2).driver(poller.driver());
        let system = system.build().expect("a system");
        let server = Arc::new(Server::start(&system, &poller, config)?);
        Ok(Self {
            server,
            system,
            poller,
        })
    }

    /// The addresses of the TCP inputs, in the order of the settings.
    pub(crate) fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let inputs = self.server.inputs();
        let tcp = inputs
            .iter()
            .filter(|it| it.to_string().starts_with("tcp:"));
        tcp.filter_map(|input| input.address()).collect()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.tcp_addresses()[0]).expect("it listens")
    }

    /// Waits until so many lines were accepted, from all sources.
    pub(crate) fn wait_accepted(&self, lines: u64) {
        eventually("the lines are accepted", || {
            self.server.totals().accepted >= lines
        });
    }

    /// Waits until no line is in memory.
    pub(crate) fn wait_settled(&self) {
        eventually("all lines are taken or shed", || {
            self.server.totals().held == 0
        });
    }

    pub(crate) fn stop(self) -> StopReport {
        let report = self.server.stop(LONG);
        assert!(self.system.shutdown(Duration::from_secs(30)).is_clean());
        report
    }
}

/// Sends text on a connection of its own, and closes it.
pub(crate) fn send(rig: &Rig, text: &str) {
    rig.connect().write_all(text.as_bytes()).expect("it reads");
}

/// A sink of the stream in this directory.
pub(crate) fn stream_sink(path: &Path) -> SinkConfig {
    let (path, options) = (path.to_owned(), StreamOptions::new());
    StreamSinkConfig { path, options }.sink("stream")
}

/// The text of settings: TCP on a free port, and a stream in this directory.
pub(crate) fn stream_of(path: &Path) -> String {
    let path = path.display();
    format!("[[tcp]]\naddress = \"127.0.0.1:0\"\n[[stream]]\npath = \"{path}\"\n")
}

/// The lines of a stream: source, marks, text.
pub(crate) fn lines_of(path: &Path) -> Vec<(String, Marks, String)> {
    let records = ReaderOptions::new().open(path).expect("a stream");
    let line = |payload: &[u8]| {
        let record = LogRecord::decode(payload).expect("a line");
        let text = String::from_utf8_lossy(record.text).into_owned();
        (record.source.to_owned(), record.marks, text)
    };
    records
        .map(|record| line(&record.expect("it is whole").payload))
        .collect()
}

/// What the next calls of a test's sink do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Pend,
    Fail,
    Break,
    Panic,
}

#[derive(Default)]
struct SinkState {
    lines: Vec<(String, Marks, String)>,
    is_shut: bool,
    steps: VecDeque<Step>,
    panics_at: Option<String>,
    waker: Option<Waker>,
    opened: u32,
}

/// A sink in memory that can be shut, and that fails as told.
#[derive(Clone, Default)]
pub(crate) struct TestSink(Arc<Mutex<SinkState>>);

impl TestSink {
    fn state<R>(&self, act: impl FnOnce(&mut SinkState) -> R) -> R {
        act(&mut self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Takes nothing until [`TestSink::open`].
    pub(crate) fn shut(self) -> Self {
        self.state(|state| state.is_shut = true);
        self
    }

    pub(crate) fn open(&self) {
        let waker = self.state(|state| {
            state.is_shut = false;
            state.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What the next calls with a batch do.
    pub(crate) fn then(self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.state(|state| state.steps.extend(steps));
        self
    }

    /// Panics with each batch that has this line.
    pub(crate) fn panics_at(self, line: &str) -> Self {
        self.state(|state| state.panics_at = Some(line.to_owned()));
        self
    }

    pub(crate) fn lines(&self) -> Vec<(String, Marks, String)> {
        self.state(|state| state.lines.clone())
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.lines().into_iter().map(|(_, _, text)| text).collect()
    }

    pub(crate) fn opened(&self) -> u32 {
        self.state(|state| state.opened)
    }

    pub(crate) fn config(&self) -> SinkConfig {
        let sink = self.clone();
        let config = SinkConfig::new("test", move || {
            sink.state(|state| state.opened += 1);
            Ok(Box::new(sink.clone()) as Box<dyn Sink>)
        });
        SinkConfig {
            backoff: Backoff {
                min_ns: 1_000,
                max_ns: 1_000_000,
                factor: 2,
            },
            ..config
        }
    }
}

impl Sink for TestSink {
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        let step = self.state(|state| {
            if state.is_shut {
                state.waker = Some(task.waker().clone());
                return Some(Step::Pend);
            }
            let has = |line: &str| batch.lines().any(|(_, text)| text == line.as_bytes());
            if state.panics_at.as_deref().is_some_and(has) {
                return Some(Step::Panic);
            }
            let step = state.steps.pop_front();
            if step == Some(Step::Pend) {
                task.waker().wake_by_ref();
            }
            step
        });
        match step {
            Some(Step::Pend) => return Poll::Pending,
            Some(Step::Fail) => return Poll::Ready(Err(SinkError::Busy("full".to_owned()))),
            Some(Step::Break) => return Poll::Ready(Err(SinkError::Broken("away".to_owned()))),
            Some(Step::Panic) => panic!("as told"),
            None => {}
        }
        let source = batch.source().name();
        let line = |(line, text): (&freeboard_logd::Line, &[u8])| {
            let text = String::from_utf8_lossy(text).into_owned();
            (source.to_owned(), line.marks, text)
        };
        self.state(|state| state.lines.extend(batch.lines().map(line)));
        Poll::Ready(Ok(()))
    }
}

/// Whether the line becomes durable.
pub(crate) fn feed_durable(intake: &mut Intake, line: &str) -> bool {
    let (sender, report) = mpsc::channel();
    let done = move |is_durable| sender.send(is_durable).expect("it is awaited");
    let line = Bytes::from(format!("{line}\n"));
    let _ = intake.feed(line, 1, Some(Box::new(done)));
    report.recv_timeout(LONG).expect("it is reported")
}

/// Lines that somebody waits for are reported as durable while another source floods the server. Stops it.
pub(crate) fn check_reports_beside_a_flood(rig: Rig) {
    let is_over = Arc::new(AtomicBool::new(false));
    let flooding = std::thread::spawn({
        let (handle, is_over) = (rig.server.handle().clone(), is_over.clone());
        move || {
            let mut intake = Intake::new(&handle, "flood", Framing::Newline);
            let lines = Bytes::from("a line of the flood\n".repeat(100));
            while !is_over.load(Ordering::Relaxed) {
                let _ = intake.feed(lines.clone(), 1, None);
            }
        }
    });
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    for _ in 0..20 {
        assert!(feed_durable(&mut intake, "a line"));
    }
    is_over.store(true, Ordering::Relaxed);
    flooding.join().expect("it has ended");
    drop(intake);
    assert!(rig.stop().is_clean());
}
