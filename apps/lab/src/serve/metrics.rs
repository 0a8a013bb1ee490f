//! What a service counts, as Prometheus reads it.

use bytes::Bytes;
use freeboard::{
    System,
    meter::{Exposition, FamilyKind, render},
    net::{http::Body, tcp::ListenerSnapshot},
};
use http::{Response, header::CONTENT_TYPE};

/// The text of all gauges of a system, with what `further` adds.
pub(super) fn page(system: &System, further: impl FnOnce(&mut Exposition)) -> Response<Body> {
    let mut snapshot = system.snapshot();
    // A series for each connection's actor is more than anybody wants to keep.
    snapshot.actors.clear();
    let mut text = Exposition::new();
    further(&mut text);
    let all = render(&snapshot) + &text.finish();
    let answer = Response::builder().header(CONTENT_TYPE, "text/plain; version=0.0.4");
    answer
        .body(Body::from(Bytes::from(all)))
        .expect("the header is well-formed")
}

/// The families of a listener.
pub(super) fn listener(text: &mut Exposition, listener: &ListenerSnapshot) {
    use FamilyKind::{Counter, Gauge};
    for (name, kind, help, value) in [
        (
            "freeboard_connections_accepted_total",
            Counter,
            "Connections that were accepted.",
            listener.accepted,
        ),
        (
            "freeboard_connections_open",
            Gauge,
            "Connections that are open.",
            listener.open,
        ),
        (
            "freeboard_accepts_exhausted_total",
            Counter,
            "Times accepting rested because file descriptors or memory had run out.",
            listener.exhausted,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[], value as f64);
    }
}

/// Counters by name.
pub(super) fn counters(text: &mut Exposition, counters: &[(&str, &str, u64)]) {
    for (name, help, value) in counters {
        text.family(name, FamilyKind::Counter, help);
        text.sample(name, &[], *value as f64);
    }
}
