//! The families of listeners, servers, proxies and datagram sockets contain every counter.

use freeboard_meter::Exposition;
use freeboard_net::{
    datagram::DatagramSnapshot, http::HttpSnapshot, proxy::ProxySnapshot, tcp::ListenerSnapshot,
};

/// Checks that exactly these samples exist, in any order.
fn check(render: impl FnOnce(&mut Exposition), label: (&str, &str), wanted: &[(&str, f64)]) {
    let mut text = Exposition::new();
    render(&mut text);
    let samples = text.families().iter().flat_map(|family| &family.samples);
    let mut found: Vec<_> = samples
        .map(|sample| {
            assert_eq!(sample.label(label.0), Some(label.1), "{sample:?}");
            (sample.name.as_str(), sample.value)
        })
        .collect();
    let mut wanted = wanted.to_vec();
    found.sort_by(|one, other| one.0.cmp(other.0));
    wanted.sort_by(|one, other| one.0.cmp(other.0));
    assert_eq!(found, wanted);
}

#[test]
fn every_figure_of_a_listener_is_there() {
    let snapshot = ListenerSnapshot {
        accepted: 1,
        open: 2,
        exhausted: 3,
        failed: 4,
    };
    check(
        |text| snapshot.render("front", text),
        ("listener", "front"),
        &[
            ("freeboard_connections_accepted_total", 1.0),
            ("freeboard_connections_open", 2.0),
            ("freeboard_accepts_exhausted_total", 3.0),
            ("freeboard_connections_failed_total", 4.0),
        ],
    );
}

#[test]
fn every_figure_of_a_server_is_there() {
    let snapshot = HttpSnapshot {
        requests: 1,
        answers: 2,
        refused: 3,
        timed_out: 4,
        broken: 5,
        panics: 6,
        bytes_read: 7,
        bytes_queued: 8,
    };
    check(
        |text| snapshot.render("front", text),
        ("server", "front"),
        &[
            ("freeboard_http_requests_total", 1.0),
            ("freeboard_http_answers_total", 2.0),
            ("freeboard_http_refused_total", 3.0),
            ("freeboard_http_timed_out_total", 4.0),
            ("freeboard_http_broken_total", 5.0),
            ("freeboard_http_panics_total", 6.0),
            ("freeboard_http_read_bytes_total", 7.0),
            ("freeboard_http_queued_bytes_total", 8.0),
        ],
    );
}

#[test]
fn every_figure_of_a_proxy_is_there() {
    let snapshot = ProxySnapshot {
        to_backend_bytes: 1,
        to_client_bytes: 2,
        backend_failures: 3,
        idle_timeouts: 4,
        broken: 5,
    };
    check(
        |text| snapshot.render("front", text),
        ("proxy", "front"),
        &[
            ("freeboard_proxy_to_backend_bytes_total", 1.0),
            ("freeboard_proxy_to_client_bytes_total", 2.0),
            ("freeboard_proxy_backend_failures_total", 3.0),
            ("freeboard_proxy_idle_timeouts_total", 4.0),
            ("freeboard_proxy_broken_total", 5.0),
        ],
    );
}

#[test]
fn every_figure_of_a_datagram_socket_is_there() {
    let snapshot = DatagramSnapshot {
        receive_buffer_bytes: 1,
        received: 2,
        received_bytes: 3,
        receive_calls: 4,
        cut: 5,
        kernel_dropped: 6,
        sent: 7,
        failed: 8,
    };
    check(
        |text| snapshot.render("front", text),
        ("socket", "front"),
        &[
            ("freeboard_datagram_receive_buffer_bytes", 1.0),
            ("freeboard_datagrams_received_total", 2.0),
            ("freeboard_datagrams_received_bytes_total", 3.0),
            ("freeboard_datagram_receive_calls_total", 4.0),
            ("freeboard_datagrams_cut_total", 5.0),
            ("freeboard_datagrams_kernel_dropped_total", 6.0),
            ("freeboard_datagrams_sent_total", 7.0),
            ("freeboard_datagram_calls_failed_total", 8.0),
        ],
    );
}
