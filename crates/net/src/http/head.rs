//! The head of a request: target, headers and the length of its body.

use std::{mem::MaybeUninit, net::Ipv6Addr};

use bytes::{Buf, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING},
};

use super::{
    chunked::Chunked,
    limits::{Limits, Refusal},
};

/// How the length of the body is given (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// So many bytes; 0 if no length is given.
    Fixed(usize),
    /// In chunks, with the state of the decoder.
    Chunked(Chunked),
}

/// A parsed head.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) request: Request<()>,
    pub(super) body_length: BodyLength,
    /// Whether the connection may carry another request.
    pub(super) keeps_alive: bool,
    pub(super) expects_continue: bool,
}

impl Head {
    /// Takes a head from the front of `inbox`; `None` if it is incomplete.
    pub(super) fn take(inbox: &mut BytesMut, limits: &Limits) -> Result<Option<Self>, Refusal> {
        // Uninitialized: setting a hundred costs more than reading the usual few.
        let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        let shown = &inbox[..inbox.len().min(limits.head_bytes)];
        let length = match parsed.parse_with_uninit_headers(shown, &mut fields) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if inbox.len() >= limits.head_bytes => {
                return Err(Refusal::HeadTooLong);
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLong),
            Err(httparse::Error::Version) => return Err(Refusal::Version),
            Err(_) => return Err(Refusal::Malformed("the head")),
        };
        let head = Self::of(&parsed)?;
        inbox.advance(length);
        Ok(Some(head))
    }

    fn of(parsed: &httparse::Request<'_, '_>) -> Result<Self, Refusal> {
        let version = match parsed.version {
            Some(0) => Version::HTTP_10,
            _ => Version::HTTP_11,
        };
        let method = parsed.method.unwrap_or_default();
        let target = parsed.path.unwrap_or_default();
        let mut request = Request::new(());
        *request.version_mut() = version;
        *request.method_mut() =
            Method::from_bytes(method.as_bytes()).map_err(|_| Refusal::Malformed("the method"))?;
        *request.uri_mut() = read_target(target, request.method())?;
        let headers = request.headers_mut();
        headers.reserve(parsed.headers.len());
        for field in &*parsed.headers {
            let name = HeaderName::from_bytes(field.name.as_bytes())
                .map_err(|_| Refusal::Malformed("a header's name"))?;
            let value = HeaderValue::from_bytes(field.value)
                .map_err(|_| Refusal::Malformed("a header's value"))?;
            headers.append(name, value);
        }
        let body_length = body_length(headers, version)?;
        see_host(headers, version)?;
        let expects_continue = match headers.get(EXPECT) {
            None => false,
            // HTTP/1.0 does not define it.
            Some(_) if version == Version::HTTP_10 => false,
            Some(value) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => true,
            Some(_) => return Err(Refusal::Expectation),
        };
        let keeps_alive = if version == Version::HTTP_11 {
            !has_connection_token(headers, "close")
        } else {
            has_connection_token(headers, "keep-alive") && !has_connection_token(headers, "close")
        };
        Ok(Self {
            request,
            body_length,
            keeps_alive,
            expects_continue,
        })
    }

    /// The request, with its body.
    pub(super) fn with_body(self, body: Bytes) -> Request<Bytes> {
        self.request.map(|()| body)
    }
}

/// The most header fields of a request.
const HEADERS_MAX: usize = 100;

/// The target: a path, a complete URL, or `*` for OPTIONS (RFC 9112, 3.2).
fn read_target(target: &str, method: &Method) -> Result<Uri, Refusal> {
    if method == Method::CONNECT {
        // A response would open a tunnel.
        return Err(Refusal::Method);
    }
    let uri = Uri::try_from(target).map_err(|_| Refusal::Malformed("the target"))?;
    let is_known = target.starts_with('/')
        || uri.scheme().is_some() && uri.authority().is_some()
        || target == "*" && method == Method::OPTIONS;
    let is_elsewhere = uri.authority().is_some_and(|it| !is_host(it.as_str()));
    if !is_known || is_elsewhere || target.contains('#') {
        return Err(Refusal::Malformed("the target"));
    }
    Ok(uri)
}

/// Refuses requests without a unique valid host: parsers disagree on them (RFC 9112, 3.2).
fn see_host(headers: &HeaderMap, version: Version) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || host.is_none() && version == Version::HTTP_11 {
        return Err(Refusal::Malformed("it needs one host"));
    }
    let is_host = |host: &HeaderValue| host.is_empty() || host.to_str().is_ok_and(is_host);
    if host.is_some_and(|host| !is_host(host)) {
        return Err(Refusal::Malformed("the host"));
    }
    Ok(())
}

/// Whether it is a name or an address with an optional port (RFC 3986, 3.2.2 and 3.2.3). An address in brackets
/// must be IPv6: no other form is defined yet.
fn is_host(text: &str) -> bool {
    let (is_known, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').unwrap_or_default();
            (address.parse::<Ipv6Addr>().is_ok(), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_name(name.as_bytes()), port)
        }
    };
    let is_port = |port: &str| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && (port.is_empty() || port.parse::<u16>().is_ok())
    };
    is_known && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// A registered name or an IPv4 address. Percent signs are refused: parsers decode them differently.
fn is_name(name: &[u8]) -> bool {
    let mut bytes = name.iter();
    !name.is_empty()
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte))
}

/// Whether the connection header has this token.
pub(super) fn has_connection_token(headers: &HeaderMap, token: &str) -> bool {
    let values = headers.get_all(CONNECTION).into_iter();
    values
        // Compared as bytes: a byte outside ASCII must not hide the tokens beside it.
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Ambiguous lengths make request smuggling possible, so they are refused (RFC 9112, 6.3).
fn body_length(headers: &HeaderMap, version: Version) -> Result<BodyLength, Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(BodyLength::Fixed(0)),
        (Some(_), Some(_)) => Err(Refusal::Malformed("two lengths")),
        (Some(_), None) if version == Version::HTTP_10 => {
            Err(Refusal::Malformed("a transfer coding in HTTP/1.0"))
        }
        (Some(coding), None) => {
            let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
            if !is_chunked || codings.next().is_some() {
                return Err(Refusal::Coding);
            }
            Ok(BodyLength::Chunked(Chunked::Size))
        }
        (None, Some(length)) => {
            let digits = length.as_bytes();
            if lengths.any(|other| other.as_bytes() != digits) {
                return Err(Refusal::Malformed("two lengths"));
            }
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(Refusal::Malformed("the length"));
            }
            // All are digits: a number that does not parse exceeds every limit.
            let text = length.to_str().unwrap_or_default();
            Ok(BodyLength::Fixed(text.parse().unwrap_or(usize::MAX)))
        }
    }
}
