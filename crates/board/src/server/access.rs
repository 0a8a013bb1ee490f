//! Who may look.
//!
//! Without a token: whoever can reach the address, which is this machine. A page of somebody else in the
//! same browser can reach it as well, under a name that it makes point here; so the request must name an
//! address, or localhost. With a token: who shows it, in a header or, for browsers, in a cookie that a
//! first visit to `/?token=...` sets.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};
use subtle::ConstantTimeEq;

/// What has to be shown.
#[derive(Clone, Debug)]
pub(super) struct Access {
    token: Option<String>,
    /// The cookie's name, with the port: to browsers all ports of a host are one.
    cookie: String,
}

/// Whether a request may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    /// By the token in the address: a browser is to keep it as a cookie instead.
    GrantedByAddress,
    /// No token, or not this one.
    Unauthorised,
    /// For a page of another site, which has no business here and would take up a viewer's place.
    OtherSite,
    /// Under a name that is not ours.
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
        // First, so that a browser that has the cookie already takes it out of its address bar as well.
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

    /// The header that makes a browser keep the token.
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

/// Whether a browser asks for the page of another site. That somebody follows a link to here is no such thing.
fn is_of_other_site(headers: &HeaderMap) -> bool {
    let value = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let is_other = matches!(value("sec-fetch-site"), Some("cross-site" | "same-site"));
    is_other && value("sec-fetch-mode") != Some("navigate")
}

/// A token has nothing in it that would have to be escaped.
fn in_query(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| (name == "token").then_some(value))
}

/// Whether the request names an address or localhost, as a person's does.
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
    // Digits alone: a number would be parsed with a plus sign, too.
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_local && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// `localhost`, and names below it, which browsers look up nowhere.
fn is_local_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (name == "localhost" || name.ends_with(".localhost")) && name.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(access: &Access, uri: &str, headers: &[(header::HeaderName, &str)]) -> Verdict {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        access.judge(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn with_a_token_whoever_shows_it_is() {
        let access = Access::new(Some("abcdefghijklmnop".to_owned()), 7_700);
        let bearer = "Bearer abcdefghijklmnop";
        let cookie = "theme=dark; freeboard_token_7700=abcdefghijklmnop";
        for (uri, headers, wanted) in [
            ("/", vec![(header::AUTHORIZATION, bearer)], Verdict::Granted),
            ("/", vec![(header::COOKIE, cookie)], Verdict::Granted),
            (
                "/?a=b&token=abcdefghijklmnop",
                vec![],
                Verdict::GrantedByAddress,
            ),
            ("/?token=abcdefghijklmno", vec![], Verdict::Unauthorised),
            (
                "/",
                vec![(header::AUTHORIZATION, "abcdefghijklmnop")],
                Verdict::Unauthorised,
            ),
            (
                "/",
                vec![(header::HOST, "127.0.0.1")],
                Verdict::Unauthorised,
            ),
        ] {
            assert_eq!(judge(&access, uri, &headers), wanted, "{uri} {headers:?}");
        }
    }
}
