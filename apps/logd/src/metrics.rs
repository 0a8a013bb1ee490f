//! What a server counts, as Prometheus reads it.

use freeboard::meter::{Exposition, metrics};

#[cfg(feature = "tls")]
use crate::input::TlsSnapshot;
use crate::{
    batch::Format, priority::Group, server::Server, sink::SinkGauge, source::Shed, sources::Totals,
};

metrics! {
    const TOTALS: Totals;
    gauge "freeboard_logd_sources" = |it| it.open, "Sources that are open.";
    counter "freeboard_logd_sources_opened_total" = |it| it.opened, "Sources that have been opened.";
    counter "freeboard_logd_lines_accepted_total" = |it| it.accepted, "Lines accepted.";
    counter "freeboard_logd_lines_taken_total" = |it| it.taken, "Lines that all sinks have taken.";
    gauge "freeboard_logd_lines_held" = |it| it.held, "Lines in memory.";
    counter "freeboard_logd_lines_shed_total" by "reason" =
        |it| Shed::ALL.map(|reason| (reason.name(), it.shed[reason as usize])),
        "Lines that reached no sink, by reason.";
    counter "freeboard_logd_lines_total" by "format" =
        |it| Format::ALL.map(|format| (format.name(), it.formats[format as usize])),
        "Lines received, by format.";
    counter "freeboard_logd_lines_malformed_total" = |it| it.malformed,
        "Lines that began like a format and are not well-formed.";
}

metrics! {
    const SINK: SinkGauge;
    counter "freeboard_logd_sink_batches_total" = |it| it.batches(), "Batches that the sink has taken.";
    counter "freeboard_logd_sink_lines_total" = |it| it.lines(), "Lines that the sink has taken.";
    counter "freeboard_logd_sink_bytes_total" = |it| it.bytes(), "Bytes of these lines.";
    counter "freeboard_logd_sink_errors_total" = |it| it.errors(), "Attempts that failed.";
    counter "freeboard_logd_sink_panics_total" = |it| it.panics(), "Attempts that panicked.";
    gauge "freeboard_logd_sink_failing_seconds" =
        |it| it.failing_for().map_or(0, |time| time.as_nanos() as u64),
        "Time for which all attempts have failed; 0 if the last one succeeded.";
    gauge "freeboard_logd_sink_call_seconds" =
        |it| it.in_call_for().map_or(0, |time| time.as_nanos() as u64),
        "Time that the sink's current call has taken; 0 between calls.";
    gauge "freeboard_logd_sink_behind_lines" = |it| it.behind(),
        "Lines on disk that the sink has not taken or sent yet.";
    counter "freeboard_logd_sink_lost_total" = |it| it.lost(),
        "Lines of its queue that were lost.";
    gauge "freeboard_logd_sink_dead" = |it| it.is_dead(),
        "Whether the sink takes nothing any more: 1 or 0.";
}

#[cfg(feature = "tls")]
metrics! {
    const TLS: TlsSnapshot;
    counter "freeboard_logd_tls_handshakes_total" by "result" = |it| [
        ("established", it.established),
        ("bad_certificate", it.bad_certificates),
        ("failed", it.failed),
        ("late", it.late),
    ], "TLS handshakes, by result.";
}

#[cfg(feature = "tls")]
metrics! {
    const CERTIFICATE: jiff::Timestamp;
    gauge "freeboard_logd_tls_certificate_expiry_timestamp_seconds" = |it| it.as_second() as f64,
        "When the server's certificate expires, in seconds since 1970.";
}

impl Server {
    /// Adds the metrics of inputs, sources, dams and sinks to `text`.
    pub fn render(&self, text: &mut Exposition) {
        text.metrics(TOTALS, &[], &self.totals());
        for group in Group::ALL {
            self.dam(group).render(group.name(), text);
        }
        for sink in self.sinks() {
            text.metrics(SINK, &[("sink", sink.name())], &*sink);
        }
        for input in self.inputs() {
            input.render(text);
            #[cfg(feature = "tls")]
            if let (Some(tls), Some(expires)) = (input.tls(), input.expires()) {
                let name = input.to_string();
                let labels = [("input", name.as_str())];
                text.metrics(TLS, &labels, &tls);
                text.metrics(CERTIFICATE, &labels, &expires);
            }
        }
    }
}
