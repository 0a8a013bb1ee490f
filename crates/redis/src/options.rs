//! Options of clients, and their URL form.

use std::{fmt, time::Duration};

use freeboard_flow::{Backoff, ConfigError};
use http::Uri;
use percent_encoding::percent_decode_str;

use crate::{protocol::Limits, routing::Routing};

/// Redis' own port.
const PORT_DEFAULT: u16 = 6379;

/// Options of a client. The default is a server on localhost without a password.
///
/// ```
/// use freeboard_redis::RedisOptions;
///
/// let options = RedisOptions::from_url("redis://worker:s%3Acret@cache.internal:6380/2")?;
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
    /// Name for `AUTH`, used with a password; default Redis' `default`.
    pub username: Option<String>,
    /// Default none.
    pub password: Option<String>,
    /// Number of the database; default 0.
    pub database: u32,
    /// Name of the connections in `CLIENT LIST`; default none.
    pub client_name: Option<String>,
    /// Connections, 1 to [`CONNECTIONS_MAX`]; default 1. Use a separate client for commands that block
    /// (`BLPOP`).
    pub connections: usize,
    /// The choice of the connection for a command; default by the first key.
    pub routing: Routing,
    /// Limit of commands without a reply, per connection; default 10,000.
    pub credit_commands: usize,
    /// Limit of the bytes of these commands; default 64 MiB.
    pub credit_bytes: usize,
    /// Default deadline of a command, from the call; default 1 s.
    pub timeout: Duration,
    /// Limit of connecting and logging in; default 2 s.
    pub connect_timeout: Duration,
    /// A reply later than this after its deadline replaces the connection; default 2 s.
    pub overdue: Duration,
    /// Time without traffic before an idle connection sends a `PING`. If the peer vanished, the connection is
    /// replaced `timeout` plus `overdue` later. At least 1 ms; default 10 s.
    pub idle: Duration,
    /// Back-off between attempts to connect, with full jitter; default from 10 ms, doubling, to 10 s.
    pub backoff: Backoff,
    /// Seed of jitter and random routing; default differs from run to run.
    pub seed: Option<u64>,
    /// Limits of a reply.
    pub limits: Limits,
    /// Limit of subscriptions per connection; default 1,024. In addition, up to
    /// [`crate::SUBSCRIPTIONS_ENDING_MAX`] may wait for the server to end them.
    pub subscriptions: usize,
}

/// Limit of connections of a client.
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

/// Invalid options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisOptionsError {
    /// The URL is malformed.
    #[error("\"{0}\" is not a URL of the form redis://user:password@host:port/database")]
    Url(String),
    /// The URL of a cluster is malformed.
    #[error("not a URL of the form redis-cluster://user:password@host:port,host:port")]
    ClusterUrl,
    /// The URL requires TLS.
    #[error(
        "TLS (rediss://) is not supported: use a TLS proxy such as stunnel, and connect to it with redis://"
    )]
    Tls,
    /// The URL has another scheme.
    #[error("the scheme \"{0}\" is not redis://")]
    Scheme(String),
    /// The database is not a number.
    #[error("the database \"{0}\" is not a number")]
    Database(String),
    /// User name or password does not decode to UTF-8.
    #[error("the user or password in the URL is not UTF-8 in percent encoding")]
    Encoding,
    /// An option is out of range.
    #[error("{name} must be between {min} and {max}")]
    Range {
        /// Its name.
        name: &'static str,
        /// Its minimum.
        min: usize,
        /// Its maximum.
        max: usize,
    },
    /// The back-off is out of range.
    #[error(transparent)]
    Backoff(#[from] ConfigError),
}

impl RedisOptions {
    /// Parses `redis://user:password@host:port/database`. All parts except the host are optional.
    ///
    /// # Errors
    /// [`RedisOptionsError`]. Its text never contains the password.
    pub fn from_url(url: &str) -> Result<Self, RedisOptionsError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        // The part before the host may be secret.
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
        let (user, host_port) = match authority.as_str().rsplit_once('@') {
            Some((user, host_port)) => (user, host_port),
            None => ("", authority.as_str()),
        };
        let behind = host_port.strip_prefix(authority.host()).unwrap_or_default();
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

/// In nanoseconds, saturating.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn decoded(text: &str) -> Result<Option<String>, RedisOptionsError> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| RedisOptionsError::Encoding)?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
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

/// Limit of nodes of a cluster client; Redis recommends at most 1,000.
pub const NODES_MAX: usize = 1_024;

/// Options of a cluster client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// Hosts and ports of nodes from which the client learns the others; at least one.
    pub seeds: Vec<(String, u16)>,
    /// Options for each node. Host and port are ignored; the database must be 0, the only one of a cluster.
    pub node: RedisOptions,
    /// Back-off before a retry, and after a failed refresh of the slot map (there limited by
    /// `refresh_interval`); default from 10 ms, doubling, to 500 ms. Jitter removes up to half.
    pub backoff: Backoff,
    /// Limit of commands that wait for a retry; default 10,000. Beyond it, a command's outcome is the server's
    /// error.
    pub waiting: usize,
    /// Limit of the bytes of these commands; default 64 MiB.
    pub waiting_bytes: usize,
    /// Minimum time between two refreshes of the slot map, at least 1 ms; default 500 ms. In between, each
    /// `MOVED` updates its own slot.
    pub refresh_interval: Duration,
}

