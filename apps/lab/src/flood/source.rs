//! Where the senders' lines come from: generated as they go, or a log that is replayed.

use std::sync::Arc;

use super::{line::Line, log::Log};

/// The lines of one flood.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Each sender formats this many lines.
    Generated { messages: u32 },
    /// Line k goes to sender k modulo the number of senders.
    Replayed(Arc<Log>),
}

impl Source {
    /// Lines of one sender, of `senders`.
    pub(crate) fn count(&self, sender: u32, senders: u32) -> u64 {
        match self {
            Self::Generated { messages } => u64::from(*messages),
            Self::Replayed(log) => {
                let behind = log.len().saturating_sub(u64::from(sender));
                behind.div_ceil(u64::from(senders))
            }
        }
    }

    /// Lines of all senders.
    pub(crate) fn total(&self, senders: u32) -> u64 {
        match self {
            Self::Generated { messages } => u64::from(*messages) * u64::from(senders),
            Self::Replayed(log) => log.len(),
        }
    }

    /// Bytes that the lines take in a dam's reservoir, at the most.
    pub(crate) fn weight(&self, senders: u32) -> u64 {
        let heap = match self {
            Self::Generated { .. } => 0,
            Self::Replayed(log) => log.bytes_len(),
        };
        self.total(senders) * size_of::<Line>() as u64 + heap
    }

    /// A sender's line of this number, from 0.
    #[inline]
    pub(crate) fn line(&self, sender: u32, senders: u32, number: u64) -> Line {
        match self {
            Self::Generated { .. } => Line::generated(sender, number as u32),
            Self::Replayed(log) => {
                let line = number * u64::from(senders) + u64::from(sender);
                Line::new(sender, log.line(line))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_log_is_dealt_out_whole() {
        for (lines, senders) in [(1, 4), (7, 3), (9, 3), (5, 1)] {
            let text: String = (0..lines).map(|line| format!("{line}\n")).collect();
            let source = Source::Replayed(Arc::new(Log::new(text.into_bytes())));
            let mut dealt: Vec<String> = (0..senders)
                .flat_map(|sender| {
                    let numbers = 0..source.count(sender, senders);
                    let source = source.clone();
                    numbers.map(move |number| source.line(sender, senders, number))
                })
                .map(|line| String::from_utf8_lossy(line.bytes()).into_owned())
                .collect();
            dealt.sort();
            let all: Vec<String> = (0..lines).map(|line| line.to_string()).collect();
            assert_eq!(dealt, all);
            assert_eq!(source.total(senders), lines);
        }
    }
}
