//! Writes responses as bytes.

use std::{cell::RefCell, time::UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use freeboard_meter::clock;
use http::{
    HeaderMap, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING},
};

use super::{
    handler::{Body, plain, text},
    head::has_connection_token,
    limits::Refusal,
    request_reader::Framing,
};
use crate::tcp::Outgoing;

/// The part of a streamed body that is not sent yet.
pub(super) struct RemainingBody {
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    is_chunked: bool,
}

/// The result of [`begin`].
pub(super) struct Begun {
    /// Whether the connection may carry another request.
    pub(super) keeps_alive: bool,
    pub(super) rest: Option<RemainingBody>,
}

/// Writes the head of a response, and its body unless it is streamed.
pub(super) fn begin(response: Response<Body>, framing: Framing, out: &mut Outgoing) -> Begun {
    let response = if response.status().is_informational() {
        // The client would wait for the final response.
        plain(StatusCode::INTERNAL_SERVER_ERROR)
    } else {
        response
    };
    let (parts, body) = response.into_parts();
    let has_no_body = matches!(
        parts.status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    let is_11 = framing.version == Version::HTTP_11;
    let is_to_the_end = matches!(body, Body::Pieces(_)) && !is_11 && !has_no_body;
    let wants_close = has_connection_token(&parts.headers, "close");
    let keeps_alive = framing.keeps_alive && !is_to_the_end && !wants_close;
    out.append(|head| {
        write_head(head, parts.status, &parts.headers);
        match &body {
            _ if has_no_body => {}
            Body::Full(bytes) => {
                head.put_slice(b"content-length: ");
                head.put_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
                head.put_slice(b"\r\n");
            }
            Body::Pieces(_) if is_11 => head.put_slice(b"transfer-encoding: chunked\r\n"),
            Body::Pieces(_) => {}
        }
        match (keeps_alive, is_11) {
            (true, false) => head.put_slice(b"connection: keep-alive\r\n"),
            (false, true) => head.put_slice(b"connection: close\r\n"),
            _ => {}
        }
        head.put_slice(b"\r\n");
    });
    let rest = match body {
        _ if has_no_body || framing.is_head => None,
        Body::Full(bytes) => {
            out.push(bytes);
            None
        }
        Body::Pieces(pieces) => Some(RemainingBody {
            pieces,
            is_chunked: is_11,
        }),
    };
    Begun { keeps_alive, rest }
}

impl RemainingBody {
    /// Writes the next piece. `false` after the last.
    pub(super) fn next(&mut self, out: &mut Outgoing) -> bool {
        let piece = self.pieces.find(|piece| !piece.is_empty());
        let Some(piece) = piece else {
            if self.is_chunked {
                out.append(|tail| tail.put_slice(b"0\r\n\r\n"));
            }
            return false;
        };
        if !self.is_chunked {
            out.push(piece);
            return true;
        }
        out.append(|tail| tail.put_slice(format!("{:x}\r\n", piece.len()).as_bytes()));
        out.push(piece);
        out.append(|tail| tail.put_slice(b"\r\n"));
        true
    }
}

/// Writes the response to a refused request.
pub(super) fn refuse(refusal: Refusal, is_head: bool, out: &mut Outgoing) {
    let response = text(refusal.status(), format!("{refusal}\n"));
    let framing = Framing {
        version: Version::HTTP_11,
        is_head,
        keeps_alive: false,
    };
    begin(response, framing, out);
}

/// Writes the interim response that a client awaits before it sends its body.
pub(super) fn write_continue(out: &mut Outgoing) {
    out.append(|tail| tail.put_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
}

/// Writes the status line and the headers. The handler cannot set the headers that frame the response.
fn write_head(head: &mut BytesMut, status: StatusCode, headers: &HeaderMap) {
    head.reserve(128 + 32 * headers.len());
    head.put_slice(b"HTTP/1.1 ");
    head.put_slice(status.as_str().as_bytes());
    head.put_u8(b' ');
    head.put_slice(status.canonical_reason().unwrap_or("Unknown").as_bytes());
    head.put_slice(b"\r\n");
    for (name, value) in headers {
        if [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name) {
            continue;
        }
        head.put_slice(name.as_str().as_bytes());
        head.put_slice(b": ");
        head.put_slice(value.as_bytes());
        head.put_slice(b"\r\n");
    }
    if !headers.contains_key(DATE) {
        write_date(head);
    }
}

/// Writes the date header, formatted once per second and thread.
fn write_date(to: &mut BytesMut) {
    thread_local! {
        static LINE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = clock::since_1970();
    let second = now.as_secs();
    LINE.with_borrow_mut(|(made, line)| {
        if *made != second || line.is_empty() {
            *made = second;
            *line = format!("date: {}\r\n", httpdate::fmt_http_date(UNIX_EPOCH + now));
        }
        to.put_slice(line.as_bytes());
    });
}
