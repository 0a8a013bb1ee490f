//! The sources: streams, Redis clients, caches and others. One row each, and all metrics of an opened one.

use crate::SourceFrame;
use freeboard_meter::{Family, FamilyKind, Sample, Unit};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{self, Column};
use crate::terminal::{
    figures::{NONE, bytes, rate, rate_or_none, short, time},
    history::Span,
    pane::Pane,
    screen::Screen,
};

/// How a column combines a family's samples.
#[derive(Clone, Copy)]
enum Form {
    /// Their sum.
    Sum,
    /// Their sum, in bytes.
    Bytes,
    /// The rate of their sum.
    Rate,
    /// The same in bytes.
    ByteRate,
    /// The number of samples that are 1, and of all.
    Share,
    /// The largest 99th percentile of a summary of seconds.
    P99,
}

impl Form {
    /// The width of its largest values.
    const fn width(self) -> u16 {
        match self {
            Self::ByteRate => 10,
            Self::Sum | Self::Bytes | Self::Rate | Self::Share | Self::P99 => 9,
        }
    }
}

/// Title, family without `freeboard_` and kind, form; the most important first.
type Measure = (&'static str, &'static str, Form);

const STREAM: &[Measure] = &[
    ("ACCEPTED", "records_accepted_total", Form::Rate),
    ("DURABLE", "records_durable_total", Form::Rate),
    ("LAG", "records_lag", Form::Sum),
    ("BYTES", "written_bytes_total", Form::ByteRate),
    ("WRITTEN", "records_written_total", Form::Rate),
    ("SHED", "records_shed_total", Form::Sum),
    ("ACK99", "acknowledge_seconds", Form::P99),
    ("SEGMENTS", "segments_finished", Form::Sum),
    ("MEMORY", "memory_bytes", Form::Bytes),
    ("WRITE99", "write_seconds", Form::P99),
    ("REFUSED", "records_refused_total", Form::Sum),
];

const REDIS: &[Measure] = &[
    ("UP", "up", Form::Share),
    ("SENT", "sent_total", Form::Rate),
    ("REPLIES", "replies_total", Form::Rate),
    ("IN FLIGHT", "in_flight", Form::Sum),
    ("WAITING", "waiting", Form::Sum),
    ("SHED", "shed_total", Form::Sum),
    ("TIMED OUT", "timed_out_total", Form::Sum),
    ("LOST", "lost_total", Form::Sum),
    ("TELL99", "from_tell_seconds", Form::P99),
    ("SEND99", "from_send_seconds", Form::P99),
    ("UNDER WAY", "under_way_bytes", Form::Bytes),
    ("CONNECTS", "connects_total", Form::Sum),
];

const CACHE: &[Measure] = &[
    ("HITS", "hits_total", Form::Rate),
    ("STALE", "stale_hits_total", Form::Rate),
    ("MISSES", "misses_total", Form::Rate),
    ("WAITS", "waits_total", Form::Rate),
    ("LEASES", "leases_granted_total", Form::Rate),
    ("FLIGHTS", "flights", Form::Sum),
    ("SHED", "shed_total", Form::Sum),
    ("LOCAL", "local_hits_total", Form::Rate),
    ("WAIT99", "wait_seconds", Form::P99),
    ("REFUSED", "leases_refused_total", Form::Rate),
    ("EXPIRED", "leases_expired_total", Form::Sum),
    ("INVALID", "invalidations_total", Form::Rate),
];

const REMOTE: &[Measure] = &[
    ("NODES", "peer_up", Form::Share),
    ("SENT", "sent_total", Form::Rate),
    ("RECEIVED", "received_total", Form::Rate),
    ("WAITING", "waiting", Form::Sum),
    ("CREDIT", "credit", Form::Sum),
    ("SHED", "shed_total", Form::Sum),
    ("UNSENT", "undelivered_total", Form::Sum),
    ("LOST", "lost_total", Form::Sum),
    ("BYTES", "peer_sent_bytes_total", Form::ByteRate),
    ("GARBAGE", "garbage_total", Form::Sum),
];

/// Draws the table of sources, or the opened source.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    if screen.opened.is_none() {
        return draw_sources(screen, area, buffer);
    }
    let Some(source) = opened(screen) else {
        let text = " it is no longer on this board; Esc goes back";
        Line::styled(text, screen.palette.warning()).render(area, buffer);
        return;
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = format!("{} {}", source.kind, source.name);
    Line::styled(title, screen.palette.title()).render(head, buffer);
    draw_families(screen, source, body, buffer);
}

/// The number of rows of the opened source.
pub(super) fn opened_rows(screen: &Screen) -> u64 {
    let families = opened(screen).map_or(&[][..], |source| &source.families[..]);
    families
        .iter()
        .map(|family| family.samples.len() as u64)
        .sum()
}

/// The key of the source under the cursor.
pub(super) fn key_at_cursor(screen: &Screen) -> Option<String> {
    let row = usize::try_from(screen.cursor()).ok()?;
    shown(screen).nth(row).map(key)
}

fn shown(screen: &Screen) -> impl Iterator<Item = &SourceFrame> {
    let sources = screen.frame().map_or(&[][..], |frame| &frame.sources[..]);
    let shown = sources.iter();
    shown.filter(|source| screen.pane.shows(&source.kind))
}

fn key(source: &SourceFrame) -> String {
    format!("{} {}", source.kind, source.name)
}

fn opened(screen: &Screen) -> Option<&SourceFrame> {
    let opened = screen.opened.as_ref()?;
    shown(screen).find(|source| key(source) == *opened)
}

/// The same source in the earlier frame.
fn before<'a>(span: Option<Span<'a>>, source: &SourceFrame) -> Option<&'a SourceFrame> {
    let mut sources = span?.earlier.sources.iter();
    sources.find(|other| other.kind == source.kind && other.name == source.name)
}

