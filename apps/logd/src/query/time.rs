//! Points in time, as `journalctl` takes them.

use jiff::{Span, Timestamp, Zoned, civil, fmt::strtime, tz::TimeZone};

/// The text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no time: write 2026-11-23 10:00, 10:00, -1h, 1h ago, 2 days ago, yesterday, today, midnight, now or @1700000000"
)]
pub struct TimeError(String);

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The time that `text` says, in nanoseconds since 1970; `now` has the time zone that is meant.
///
/// - `2026-11-23 10:00:05.5`, with less, with a zone (`2026-11-23T10:00:00Z`) or as systemd prints it
///   (`Mon 2026-11-23 10:00:05 UTC`); a date alone is its first moment;
/// - `Nov 23 10:00:05`, as lines are shown: the last one that is not in the future;
/// - `10:00`, `9:05`: today;
/// - `now`, `today`, `yesterday`, `tomorrow`: the last three are their first moment; `midnight` is `today`;
/// - `-1h`, `-1h30m`, `+5min`, `1h ago`, `2 days ago`;
/// - `@1700000000`, `@1700000000.5`: seconds since 1970.
///
/// # Errors
/// [`TimeError`]: it is none of them, or before 1970.
pub fn parse_time(text: &str, now: &Zoned) -> Result<u64, TimeError> {
    let error = || TimeError(text.to_owned());
    let time = timestamp(text.trim(), now).ok_or_else(error)?;
    u64::try_from(time.as_nanosecond()).map_err(|_| error())
}

fn timestamp(text: &str, now: &Zoned) -> Option<Timestamp> {
    let day = |days: i64| -> Option<Timestamp> {
        let day = now.checked_add(Span::new().days(days)).ok()?;
        Some(day.start_of_day().ok()?.timestamp())
    };
    match text {
        "now" => return Some(now.timestamp()),
        "today" | "midnight" => return day(0),
        "yesterday" => return day(-1),
        "tomorrow" => return day(1),
        _ => {}
    }
    if let Some(text) = text.strip_suffix(" UTC") {
        return timestamp(text, &now.with_time_zone(TimeZone::UTC));
    }
    if let Some((day, text)) = text.split_once(' ')
        && WEEKDAYS.contains(&day)
    {
        return timestamp(text, now);
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let (seconds, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if !is_number(seconds) || !is_number(part) || part.len() > 9 {
            return None;
        }
        let nanoseconds = format!("{part:0<9}").parse().ok()?;
        return Timestamp::new(seconds.parse().ok()?, nanoseconds).ok();
    }
    if text.starts_with(['-', '+']) || text.ends_with(" ago") {
        let span: Span = text.parse().ok()?;
        return Some(now.checked_add(span).ok()?.timestamp());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    // An hour may have one digit.
    let time = text.rsplit([' ', 'T']).next().unwrap_or_default();
    let padded = match time.as_bytes() {
        [b'0'..=b'9', b':', ..] => format!("{}0{time}", &text[..text.len() - time.len()]),
        _ => text.to_owned(),
    };
    let text = padded.as_str();
    let zoned = |time: civil::DateTime| time.to_zoned(now.time_zone().clone()).ok();
    let in_year = |year: i16| {
        let time = strtime::parse("%Y %b %e %H:%M:%S", format!("{year} {text}"));
        zoned(time.ok()?.to_datetime().ok()?)
    };
    let local = match text.parse::<civil::Time>() {
        Ok(time) if !text.contains(['-', 'T', ' ']) => zoned(now.date().to_datetime(time)),
        _ => text.parse().ok().and_then(zoned),
    };
    let this_year = || in_year(now.year()).filter(|time| time <= now);
    let local = local.or_else(this_year);
    let local = local.or_else(|| in_year(now.year() - 1));
    Some(local?.timestamp())
}
