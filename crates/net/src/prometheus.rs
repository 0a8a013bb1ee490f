//! What listeners, servers and proxies have counted, as Prometheus families.

use freeboard_meter::{Exposition, FamilyKind};

use crate::{http::HttpSnapshot, proxy::ProxySnapshot, tcp::ListenerSnapshot};

/// Name, kind, help and value of a family with one sample.
type Figure = (&'static str, FamilyKind, &'static str, u64);

impl ListenerSnapshot {
    /// Adds the families to `text`, labelled with `listener`.
    pub fn render(&self, listener: &str, text: &mut Exposition) {
        use FamilyKind::{Counter, Gauge};
        let figures = [
            (
                "freeboard_connections_accepted_total",
                Counter,
                "Connections that were accepted.",
                self.accepted,
            ),
            (
                "freeboard_connections_open",
                Gauge,
                "Connections that are open.",
                self.open,
            ),
            (
                "freeboard_connections_failed_total",
                Counter,
                "Connections that were lost before they could be served.",
                self.failed,
            ),
            (
                "freeboard_accepts_exhausted_total",
                Counter,
                "Times accepting rested because file descriptors or memory had run out.",
                self.exhausted,
            ),
        ];
        render_figures(("listener", listener), &figures, text);
    }
}

impl HttpSnapshot {
    /// Adds the families to `text`, labelled with `server`.
    pub fn render(&self, server: &str, text: &mut Exposition) {
        use FamilyKind::Counter;
        let figures = [
            (
                "freeboard_http_requests_total",
                Counter,
                "Requests that came whole.",
                self.requests,
            ),
            (
                "freeboard_http_answers_total",
                Counter,
                "Answers that were begun.",
                self.answers,
            ),
            (
                "freeboard_http_refused_total",
                Counter,
                "Requests that were refused: malformed, too large, too late.",
                self.refused,
            ),
            (
                "freeboard_http_timed_out_total",
                Counter,
                "Connections closed because the peer took too long.",
                self.timed_out,
            ),
            (
                "freeboard_http_broken_total",
                Counter,
                "Connections that broke, or that the peer left in the middle of a request.",
                self.broken,
            ),
            (
                "freeboard_http_panics_total",
                Counter,
                "Handlers that panicked; their requests were answered with 500.",
                self.panics,
            ),
            (
                "freeboard_http_read_bytes_total",
                Counter,
                "Bytes that came.",
                self.bytes_read,
            ),
            (
                "freeboard_http_queued_bytes_total",
                Counter,
                "Bytes handed to connections to be written.",
                self.bytes_queued,
            ),
        ];
        render_figures(("server", server), &figures, text);
    }
}

impl ProxySnapshot {
    /// Adds the families to `text`, labelled with `proxy`.
    pub fn render(&self, proxy: &str, text: &mut Exposition) {
        use FamilyKind::Counter;
        let figures = [
            (
                "freeboard_proxy_to_backend_bytes_total",
                Counter,
                "Bytes carried from clients to the backend.",
                self.to_backend_bytes,
            ),
            (
                "freeboard_proxy_to_client_bytes_total",
                Counter,
                "Bytes carried from the backend to clients.",
                self.to_client_bytes,
            ),
            (
                "freeboard_proxy_backend_failures_total",
                Counter,
                "Connections closed because the backend could not be reached.",
                self.backend_failures,
            ),
            (
                "freeboard_proxy_idle_timeouts_total",
                Counter,
                "Connections closed because nothing came or went for too long.",
                self.idle_timeouts,
            ),
            (
                "freeboard_proxy_broken_total",
                Counter,
                "Connections that broke; the other side was reset.",
                self.broken,
            ),
        ];
        render_figures(("proxy", proxy), &figures, text);
    }
}

fn render_figures(label: (&str, &str), figures: &[Figure], text: &mut Exposition) {
    for &(name, kind, help, value) in figures {
        text.family(name, kind, help);
        text.sample(name, &[label], value as f64);
    }
}
