//! How to connect to NATS.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr, rustls::crypto};
use freeboard_flow::random;
use freeboard_meter::clock;

/// The first delay before another attempt to connect; it doubles up to [`NatsOptions::reconnect_delay_max`].
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(20);
/// Commands that async-nats queues. A batch of the engine has fewer.
const COMMANDS_MAX: usize = 4_096;
/// Messages that a subscription queues. The engine reads all that have come whenever its thread is free, so this is only
/// reached by more small messages than fit into what async-nats reads at once, 8 MiB.
const MESSAGES_MAX: usize = 1 << 20;

enum Login {
    None,
    Token(String),
    Password(String, String),
    CredentialsFile(PathBuf),
    Nkey(String),
}

/// Where the server is, and how to connect to it.
///
/// ```
/// use freeboard_remote::NatsOptions;
///
/// let options = NatsOptions::new("nats://127.0.0.1:4222").name("orders");
/// # let _ = options;
/// ```
#[must_use]
pub struct NatsOptions {
    urls: String,
    name: Option<String>,
    login: Login,
    ca_file: Option<PathBuf>,
    client_certificate: Option<(PathBuf, PathBuf)>,
    requires_tls: bool,
    pub(super) held_bytes_max: usize,
    pub(super) connect_time: Duration,
    pub(super) request_time: Duration,
    ping_interval: Duration,
    reconnect_delay_max: Duration,
    pub(super) retries_initial: bool,
    pub(super) replicas: usize,
}

/// Without the secrets.
impl fmt::Debug for NatsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NatsOptions")
            .field("servers", &self.servers())
            .finish_non_exhaustive()
    }
}

impl NatsOptions {
    /// The servers: `nats://host:port`, or `tls://host:port`; several of a cluster with commas between them. A URL may have
    /// a login, `nats://user:password@host` or `nats://token@host`, which is used for all servers.
    pub fn new(urls: impl Into<String>) -> Self {
        Self {
            urls: urls.into(),
            name: None,
            login: Login::None,
            ca_file: None,
            client_certificate: None,
            requires_tls: false,
            held_bytes_max: 8 << 20,
            connect_time: Duration::from_secs(5),
            request_time: Duration::from_secs(2),
            ping_interval: Duration::from_secs(1),
            reconnect_delay_max: Duration::from_secs(1),
            retries_initial: false,
            replicas: 1,
        }
    }