impl ClusterOptions {
    /// Default options for these seeds.
    pub fn new<H: Into<String>>(seeds: impl IntoIterator<Item = (H, u16)>) -> Self {
        let seeds = seeds.into_iter();
        Self {
            seeds: seeds.map(|(host, port)| (host.into(), port)).collect(),
            node: RedisOptions::default(),
            backoff: Backoff {
                min_ns: 10_000_000,
                max_ns: 500_000_000,
                factor: 2,
            },
            waiting: 10_000,
            waiting_bytes: 64 << 20,
            refresh_interval: Duration::from_millis(500),
        }
    }

    /// Parses `redis-cluster://user:password@host:port,host:port`, with one or more nodes. User, password and ports
    /// are optional.
    ///
    /// # Errors
    /// [`RedisOptionsError`]. Its text never contains the password.
    pub fn from_url(url: &str) -> Result<Self, RedisOptionsError> {
        let rest = url.strip_prefix("redis-cluster://");
        let rest = rest.ok_or(RedisOptionsError::ClusterUrl)?;
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), rest),
        };
        let nodes = hosts
            .split(',')
            .map(|host| RedisOptions::from_url(&format!("redis://{login}{host}")));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let mut options = Self::new(nodes.iter().map(|node| (node.host.clone(), node.port)));
        // The last one has the database, if there is any.
        options.node = nodes.into_iter().next_back().unwrap_or_default();
        Ok(options)
    }

    pub(crate) fn validate(&self) -> Result<(), RedisOptionsError> {
        let interval_ms = self.refresh_interval.as_millis();
        let interval_ms = usize::try_from(interval_ms).unwrap_or(usize::MAX);
        for (name, value, min, max) in [
            ("refresh_interval in ms", interval_ms, 1, usize::MAX),
            ("seeds", self.seeds.len(), 1, NODES_MAX),
            ("database", self.node.database as usize, 0, 0),
        ] {
            if !(min..=max).contains(&value) {
                return Err(RedisOptionsError::Range { name, min, max });
            }
        }
        self.backoff.validate()?;
        self.node.validate()
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
        check("localhost:6379", "not a URL");
        check("http://h", "http");
        check("redis://", "not a URL");
        check("redis://:secret@", "not a URL");
        check("redis://:secret@h:99999999/0", "not a URL");
        check("redis://:secret@h/zero", "zero");
        check("redis://:secret%ff@h", "UTF-8");
        check("redis://h?timeout=1", "not a URL");
    }

    #[test]
    fn a_clusters_url_names_several_nodes() {
        let options = ClusterOptions::from_url("redis-cluster://a:b%40c@h,[::1]:7000/").unwrap();
        let seeds = [("h".to_owned(), 6379), ("::1".to_owned(), 7000)];
        assert_eq!(options.seeds, seeds);
        assert_eq!(options.node.username.as_deref(), Some("a"));
        assert_eq!(options.node.password.as_deref(), Some("b@c"));
        let check = |url: &str, wanted: &str| {
            let options = ClusterOptions::from_url(url);
            let text = options.and_then(|it| it.validate()).unwrap_err();
            let text = text.to_string();
            assert!(text.contains(wanted), "{url}: {text}");
            assert!(!text.contains("secret"), "{url}: {text}");
        };
        check("redis://:secret@h", "redis-cluster://");
        check("redis-cluster://:secret@h,", "not a URL");
        check("redis-cluster://:secret@", "not a URL");
        check("redis-cluster://h/3", "database must be between 0 and 0");
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

    #[test]
    fn the_slots_are_not_asked_for_without_a_rest() {
        let mut options = ClusterOptions::new([("127.0.0.1", 1)]);
        assert_eq!(options.validate(), Ok(()));
        options.refresh_interval = Duration::ZERO;
        let text = options.validate().unwrap_err().to_string();
        assert!(text.starts_with("refresh_interval in ms must be"), "{text}");
    }
}
