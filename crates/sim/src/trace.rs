//! The trace of a run: a line for each step, packet, fault and note. Two runs of one seed have the same bytes.
//!
//! Each run keeps a checksum of the lines. The text is kept on demand.

use std::{
    cell::RefCell,
    fmt::{Display, Write as _},
    time::Duration,
};

use freeboard_meter::clock;
use freeboard_sched::manual::TraceStep;

/// The width of the column of node names.
const NAME_WIDTH: usize = 10;

#[derive(Debug, Default)]
struct Lines {
    /// `None` if only the checksum is wanted.
    text: Option<String>,
    line: String,
    checksum: u64,
    step: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Trace(RefCell<Lines>);

impl Trace {
    pub(crate) fn new(has_text: bool) -> Self {
        Self(RefCell::new(Lines {
            text: has_text.then(String::new),
            ..Lines::default()
        }))
    }

    pub(crate) fn step(&self, step: &TraceStep) {
        let mut lines = self.0.borrow_mut();
        lines.step = step.step;
        let name = step.node_name.as_deref().unwrap_or_default();
        lines.add(step.time, name, &step.kind);
    }

    /// A line that is no step.
    pub(crate) fn note(&self, kind: &str, text: &str) {
        let time = Duration::from_nanos(clock::now_ns() - 1);
        self.0.borrow_mut().add(time, kind, &text);
    }

    pub(crate) fn checksum(&self) -> u64 {
        self.0.borrow().checksum
    }

    pub(crate) fn take_text(&self) -> Option<String> {
        self.0.borrow_mut().text.take()
    }
}

impl Lines {
    fn add(&mut self, time: Duration, who: &str, text: &dyn Display) {
        let Self { line, step, .. } = self;
        line.clear();
        let (time_s, rest_ns) = (time.as_secs(), time.subsec_nanos());
        // Not as a float, whose digits take longer to find.
        let _ = writeln!(
            line,
            "{step:>6} {time_s:>3}.{rest_ns:09}  {who:<NAME_WIDTH$} {text}"
        );
        // FNV-1a.
        for byte in line.bytes() {
            self.checksum = (self.checksum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(text) = &mut self.text {
            text.push_str(&self.line);
        }
    }
}
