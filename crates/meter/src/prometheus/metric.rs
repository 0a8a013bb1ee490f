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

/// A value that a metric can read: whole numbers (nanoseconds, if the name says seconds), fractions, yes or no
/// (1 or 0), summaries, and counts by a label. `None` adds no sample.
pub trait Measured {
    /// Adds the samples to the family `name`.
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]);
}

impl Measured for u64 {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, Unit::of(name).scaled(*self));
    }
}

impl Measured for usize {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        (*self as u64).add_to(text, name, labels);
    }
}

impl Measured for f64 {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, *self);
    }
}

impl Measured for bool {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.sample(name, labels, f64::from(u8::from(*self)));
    }
}

impl Measured for HistogramSummary {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        text.summary(name, labels, self);
    }
}

impl Measured for TypeTimes {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        if self.count > 0 {
            text.quantiles(name, labels, self.slowest.as_ref());
            text.sum_and_count(name, labels, self.sum_ns, self.count);
        }
    }
}

impl<M: Measured> Measured for Option<M> {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        if let Some(value) = self {
            value.add_to(text, name, labels);
        }
    }
}

impl<M: Measured + ?Sized> Measured for &M {
    fn add_to(&self, text: &mut Exposition, name: &str, labels: &[(&str, &str)]) {
        (**self).add_to(text, name, labels);
    }
}

/// Declares [`Metric`]s: each row is `counter`, `gauge` or `summary`, its source, its name and its help text.
///
/// # A table for a snapshot
///
/// A source is an expression. With `by "label"` it is an iterator over values of that label and their counts.
///
/// ```
/// use freeboard_meter::{Exposition, metrics};
///
/// struct House { doors: u64, lit_ns: u64, rooms: Vec<(&'static str, u64)> }
///
/// metrics! {
///     /// The metrics of a house.
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
///
/// # Counters, their snapshot and its table
///
/// The rows also become the fields of the snapshot, and those of `counted by` the fields of a struct of
/// [`Counter`](crate::Counter)s and [`Histogram`](crate::Histogram)s, whose method `snapshot` reads them. Other
/// rows are filled by the caller. The field of a counter is a `u64` and that of a histogram a
/// [`HistogramSummary`], unless `=>` names another type. A struct `by "label"` has a counter for each value of
/// the label.
///
/// ```
/// use freeboard_meter::{Counter, Exposition, Histogram, metrics};
///
/// metrics! {
///     /// Guests that were turned away, by reason.
///     #[derive(Debug, Default)]
///     pub struct TurnedAway by "reason";
///     #[derive(Default)]
///     counted by struct TurnedAwayCounters {
///         /// The house was full.
///         full,
///         /// It was after midnight.
///         late,
///     }
/// }
/// metrics! {
///     /// A house at one time.
///     #[derive(Debug, Default)]
///     pub struct HouseSnapshot: HOUSE {
///         gauge doors: u64 = "house_doors", "Doors.";
///     }
///     #[derive(Default)]
///     counted by struct HouseCounters {
///         counter guests: Counter = "house_guests_total", "Guests.";
///         counter turned_away: TurnedAwayCounters => TurnedAway = "house_turned_away_total",
///             "Guests that were turned away, by reason.";
///         summary visits: Histogram = "house_visit_seconds", "Time that guests stayed.";
///     }
/// }
///
/// let counters = HouseCounters::default();
/// counters.guests.add(3);
/// counters.turned_away.late.add(2);
/// let house = HouseSnapshot { doors: 2, ..counters.snapshot() };
/// let text = Exposition::new().metrics(HOUSE, &[], &house).clone().finish();
/// assert!(text.contains("house_doors 2\n") && text.contains("house_guests_total 3\n"));
/// assert!(text.contains("house_turned_away_total{reason=\"late\"} 2\n"));
/// ```
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])* $visibility:vis const $table:ident: $snapshot:ty;
        $($kind:ident $name:literal $(by $label:literal)? = |$it:ident| $value:expr, $help:literal;)*
    ) => {
        $(#[$attribute])*
        $visibility const $table: &[$crate::Metric<$snapshot>] = &[$(
            $crate::Metric::new($name, $crate::metrics!(@kind $kind), $help, |$it, series| {
                $crate::metrics!(@add series $($label)?, $value)
            }),
        )*];
    };
    (
        $(#[$attribute:meta])* $visibility:vis struct $snapshot:ident: $table:ident {
            $($kind:ident $field:ident: $type:ty = $name:literal, $help:literal;)*
        }
        $(with { $($other:tt)* })?
        $(
            $(#[$live_attribute:meta])* counted by $live_visibility:vis struct $live:ident {
                $($live_kind:ident $live_field:ident: $live_type:ty $(=> $value:ty)?
                    = $live_name:literal, $live_help:literal;)*
            }
            $(with { $($live_other:tt)* })?
        )?
    ) => {
        $(#[$attribute])*
        $visibility struct $snapshot {
            $($(#[doc = $live_help] pub $live_field: $crate::metrics!(@value $live_kind $($value)?),)*)?
            $(#[doc = $help] pub $field: $type,)*
            $($($other)*)?
        }

        $crate::metrics! {
            const $table: $snapshot;
            $($($live_kind $live_name = |it| &it.$live_field, $live_help;)*)?
            $($kind $name = |it| &it.$field, $help;)*
        }

        $(
            $(#[$live_attribute])*
            $live_visibility struct $live {
                $($live_visibility $live_field: $live_type,)*
                $($($live_other)*)?
            }

            impl $live {
                /// All counters; other fields are empty.
                #[allow(clippy::needless_update)]
                $live_visibility fn snapshot(&self) -> $snapshot {
                    $snapshot {
                        $($live_field: $crate::metrics!(@read self.$live_field, $live_kind $($value)?),)*
                        ..Default::default()
                    }
                }
            }
        )?
    };
    (
        $(#[$attribute:meta])* $visibility:vis struct $snapshot:ident by $label:literal;
        $(#[$live_attribute:meta])* counted by $live_visibility:vis struct $live:ident {
            $($(#[$field_attribute:meta])* $field:ident,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $snapshot {
            $($(#[$field_attribute])* pub $field: u64,)+
        }

        impl $crate::Measured for $snapshot {
            fn add_to(&self, text: &mut $crate::Exposition, name: &str, labels: &[(&str, &str)]) {
                $(
                    let labels_of = [labels, &[($label, stringify!($field))]].concat();
                    self.$field.add_to(text, name, &labels_of);
                )+
            }
        }

        $(#[$live_attribute])*
        $live_visibility struct $live {
            $($live_visibility $field: $crate::Counter,)+
        }

        impl $live {
            $live_visibility fn snapshot(&self) -> $snapshot {
                $snapshot { $($field: self.$field.get(),)+ }
            }
        }
    };
    (@kind counter) => { $crate::FamilyKind::Counter };
    (@kind gauge) => { $crate::FamilyKind::Gauge };
    (@kind summary) => { $crate::FamilyKind::Summary };
    (@add $series:ident, $value:expr) => { $series.add($value) };
    (@add $series:ident $label:literal, $values:expr) => { $series.add_each($label, $values) };
    (@value counter) => { u64 };
    (@value gauge) => { u64 };
    (@value summary) => { $crate::HistogramSummary };
    (@value $kind:ident $value:ty) => { $value };
    (@read $live:expr, counter) => { $live.get() };
    (@read $live:expr, gauge) => { $live.get() };
    (@read $live:expr, summary) => { $live.summary() };
    (@read $live:expr, $kind:ident $value:ty) => { $live.snapshot() };
}
