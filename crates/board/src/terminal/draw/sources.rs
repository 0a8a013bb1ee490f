//! The sources: streams, Redis clients, caches and others. One row each, and all metrics of an opened one.

use crate::SourceFrame;
use freeboard_meter::{Family, FamilyKind, Sample, Unit};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget,
};

use super::grid::{Cell, Column, Grid};
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

/// Draws the table of sources, or the opened source.
pub(super) fn draw(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    if screen.opened.is_none() {
        table(screen).draw(area, buffer, screen.palette);
        return;
    }
    let Some(source) = opened(screen) else {
        let text = " it is no longer on this board; Esc goes back";
        Line::styled(text, screen.palette.warning()).render(area, buffer);
        return;
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = format!("{} {}", source.kind, source.name);
    Line::styled(title, screen.palette.title()).render(head, buffer);
    families(screen, source).draw(body, buffer, screen.palette);
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

fn table(screen: &Screen) -> Grid {
    let measures = match screen.pane {
        Pane::Streams => STREAM,
        Pane::Redis => REDIS,
        Pane::Cache => CACHE,
        _ => &[],
    };
    let mut columns = vec![Column::text("NAME", 16, 0)];
    if measures.is_empty() {
        columns.push(Column::text("KIND", 16, 1));
        columns.push(Column::figure("FAMILIES", 9, 2));
    }
    columns.extend(
        measures
            .iter()
            .zip(1..)
            .map(|((title, _, form), rank)| Column::figure(title, form.width(), rank)),
    );
    let span = screen.history.span();
    let rows = shown(screen).map(|source| {
        let mut row = vec![Cell::new(source.name.clone())];
        if measures.is_empty() {
            row.push(Cell::new(source.kind.clone()));
            row.push(Cell::new(source.families.len().to_string()));
        }
        let earlier = before(span, source);
        row.extend(measures.iter().map(|(_, family, form)| {
            let value = measure(source, earlier, span, family, *form);
            Cell::new(value.unwrap_or_else(|| NONE.to_owned()))
        }));
        row
    });
    Grid {
        columns,
        rows: rows.collect(),
        selected: usize::try_from(screen.cursor()).ok(),
    }
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

/// All samples of a source.
fn families(screen: &Screen, source: &SourceFrame) -> Grid {
    let span = screen.history.span();
    let earlier = before(span, source);
    let rows = source.families.iter().flat_map(|family| {
        let earlier = earlier.and_then(|source| {
            let mut families = source.families.iter();
            families.find(|other| other.name == family.name)
        });
        family.samples.iter().map(move |sample| {
            let per_second = (family.kind == FamilyKind::Counter).then(|| {
                let before = earlier?.samples.iter();
                let before = before
                    .into_iter()
                    .find(|other| other.name == sample.name && other.labels == sample.labels)?;
                span?.rate_of(before.value, sample.value)
            });
            let labels = sample.labels.iter();
            let labels: Vec<_> = labels
                .filter(|(_, value)| *value != source.name)
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            vec![
                Cell::new(plain_name(source, &sample.name)),
                Cell::new(labels.join(" ")),
                Cell::new(value(family, sample)),
                Cell::new(per_second.map_or_else(String::new, |rate| match rate {
                    Some(rate) if is_bytes(family) => format!("{}/s", bytes(rate)),
                    rate => rate_or_none(rate),
                })),
            ]
        })
    });
    Grid {
        columns: vec![
            Column::text("FIGURE", 30, 0),
            Column::text("OF", 24, 3),
            Column::figure("VALUE", 12, 1),
            Column::figure("PER SECOND", 10, 2),
        ],
        rows: rows.collect(),
        selected: usize::try_from(screen.scrolled).ok(),
    }
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