    /// What the server's monitoring shows as the name of the connection.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Logs in with a token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.login = Login::Token(token.into());
        self
    }

    /// Logs in with a user and a password.
    pub fn user_and_password(
        mut self,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.login = Login::Password(user.into(), password.into());
        self
    }

    /// Logs in with a credentials file, which has a JWT and its seed.
    pub fn credentials_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.login = Login::CredentialsFile(file.into());
        self
    }

    /// Logs in with the seed of an NKey.
    pub fn nkey(mut self, seed: impl Into<String>) -> Self {
        self.login = Login::Nkey(seed.into());
        self
    }

    /// Trusts the certificates of this PEM file in place of the system's.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Shows the server this certificate. Both are PEM files.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.client_certificate = Some((certificate.into(), key.into()));
        self
    }

    /// Fails if the server has no TLS. The default is to use it if the server has it, or if the URL begins with `tls:`.
    pub fn require_tls(mut self) -> Self {
        self.requires_tls = true;
        self
    }

    /// The most bytes of messages that the connection has not taken yet. Default 8 MiB. A larger single message is taken
    /// when nothing else is held.
    pub fn held_bytes_max(mut self, bytes: usize) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// The time for the first connection, all servers together. Default 5 s.
    pub fn connect_time(mut self, time: Duration) -> Self {
        self.connect_time = time;
        self
    }

    /// The time for an answer of a bucket. Default 2 s.
    pub fn request_time(mut self, time: Duration) -> Self {
        self.request_time = time;
        self
    }

    /// The interval of pings while nothing arrives. The connection is down when two have no answer. Default 1 s.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.ping_interval = interval;
        self
    }

    /// The longest delay between two attempts to connect again. Default 1 s.
    pub fn reconnect_delay_max(mut self, delay: Duration) -> Self {
        self.reconnect_delay_max = delay;
        self
    }

    /// Starts without a connection if the server cannot be reached, and goes on trying. Default: an error.
    pub fn retry_initial(mut self) -> Self {
        self.retries_initial = true;
        self
    }

    /// The copies of a bucket that this engine creates, in a cluster of servers. Default 1.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// The servers without user and password, for texts.
    pub(super) fn servers(&self) -> String {
        let without_login = |url: &str| {
            let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        };
        let urls: Vec<_> = self
            .urls
            .split(',')
            .map(str::trim)
            .map(without_login)
            .collect();
        urls.join(",")
    }

    pub(super) fn addresses(&self) -> Result<Vec<ServerAddr>, NatsError> {
        let parse = |url: &str| -> Result<ServerAddr, NatsError> {
            let address = url.parse::<ServerAddr>();
            let address = address.map_err(|error| self.error(&format!("wrong URL: {error}")))?;
            if address.host().is_empty() {
                return Err(self.error("wrong URL: it has no host"));
            }
            match address.scheme() {
                "nats" | "tls" => Ok(address),
                scheme => Err(self.error(&format!("wrong URL: unknown scheme {scheme}"))),
            }
        };
        self.urls.split(',').map(str::trim).map(parse).collect()
    }

    pub(super) fn connect_options(&self) -> Result<ConnectOptions, NatsError> {
        if crypto::CryptoProvider::get_default().is_none() {
            // rustls panics if it cannot choose between several. Another thread may install one at the same time.
            let _ = crypto::ring::default_provider().install_default();
        }
        let longest = self.reconnect_delay_max;
        let mut options = ConnectOptions::new()
            .connection_timeout(self.connect_time)
            .request_timeout(Some(self.request_time))
            .ping_interval(self.ping_interval)
            .client_capacity(COMMANDS_MAX)
            .subscription_capacity(MESSAGES_MAX)
            .reconnect_delay_callback(move |attempts| reconnect_delay(attempts, longest))
            .require_tls(self.requires_tls);
        if let Some(name) = &self.name {
            options = options.name(name);
        }
        if self.retries_initial {
            options = options.retry_on_initial_connect();
        }
        options = match &self.login {
            Login::None => self.with_login_of_url(options)?,
            Login::Token(token) => options.token(token.clone()),
            Login::Password(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Login::Nkey(seed) => options.nkey(seed.clone()),
            Login::CredentialsFile(file) => {
                let text =
                    fs::read_to_string(file).map_err(|error| self.unreadable(file, &error))?;
                let options = options.credentials(&text);
                options.map_err(|error| self.unreadable(file, &error))?
            }
        };
        // async-nats reads them at each attempt, and names no file in its error.
        let (certificate, key) = match &self.client_certificate {
            Some((certificate, key)) => (Some(certificate), Some(key)),
            None => (None, None),
        };
        for file in [self.ca_file.as_ref(), certificate, key]
            .into_iter()
            .flatten()
        {
            fs::File::open(file).map_err(|error| self.unreadable(file, &error))?;
        }
        if let Some(file) = &self.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = &self.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }

    /// async-nats knows the user and the password of a URL, but does not use them.
    fn with_login_of_url(&self, options: ConnectOptions) -> Result<ConnectOptions, NatsError> {
        let addresses = self.addresses()?;
        let with_user = addresses.iter().find_map(|it| Some((it.username()?, it)));
        Ok(match with_user {
            None => options,
            Some((user, address)) => match address.password() {
                Some(password) => options.user_and_password(decoded(user), decoded(password)),
                None => options.token(decoded(user)),
            },
        })
    }

    fn unreadable(&self, file: &Path, error: &io::Error) -> NatsError {
        self.error(&format!("cannot read {}: {error}", file.display()))
    }

    pub(super) fn error(&self, why: &str) -> NatsError {
        NatsError(format!("cannot connect to {}: {why}", self.servers()))
    }

    /// One line, with all causes.
    pub(super) fn connect_error(&self, error: &async_nats::ConnectError) -> NatsError {
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation => {
                self.error("the server refuses the login (authorization violation)")
            }
            ConnectErrorKind::TimedOut => self.error("no answer in time"),
            _ => {
                let mut why = error.to_string();
                let mut cause = std::error::Error::source(error);
                while let Some(error) = cause {
                    let text = error.to_string();
                    if !why.contains(&text) {
                        why = format!("{why}: {text}");
                    }
                    cause = error.source();
                }
                self.error(&why.replace('\n', " "))
            }
        }
    }
}

/// Replaces `%40` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let decoded = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match decoded.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Attempt 1 of a connection is immediate. Half of each later delay is random, so that the clients of a server that comes
/// back do not all connect at once.
fn reconnect_delay(attempts: usize, longest: Duration) -> Duration {
    if attempts <= 1 {
        return Duration::ZERO;
    }
    let exponent = u32::try_from(attempts - 2).unwrap_or(u32::MAX).min(16);
    let delay = RECONNECT_DELAY_MIN
        .saturating_mul(1 << exponent)
        .min(longest);
    let half_ns = u64::try_from(delay.as_nanos() / 2).unwrap_or(u64::MAX);
    let spread_ns = random::below(random::mix(clock::now_ns()), half_ns as usize + 1);
    Duration::from_nanos(half_ns + spread_ns as u64)
}

/// The engine cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NatsError(pub(super) String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_servers_without_passwords() {
        let options = NatsOptions::new("nats://user:secret@a:1, b:2");
        assert_eq!(options.servers(), "nats://a:1,nats://b:2");
        assert!(!format!("{options:?}").contains("secret"));
        for url in ["", "http://a", "nats://a:port"] {
            let error = NatsOptions::new(url).addresses().expect_err(url);
            assert!(error.0.contains("wrong URL"), "{error}");
        }
    }

    #[test]
    fn the_login_of_a_url_is_decoded() {
        for (text, expected) in [
            ("a", "a"),
            ("a%40b%2F", "a@b/"),
            ("%4", "%4"),
            ("%zz", "%zz"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let longest = Duration::from_secs(1);
        assert_eq!(reconnect_delay(1, longest), Duration::ZERO);
        for attempts in 2..100 {
            let delay = reconnect_delay(attempts, longest);
            assert!(
                delay >= RECONNECT_DELAY_MIN / 2 && delay <= longest,
                "{delay:?}"
            );
        }
        assert!(reconnect_delay(usize::MAX, longest) >= longest / 2);
    }
}
