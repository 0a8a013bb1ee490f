//! Values of settings that TOML has no type for: sizes, times, time zones.

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    time::Duration,
};

use jiff::{Span, SpanRelativeTo, tz::TimeZone};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, IntoDeserializer, Visitor, value::StrDeserializer},
};

use crate::config::LINE_BYTES_LIMIT;

/// A number of bytes, at least 1: `65536`, or a text such as `"64 KiB"` or `"500 MB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|digit: char| !digit.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
        let bytes = digits.parse::<u64>().ok()?.checked_mul(*factor)?;
        (bytes > 0).then_some(Self(bytes))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Sizes;

        impl Visitor<'_> for Sizes {
            type Value = Size;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .write_str("a positive number of bytes, as 65536, \"64 KiB\" or \"500 MB\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                let unexpected = || E::invalid_value(de::Unexpected::Signed(bytes), &self);
                let size = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
                size.map(Size).ok_or_else(unexpected)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                let unexpected = || E::invalid_value(de::Unexpected::Str(text), &self);
                Size::parse(text).ok_or_else(unexpected)
            }
        }

        from.deserialize_any(Sizes)
    }
}

/// Reads a time with its unit, such as `10s`, `1h 30m` or `30d`; a day has 24 hours.
///
/// # Errors
///
/// What is expected.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    let span = text.parse::<Span>().ok();
    let time = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let time = time.and_then(|time| Duration::try_from(time).ok());
    time.ok_or("a time with its unit, as \"10s\", \"1h 30m\" or \"30d\"")
}

/// A time with its unit, longer than 0, such as `"10s"`, `"1h 30m"` or `"30d"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let is_positive = |time: &Duration| !time.is_zero();
        let time = duration(&text).ok().filter(is_positive);
        time.map(Self).ok_or_else(|| {
            let expected = "a positive time with its unit, as \"10s\", \"1h 30m\" or \"30d\"";
            de::Error::invalid_value(de::Unexpected::Str(&text), &expected)
        })
    }
}

/// A time zone: `"local"`, or a name such as `"UTC"` or `"Europe/Berlin"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(pub TimeZone);

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        match name.as_str() {
            "local" => Ok(Self(TimeZone::system())),
            // Without a database of time zones, too.
            "UTC" => Ok(Self(TimeZone::UTC)),
            name => TimeZone::get(name).map(Self).map_err(de::Error::custom),
        }
    }
}

/// A value with a text form of its own, such as a policy.
pub(super) fn text<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: fmt::Display>,
{
    String::deserialize(from)?
        .parse()
        .map_err(de::Error::custom)
}

/// As [`text`], of an option.
pub(super) fn some_text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: fmt::Display>,
{
    text(from).map(Some)
}

/// An address and a port; of a name, its first IPv4 address, else its first one.
///
/// # Errors
/// Why the text is none.
pub fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':')
        && port.parse::<u16>().is_ok()
    {
        return Err(format!("`{text}` has no host; write 0.0.0.0:{port}"));
    }
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| format!("`{text}` is no ADDRESS:PORT: {error}"))?;
    let first = found.min_by_key(|address| !address.is_ipv4());
    first.ok_or_else(|| format!("`{text}` has no address"))
}

pub(crate) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    resolve(&String::deserialize(from)?).map_err(de::Error::custom)
}

pub(super) fn some_address<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(from).map(Some)
}

/// The bound of a line.
pub(super) fn some_line_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Size>, D::Error> {
    let size = Size::deserialize(from)?;
    if size.0 > LINE_BYTES_LIMIT as u64 {
        return Err(de::Error::custom("a line has at most 8 MiB"));
    }
    Ok(Some(size))
}

#[cfg(feature = "tls")]
pub(crate) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Time::deserialize(from).map(|time| time.0)
}

pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    Size::deserialize(from).map(|size| size.0 as usize)
}

pub(crate) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    size(from).map(Some)
}

/// Reads a value as a string of the file is read: for flags.
///
/// # Errors
/// The text is no such value.
pub fn value<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let from: StrDeserializer<'_, de::value::Error> = text.into_deserializer();
    T::deserialize(from).map_err(|error| error.to_string())
}
