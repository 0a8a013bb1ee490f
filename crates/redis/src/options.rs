//! Settings of a client, and the URL that they can be written as.

use std::{fmt, str::FromStr, time::Duration};

use freeboard_flow::{Backoff, ConfigError};
use http::Uri;
use percent_encoding::percent_decode_str;

use crate::{protocol::Limits, routing::Routing};

/// Redis' own port.
const PORT_DEFAULT: u16 = 6379;

/// Settings of a client. `RedisOptions::default()` is the server of this machine, without a password.
///
/// ```
/// use freeboard_redis::RedisOptions;
///
/// let options: RedisOptions = "redis://worker:s%3Acret@cache.internal:6380/2".parse()?;
/// assert_eq!((options.host.as_str(), options.port), ("cache.internal", 6380));
/// assert_eq!(options.password.as_deref(), Some("s:cret"));
/// # Ok::<(), freeboard_redis::RedisOptionsError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct RedisOptions {
    /// A name or an address; default `127.0.0.1`.
    pub host: String,
    /// Default 6379.
    pub port: u16,
    /// Who logs in, if there is a password; default Redis' `default`.
    pub username: Option<String>,
    /// Default none.
    pub password: Option<String>,
    /// Number of the database; default 0.
    pub database: u32,
    /// The name by which the server lists the connections; default none.
    pub client_name: Option<String>,
    /// Connections, 1 to [`CONNECTIONS_MAX`]; default 1. What needs a connection of its own (`BLPOP`
    /// and others that block, `WATCH`) takes a client of its own.
    pub connections: usize,
    /// Which of them a command takes; default by the first key.
    pub routing: Routing,
    /// The most commands that are under way on each, until their reply; default 10,000.
    pub credit_commands: usize,
    /// The most bytes of commands that are under way on each; default 64 MiB.
    pub credit_bytes: usize,
    /// The most commands that are written at once; default 256.
    pub batch_commands: usize,
    /// The most bytes that are written at once, but for larger commands; default 64 KiB.
    pub batch_bytes: usize,
    /// The deadline of commands that say none, from the call; default 1 s.
    pub timeout: Duration,
    /// How long connecting and logging in may take; default 2 s.
    pub connect_timeout: Duration,
    /// How long after its deadline a reply has the connection replaced; default 2 s.
    pub overdue: Duration,
    /// How long nothing may come, with no command under way, before the server is asked whether it is still
    /// there (`PING`): a connection whose other end is gone without a word is replaced `timeout` and
    /// `overdue` after that. At least 1 ms; default 10 s.
    pub idle: Duration,
    /// The longest wait before each attempt to connect again, of which any part is waited (full jitter);
    /// default from 10 ms, doubling, to 10 s.
    pub backoff: Backoff,
    /// Where the jitter and routing at random start; default differs from run to run.
    pub seed: Option<u64>,
    /// What a reply may be at most.
    pub limits: Limits,
    /// The most subscriptions on each connection; default 1,024. Beside them up to
    /// [`crate::SUBSCRIPTIONS_ENDING_MAX`] may be about to end.
    pub subscriptions: usize,
}

/// The most connections of a client.
pub const CONNECTIONS_MAX: usize = 1_024;

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: PORT_DEFAULT,
            username: None,
            password: None,
            database: 0,
            client_name: None,
            connections: 1,
            routing: Routing::default(),
            credit_commands: 10_000,
            credit_bytes: 64 << 20,
            batch_commands: 256,
            batch_bytes: 64 << 10,
            timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            overdue: Duration::from_secs(2),
            idle: Duration::from_secs(10),
            backoff: Backoff::default(),
            seed: None,
            limits: Limits::default(),
            subscriptions: 1_024,
        }
    }
}

/// Settings that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisOptionsError {
    /// The URL is none.
    #[error("\"{0}\" is no URL of the form redis://user:password@host:port/database")]
    Url(String),
    /// The URL asks for TLS.
    #[error(
        "rediss:// asks for TLS, which is not built in: put a TLS proxy such as stunnel before the \
         server and connect to it with redis://"
    )]
    Tls,
    /// The URL has another scheme.
    #[error("the scheme \"{0}\" is not redis://")]
    Scheme(String),
    /// The database is no number.
    #[error("the database \"{0}\" is no number")]
    Database(String),
    /// The user's name or the password does not decode to UTF-8.
    #[error("the user or password in the URL is not UTF-8 in percent encoding")]
    Encoding,
    /// A setting is out of range.
    #[error("{name} must be between {min} and {max}")]
    Range {
        /// Its name.
        name: &'static str,
        /// Its least value.
        min: usize,
        /// Its greatest value.
        max: usize,
    },
    /// The back-off is out of range.
    #[error(transparent)]
    Backoff(#[from] ConfigError),
}

