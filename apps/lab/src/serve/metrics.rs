//! What a service counts, as Prometheus reads it.

use bytes::Bytes;
use freeboard::{
    System,
    meter::{Exposition, families},
    net::http::Body,
};
use http::{Response, StatusCode, header::CONTENT_TYPE};

/// The text of all gauges of a system, with what `further` adds.
pub(super) fn page(system: &System, further: impl FnOnce(&mut Exposition)) -> Response<Body> {
    let mut text = families(&system.snapshot());
    further(&mut text);
    let answer = Response::builder().header(CONTENT_TYPE, "text/plain; version=0.0.4");
    answer
        .body(Body::from(Bytes::from(text.finish())))
        .expect("the header is well-formed")
}

/// A short text.
pub(super) fn answer(status: StatusCode, body: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
}