fn draw_sources(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let measures = match screen.pane {
        Pane::Streams => STREAM,
        Pane::Redis => REDIS,
        Pane::Cache => CACHE,
        Pane::Nodes => REMOTE,
        _ => &[],
    };
    let span = screen.history.span();
    let sources: Vec<_> = shown(screen).collect();
    let mut columns = vec![Column::text("NAME", 16, 0, |it: &&SourceFrame| {
        it.name.clone()
    })];
    if measures.is_empty() {
        columns.push(Column::text("KIND", 16, 1, |it: &&SourceFrame| {
            it.kind.clone()
        }));
        let families = |it: &&SourceFrame| it.families.len().to_string();
        columns.push(Column::figure("FAMILIES", 9, 2, families));
    }
    let measured = measures
        .iter()
        .zip(1..)
        .map(|((title, family, form), rank)| {
            let cell = move |source: &&SourceFrame| {
                let value = measure(source, before(span, source), span, family, *form);
                value.unwrap_or_else(|| NONE.to_owned())
            };
            Column::figure(title, form.width(), rank, cell)
        });
    columns.extend(measured);
    let selected = usize::try_from(screen.cursor()).ok();
    grid::draw(&sources, &columns, selected, area, buffer, screen.palette);
}

fn measure(
    source: &SourceFrame,
    earlier: Option<&SourceFrame>,
    span: Option<Span<'_>>,
    name: &str,
    form: Form,
) -> Option<String> {
    let name = format!("freeboard_{}_{name}", source.kind);
    let samples_of = |source: &SourceFrame| {
        let family = source.families.iter().find(|family| family.name == name)?;
        (!family.samples.is_empty()).then(|| family.samples.clone())
    };
    let samples: Vec<Sample> = samples_of(source)?;
    let sum: f64 = samples.iter().map(|sample| sample.value).sum();
    let per_second = || {
        let earlier = samples_of(earlier?)?;
        let before = earlier.iter().map(|sample| sample.value).sum();
        span?.rate_of(before, sum)
    };
    Some(match form {
        Form::Sum => short(sum as u64),
        Form::Bytes => bytes(sum),
        Form::Rate => rate(per_second()?),
        Form::ByteRate => format!("{}/s", bytes(per_second()?)),
        Form::Share => {
            let up = samples.iter().filter(|sample| sample.value == 1.0);
            format!("{}/{}", up.count(), samples.len())
        }
        Form::P99 => {
            let of_99 = samples
                .iter()
                .filter(|sample| sample.label("quantile") == Some("0.99"));
            let largest = of_99.map(|sample| sample.value).reduce(f64::max)?;
            time((largest * 1e9) as u64)
        }
    })
}

/// Draws all samples of a source.
fn draw_families(screen: &Screen, source: &SourceFrame, area: Rect, buffer: &mut Buffer) {
    type Row<'a> = (&'a Family, &'a Sample);
    let span = screen.history.span();
    let earlier = before(span, source);
    let rows = source.families.iter();
    let rows = rows.flat_map(|family| family.samples.iter().map(move |sample| (family, sample)));
    let rows: Vec<Row<'_>> = rows.collect();
    let labels = |(_, sample): &Row<'_>| {
        let labels = sample.labels.iter();
        let labels = labels.filter(|(_, value)| *value != source.name);
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        labels.join(" ")
    };
    let per_second = |(family, sample): &Row<'_>| {
        let families = &earlier?.families;
        let family = families.iter().find(|other| other.name == family.name)?;
        let is_same = |other: &&Sample| other.name == sample.name && other.labels == sample.labels;
        span?.rate_of(family.samples.iter().find(is_same)?.value, sample.value)
    };
    type Col<'a> = Column<'a, Row<'a>>;
    let columns = [
        Col::text("FIGURE", 30, 0, |(_, sample)| {
            plain_name(source, &sample.name)
        }),
        Col::text("OF", 24, 3, labels),
        Col::figure("VALUE", 12, 1, |(family, sample)| value(family, sample)),
        Col::figure("PER SECOND", 10, 2, |row| match per_second(row) {
            _ if row.0.kind != FamilyKind::Counter => String::new(),
            Some(rate) if is_bytes(row.0) => format!("{}/s", bytes(rate)),
            rate => rate_or_none(rate),
        }),
    ];
    let selected = usize::try_from(screen.scrolled).ok();
    grid::draw(&rows, &columns, selected, area, buffer, screen.palette);
}

/// `records accepted` of `freeboard_stream_records_accepted_total`.
fn plain_name(source: &SourceFrame, name: &str) -> String {
    let name = name.strip_prefix("freeboard_").unwrap_or(name);
    let name = name.strip_prefix(&source.kind).unwrap_or(name);
    let name = name.strip_suffix("_total").unwrap_or(name);
    let name = ["_seconds", "_bytes"]
        .iter()
        .find_map(|unit| name.strip_suffix(unit))
        .unwrap_or(name);
    name.replace('_', " ").trim().to_owned()
}

fn is_bytes(family: &Family) -> bool {
    family.unit() == Unit::Bytes
}

/// A value in the unit of its family.
fn value(family: &Family, sample: &Sample) -> String {
    let is_count = sample.name.ends_with("_count");
    if !sample.value.is_finite() {
        NONE.to_owned()
    } else if family.unit() == Unit::Seconds && !is_count {
        time((sample.value * 1e9) as u64)
    } else if is_bytes(family) && !is_count {
        bytes(sample.value)
    } else if sample.value.fract() == 0.0 && sample.value >= 0.0 {
        short(sample.value as u64)
    } else {
        format!("{:.2}", sample.value)
    }
}