impl RedisOptions {
    /// From `redis://user:password@host:port/database`, of which all but the host may be missing.
    ///
    /// # Errors
    /// [`RedisOptionsError`]. No password is in its text.
    pub fn from_url(url: &str) -> Result<Self, RedisOptionsError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        // What stands before the host may be secret.
        let shown = || match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://…@{host}"),
            None => url.to_owned(),
        };
        match scheme {
            "redis" => {}
            "rediss" => return Err(RedisOptionsError::Tls),
            "" => return Err(RedisOptionsError::Url(shown())),
            other => return Err(RedisOptionsError::Scheme(other.to_owned())),
        }
        let invalid = || RedisOptionsError::Url(shown());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() || uri.query().is_some() {
            return Err(invalid());
        }
        let (user, place) = match authority.as_str().rsplit_once('@') {
            Some((user, place)) => (user, place),
            None => ("", authority.as_str()),
        };
        let behind = place.strip_prefix(authority.host()).unwrap_or_default();
        let port = match behind.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| invalid())?,
            None => PORT_DEFAULT,
        };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let mut options = Self {
            host: host.to_owned(),
            port,
            username: decoded(name)?,
            password: decoded(password)?,
            ..Self::default()
        };
        match uri.path().trim_start_matches('/') {
            "" => {}
            number => {
                let parsed = number.parse();
                options.database =
                    parsed.map_err(|_| RedisOptionsError::Database(number.to_owned()))?;
            }
        }
        Ok(options)
    }

    pub(crate) fn validate(&self) -> Result<(), RedisOptionsError> {
        const MANY: usize = u32::MAX as usize;
        let idle = usize::try_from(self.idle.as_millis()).unwrap_or(usize::MAX);
        for (name, value, min, max) in [
            ("connections", self.connections, 1, CONNECTIONS_MAX),
            ("credit_commands", self.credit_commands, 1, MANY),
            ("credit_bytes", self.credit_bytes, 1, usize::MAX / 4),
            ("batch_commands", self.batch_commands, 1, MANY),
            ("batch_bytes", self.batch_bytes, 1, usize::MAX / 4),
            ("subscriptions", self.subscriptions, 0, MANY),
            ("idle in ms", idle, 1, usize::MAX),
        ] {
            if !(min..=max).contains(&value) {
                return Err(RedisOptionsError::Range { name, min, max });
            }
        }
        self.backoff.validate()?;
        Ok(())
    }
}

fn decoded(text: &str) -> Result<Option<String>, RedisOptionsError> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| RedisOptionsError::Encoding)?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

impl FromStr for RedisOptions {
    type Err = RedisOptionsError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        Self::from_url(url)
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RedisOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("database", &self.database)
            .field("connections", &self.connections)
            .field("routing", &self.routing)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_part_by_part() {
        let check = |url: &str, host: &str, port, login: [Option<&str>; 2], database| {
            let options = RedisOptions::from_url(url).unwrap();
            assert_eq!((options.host.as_str(), options.port), (host, port), "{url}");
            let [user, password] = login;
            assert_eq!(options.username.as_deref(), user, "{url}");
            assert_eq!(options.password.as_deref(), password, "{url}");
            assert_eq!(options.database, database, "{url}");
        };
        check("redis://localhost", "localhost", 6379, [None, None], 0);
        check("redis://10.0.0.7:7000/", "10.0.0.7", 7000, [None, None], 0);
        check("redis://[::1]:7000/3", "::1", 7000, [None, None], 3);
        check("redis://:pa%20ss@h/1", "h", 6379, [None, Some("pa ss")], 1);
        check("redis://a:b%40c@h", "h", 6379, [Some("a"), Some("b@c")], 0);
    }

    #[test]
    fn bad_urls_say_why_and_never_the_password() {
        let check = |url: &str, wanted: &str| {
            let text = RedisOptions::from_url(url).unwrap_err().to_string();
            assert!(text.contains(wanted), "{url}: {text}");
            assert!(!text.contains("secret"), "{url}: {text}");
        };
        check("rediss://:secret@h", "TLS");
        check("localhost:6379", "no URL");
        check("http://h", "http");
        check("redis://", "no URL");
        check("redis://:secret@", "no URL");
        check("redis://:secret@h:99999999/0", "no URL");
        check("redis://:secret@h/zero", "zero");
        check("redis://:secret%ff@h", "UTF-8");
        check("redis://h?timeout=1", "no URL");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let options = RedisOptions {
            connections: 0,
            ..RedisOptions::default()
        };
        let text = options.validate().unwrap_err().to_string();
        assert_eq!(text, "connections must be between 1 and 1024");
        let options = RedisOptions {
            idle: Duration::from_micros(999),
            ..RedisOptions::default()
        };
        let text = options.validate().unwrap_err().to_string();
        assert!(text.starts_with("idle in ms must be"), "{text}");
    }
}
