//! Access control.
//!
//! Without a token the board binds to localhost, and every client there may read it. A foreign page in a local
//! browser could reach it under a domain name that resolves to 127.0.0.1 (DNS rebinding), so the Host header must
//! be an address or localhost. With a token, requests carry it in a header or, in browsers, in a cookie that a
//! first visit to `/?token=...` sets.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};
use subtle::ConstantTimeEq;

/// The token, and the cookie that carries it.
#[derive(Clone, Debug)]
pub(super) struct Access {
    token: Option<String>,
    /// The cookie's name, with the port: browsers share cookies between ports.
    cookie: String,
}

/// The result of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    /// By the token in the address: a browser should keep it as a cookie instead.
    GrantedByAddress,
    /// No token, or a wrong one.
    Unauthorised,
    /// By a page of another site, which may neither read frames nor use up viewers.
    OtherSite,
    /// Under a foreign host name.
    WrongHost,
}

impl Access {
    pub(super) fn new(token: Option<String>, port: u16) -> Self {
        Self {
            token,
            cookie: format!("freeboard_token_{port}"),
        }
    }

    pub(super) fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Verdict {
        if is_of_other_site(headers) {
            return Verdict::OtherSite;
        }
        let Some(token) = &self.token else {
            return if is_local_host(headers) {
                Verdict::Granted
            } else {
                Verdict::WrongHost
            };
        };
        let is_right = |shown: &str| bool::from(shown.as_bytes().ct_eq(token.as_bytes()));
        // First, so that browsers with a cookie drop the token from the address bar as well.
        if in_query(uri).is_some_and(is_right) {
            Verdict::GrantedByAddress
        } else if bearer(headers).is_some_and(is_right)
            || self.cookie(headers).is_some_and(is_right)
        {
            Verdict::Granted
        } else {
            Verdict::Unauthorised
        }
    }

    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(header::COOKIE).iter();
        lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'))
            .find_map(|pair| pair.trim().strip_prefix(&*self.cookie)?.strip_prefix('='))
    }

    /// The header that stores the token in the browser.
    pub(super) fn set_cookie(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        Some(format!(
            "{}={token}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie
        ))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}

/// Whether a browser sends the request for a page of another site. Following a link to the board is allowed.
fn is_of_other_site(headers: &HeaderMap) -> bool {
    let value = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let is_other = matches!(value("sec-fetch-site"), Some("cross-site" | "same-site"));
    is_other && value("sec-fetch-mode") != Some("navigate")
}

/// A token has no characters that need escaping.
fn in_query(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| (name == "token").then_some(value))
}

/// Whether the Host header is an address or localhost.
fn is_local_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|it| it.to_str().ok());
    let (Some(host), None) = (host, hosts.next()) else {
        return false;
    };
    let (is_local, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').unwrap_or_default();
            (address.parse::<Ipv6Addr>().is_ok(), port)
        }
        None => {
            let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
            (
                name.parse::<Ipv4Addr>().is_ok() || is_local_name(name),
                port,
            )
        }
    };
    // Digits only: `parse` would accept a plus sign.
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_local && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// `localhost` and names below it, which browsers do not resolve by DNS.
fn is_local_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (name == "localhost" || name.ends_with(".localhost")) && name.bytes().all(is_letter)
}
