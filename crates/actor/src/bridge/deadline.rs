//! The deadlines of requests, from the headers `x-request-timeout` and `grpc-timeout`.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

/// Digits of a timeout, in both headers. gRPC's grammar sets the limit.
const DIGITS_MAX: usize = 8;
/// Characters of a malformed value that its error repeats.
const QUOTED_MAX: usize = 32;

/// A header with a malformed timeout. The right answer is status 400, or `INVALID_ARGUMENT` in gRPC.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{header}` is {grammar}, not `{value}`")]
pub struct TimeoutError {
    header: &'static str,
    grammar: &'static str,
    value: String,
}

/// The time that the client waits, from the header `x-request-timeout`; `None` without the header.
///
/// No standard defines this header. The value here is a number of seconds, as in `Retry-After` and nginx, or a number
/// with the unit `ms`, `s` or `m`: `2`, `2s`, `250ms`, `1m`. At most 8 digits. Envoy's
/// `x-envoy-expected-rq-timeout-ms` is a number of milliseconds and is not read.
///
/// ```
/// use freeboard_actor::bridge::request_timeout;
/// use http::{HeaderMap, HeaderValue};
/// use std::time::Duration;
///
/// let headers = HeaderMap::from_iter([(
///     "x-request-timeout".parse().unwrap(),
///     HeaderValue::from_static("250ms"),
/// )]);
/// assert_eq!(request_timeout(&headers), Ok(Some(Duration::from_millis(250))));
/// ```
///
/// # Errors
/// If the value is not such a number.
pub fn request_timeout(headers: &HeaderMap) -> Result<Option<Duration>, TimeoutError> {
    let grammar = "a number of seconds, or of `ms`, `s` or `m`, with at most 8 digits";
    parse(headers, "x-request-timeout", grammar, |unit| match unit {
        "" | "s" => Some(1_000_000_000),
        "ms" => Some(1_000_000),
        "m" => Some(60_000_000_000),
        _ => None,
    })
}

/// The time that the client waits, from the header `grpc-timeout`; `None` without the header. Its value is a number of
/// at most 8 digits and a unit: `H`, `M`, `S`, `m` (ms), `u` (us), `n` (ns).
///
/// # Errors
/// If the value is not such a number.
pub fn grpc_timeout(headers: &HeaderMap) -> Result<Option<Duration>, TimeoutError> {
    let grammar = "at most 8 digits and a unit of `H`, `M`, `S`, `m`, `u`, `n`";
    parse(headers, "grpc-timeout", grammar, |unit| match unit {
        "H" => Some(3_600_000_000_000),
        "M" => Some(60_000_000_000),
        "S" => Some(1_000_000_000),
        "m" => Some(1_000_000),
        "u" => Some(1_000),
        "n" => Some(1),
        _ => None,
    })
}

fn parse(
    headers: &HeaderMap,
    header: &'static str,
    grammar: &'static str,
    unit_ns: fn(&str) -> Option<u64>,
) -> Result<Option<Duration>, TimeoutError> {
    let Some(value) = headers.get(header) else {
        return Ok(None);
    };
    let timeout = parse_value(value, unit_ns);
    timeout.map(Some).ok_or_else(|| TimeoutError {
        header,
        grammar,
        value: String::from_utf8_lossy(value.as_bytes())
            .chars()
            .take(QUOTED_MAX)
            .collect(),
    })
}

fn parse_value(value: &HeaderValue, unit_ns: fn(&str) -> Option<u64>) -> Option<Duration> {
    let value = value.to_str().ok()?;
    let unit_at = value.find(|it: char| !it.is_ascii_digit());
    let (digits, unit) = value.split_at(unit_at.unwrap_or(value.len()));
    if digits.len() > DIGITS_MAX {
        return None;
    }
    // No overflow: 8 digits of hours are 3.6e20 ns, which is more than 64 bits hold, but not more than 128.
    let total_ns = u128::from(digits.parse::<u32>().ok()?) * u128::from(unit_ns(unit)?);
    let seconds = u64::try_from(total_ns / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (total_ns % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parser = fn(&HeaderMap) -> Result<Option<Duration>, TimeoutError>;

    fn parsed(parser: Parser, header: &'static str, value: &[u8]) -> Result<u128, String> {
        let value = HeaderValue::from_bytes(value).expect("a header value");
        let headers = HeaderMap::from_iter([(header.parse().expect("a name"), value)]);
        let timeout = parser(&headers).map_err(|error| error.to_string())?;
        Ok(timeout.expect("the header is there").as_nanos())
    }

    #[test]
    fn timeouts_are_read_by_their_grammar() {
        let plain = |value: &str| parsed(request_timeout, "x-request-timeout", value.as_bytes());
        for (value, millis) in [
            ("2", 2_000),
            ("2s", 2_000),
            ("250ms", 250),
            ("1m", 60_000),
            ("0", 0),
        ] {
            assert_eq!(plain(value), Ok(millis * 1_000_000), "{value}");
        }
        let grpc = |value: &str| parsed(grpc_timeout, "grpc-timeout", value.as_bytes());
        let units = [
            ("H", 3_600_000_000_000),
            ("M", 60_000_000_000),
            ("S", 1_000_000_000),
        ];
        for (unit, unit_ns) in units
            .into_iter()
            .chain([("m", 1_000_000), ("u", 1_000), ("n", 1)])
        {
            for number in [0, 1, 99_999_999_u128] {
                assert_eq!(grpc(&format!("{number}{unit}")), Ok(number * unit_ns));
            }
        }
        for malformed in [
            "",
            "S",
            "1",
            "123456789S",
            "1 S",
            "-1S",
            "+1S",
            "1.5S",
            "1s",
            "1SS",
            "S1",
        ] {
            let error = grpc(malformed).expect_err(malformed);
            assert!(error.contains(&format!("not `{malformed}`")), "{error}");
        }
        for malformed in ["", "s", "1h", "1.5", "123456789", "1 s", "soon", "-1", "+1"] {
            plain(malformed).expect_err(malformed);
        }
        parsed(grpc_timeout, "grpc-timeout", b"\xff1S").expect_err("not ASCII");
        let long = parsed(grpc_timeout, "grpc-timeout", &[b'9'; 10_000]).expect_err("too long");
        assert!(long.len() < 200, "{long}");
        assert_eq!(request_timeout(&HeaderMap::new()), Ok(None));
    }
}
