//! Bodies that are packed with gzip, as plain ones.
//!
//! ```text
//!   piece, packed ──▶ Packed ──▶ decoder ──16 KiB──▶ the sink of plain bodies
//!                       ▲                               │
//!                       └── the rest waits, packed ◀────┘ while that sink waits
//! ```
//!
//! A byte may become a thousand. So a piece is unpacked in steps, and a request holds one packed piece, one step and the
//! decoder's window of 32 KiB, however large the plain text is. That text has the bound of a plain body.

use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
use freeboard::net::{
    http::{BodyFlow, BodySink, Reply, Resume},
    types::StatusCode,
};

use super::http::refusal;

/// Bytes of one step.
const STEP_BYTES: usize = 16 << 10;

/// The most steps of one turn, so that other actors run too.
const STEPS_MAX: usize = 64;

/// The packed bytes that have come.
#[derive(Debug)]
struct Packed {
    bytes: Bytes,
    /// Whether no more come.
    is_ended: bool,
}

impl Read for Packed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let here = self.fill_buf()?;
        let count = here.len().min(out.len());
        out[..count].copy_from_slice(&here[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Packed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.bytes.is_empty() && !self.is_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes)
    }

    fn consume(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// Unpacks a body.
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Packed>,
    step: Box<[u8]>,
    plain: Box<dyn BodySink>,
    resume: Resume,
    /// Plain bytes that may still come.
    left: usize,
}

impl Gunzip {
    /// Unpacks in front of a sink. More than `bytes_max` unpacked bytes are refused.
    pub(super) fn new(plain: Box<dyn BodySink>, resume: Resume, bytes_max: usize) -> Self {
        let packed = Packed {
            bytes: Bytes::new(),
            is_ended: false,
        };
        Self {
            decoder: MultiGzDecoder::new(packed),
            step: vec![0; STEP_BYTES].into(),
            plain,
            resume,
            left: bytes_max,
        }
    }

    /// The next plain bytes, at most a step; `None`: there are none without further packed ones.
    fn next(&mut self) -> Result<Option<Bytes>, Box<BodyFlow>> {
        let refuse = |status, text: String| Box::new(BodyFlow::Respond(refusal(status, text)));
        let count = match self.decoder.read(&mut self.step) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(refuse(StatusCode::BAD_REQUEST, format!("gzip: {error}"))),
        };
        let Some(left) = self.left.checked_sub(count) else {
            let text = "the unpacked body is too long".to_owned();
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, text));
        };
        self.left = left;
        Ok((count > 0).then(|| Bytes::copy_from_slice(&self.step[..count])))
    }

    /// Unpacks what has come, as far as the sink takes it.
    fn unpack(&mut self) -> BodyFlow {
        for _ in 0..STEPS_MAX {
            let flow = match self.next() {
                Ok(Some(plain)) => self.plain.piece(plain),
                Ok(None) => return BodyFlow::Continue,
                Err(refused) => return *refused,
            };
            if !matches!(flow, BodyFlow::Continue) {
                return flow;
            }
        }
        self.resume.resume();
        BodyFlow::Wait
    }
}

impl BodySink for Gunzip {
    fn piece(&mut self, piece: Bytes) -> BodyFlow {
        self.decoder.get_mut().bytes = piece;
        self.unpack()
    }

    fn resumed(&mut self) -> BodyFlow {
        match self.plain.resumed() {
            BodyFlow::Continue => self.unpack(),
            flow => flow,
        }
    }

    fn complete(&mut self) -> BodyFlow {
        // What is in the decoder's window is left.
        self.decoder.get_mut().is_ended = true;
        self.unpack()
    }

    fn end(self: Box<Self>, reply: Reply) {
        self.plain.end(reply);
    }
}
