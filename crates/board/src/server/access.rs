//! Who may look.
//!
//! Without a token: whoever can reach the address, which is this machine. A page of somebody else in the
//! same browser can reach it as well, under a name that it makes point here; so the request must name an
//! address, or localhost. With a token: who shows it, in a header or, for browsers, in a cookie that a
//! first visit to `/?token=...` sets.

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
    let Some(host) = headers.get(header::HOST).and_then(|it| it.to_str().ok()) else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    is_address || name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost")
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
    fn without_a_token_only_this_machines_names_are_answered() {
        let access = Access::new(None, 7_700);
        for host in [
            "127.0.0.1:7700",
            "localhost",
            "[::1]:7700",
            "board.localhost:1",
        ] {
            let got = judge(&access, "/", &[(header::HOST, host)]);
            assert_eq!(got, Verdict::Granted, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:7700", ""] {
            let got = judge(&access, "/", &[(header::HOST, host)]);
            assert_eq!(got, Verdict::WrongHost, "{host}");
        }
        assert_eq!(judge(&access, "/", &[]), Verdict::WrongHost);
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
