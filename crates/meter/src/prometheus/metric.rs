//! The declaration of a metric: name, kind, help, and where its values come from in a snapshot.

use super::{Exposition, FamilyKind, Unit};
use crate::{by_type::TypeTimes, tally::HistogramSummary};

/// A metric whose values are read from a snapshot of type `S`. Declare tables of them with
/// [`metrics!`](crate::metrics).
#[derive(Debug)]
pub struct Metric<S: ?Sized> {
    pub(super) name: &'static str,
    pub(super) kind: FamilyKind,
    pub(super) help: &'static str,
    pub(super) read: fn(&S, &mut Series<'_>),
}

impl<S: ?Sized> Metric<S> {
    /// A metric that `read` takes from a snapshot.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: FamilyKind,
        help: &'static str,
        read: fn(&S, &mut Series<'_>),
    ) -> Self {
        Self {
            name,
            kind,
            help,
            read,
        }
    }
}

/// Where a metric puts the values that it reads from one snapshot.
#[derive(Debug)]
pub struct Series<'a> {
    pub(super) text: &'a mut Exposition,
    pub(super) name: &'a str,
    pub(super) labels: &'a [(&'a str, &'a str)],
}

impl Series<'_> {
    /// Adds a value.
    pub fn add(&mut self, value: impl Measured) {
        value.add_to(self.text, self.name, self.labels);
    }

    /// Adds a value for each value of a further label.
    pub fn add_each(
        &mut self,
        label: &str,
        values: impl IntoIterator<Item = (impl AsRef<str>, impl Measured)>,
    ) {
        for (of, value) in values {
            let labels = [self.labels, &[(label, of.as_ref())]].concat();
            value.add_to(self.text, self.name, &labels);
        }
    }
}

/// What a metric can read: whole numbers (nanoseconds, if the name says seconds), fractions, yes or no (1 or
/// 0), and summaries. `None` adds no sample.
pub trait Measured {
    /// Adds the samples to the family `name`.
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]);
}

impl Measured for u64 {
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, Unit::of(name).scaled(self));
    }
}

impl Measured for f64 {
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, self);
    }
}

impl Measured for bool {
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, f64::from(u8::from(self)));
    }
}

impl Measured for &HistogramSummary {
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.summary(name, labels, self);
    }
}

impl Measured for &TypeTimes {
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        if self.count > 0 {
            text.quantiles(name, labels, self.slowest.as_ref());
            text.sum_and_count(name, labels, self.sum_ns, self.count);
        }
    }
}

impl<M: Measured> Measured for Option<M> {
    fn add_to(self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        if let Some(value) = self {
            value.add_to(text, name, labels);
        }
    }
}

/// Declares a table of [`Metric`]s of one type of snapshot.
///
/// Each row is `counter`, `gauge` or `summary`, the name, the source and the help text. With `by "label"` the
/// source is an iterator over values of that label and their counts.
///
/// ```
/// use freeboard_meter::{Exposition, metrics};
///
/// struct House { doors: u64, lit_ns: u64, rooms: Vec<(&'static str, u64)> }
///
/// metrics! {
///     /// What a house counts.
///     const HOUSE: House;
///     gauge "house_doors" = |it| it.doors, "Doors.";
///     counter "house_lit_seconds_total" = |it| it.lit_ns, "Time that the lights were on.";
///     gauge "house_rooms" by "floor" = |it| it.rooms.iter().copied(), "Rooms, by floor.";
/// }
///
/// let house = House { doors: 2, lit_ns: 500_000_000, rooms: vec![("ground", 4)] };
/// let mut text = Exposition::new();
/// text.metrics(HOUSE, &[("house", "old")], &house);
/// let text = text.finish();
/// assert!(text.contains("house_lit_seconds_total{house=\"old\"} 0.5\n"));
/// assert!(text.contains("house_rooms{house=\"old\",floor=\"ground\"} 4\n"));
/// ```
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])* $visibility:vis const $table:ident: $snapshot:ty;
        $($kind:ident $name:literal $(by $label:literal)? = |$it:ident| $value:expr, $help:literal;)+
    ) => {
        $(#[$attribute])*
        $visibility const $table: &[$crate::Metric<$snapshot>] = &[$(
            $crate::Metric::new($name, $crate::metrics!(@$kind), $help, |$it, series| {
                $crate::metrics!(@add series $($label)?, $value)
            }),
        )+];
    };
    (@counter) => { $crate::FamilyKind::Counter };
    (@gauge) => { $crate::FamilyKind::Gauge };
    (@summary) => { $crate::FamilyKind::Summary };
    (@add $series:ident, $value:expr) => { $series.add($value) };
    (@add $series:ident $label:literal, $values:expr) => { $series.add_each($label, $values) };
}
