//! TLS: a layer of rustls between a connection and its source (RFC 5425).
//!
//! rustls gets the bytes of each read and returns plain text and answers; it touches no socket. A connection that fails
//! is counted, and the server writes a line of its own: at most one in a second, with the number of failures since.

use std::{
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use freeboard::net::tcp::Peer;
use jiff::Timestamp;
use rustls::{
    AlertDescription, Error, RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde::Deserialize;

use crate::{
    frame::Framing,
    priority::{Facility, Priority, Severity},
    repeats::own_batch,
    server::ServerHandle,
    settings::{address, time},
    sources::OpenSource,
};

use super::{
    InputError, received_now_ns,
    tcp::{Layer, LayerClosed},
};

/// The shortest time between two lines about failures.
const REPORT_EVERY_NS: u64 = 1_000_000_000;

/// More than rustls holds of decrypted text: one record beyond its limit of 16 KiB.
const PLAIN_BYTES_MAX: usize = 64 << 10;

const PRIORITY: Priority = Priority::new(Facility::SYSLOG, Severity::Warning);

/// The settings of a TLS input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The address; port 0 takes any free port.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// How lines are told apart; RFC 5425 counts octets.
    #[serde(default)]
    pub framing: Framing,
    /// A file with the server's certificate and those that sign it, in PEM.
    #[serde(rename = "certificate")]
    pub certificates: PathBuf,
    /// A file with the key of the certificate, in PEM.
    pub key: PathBuf,
    /// A file with certificates, in PEM. Clients must have a certificate that one of them signs.
    #[serde(rename = "clients")]
    pub client_roots: Option<PathBuf>,
    /// A connection whose handshake takes longer is closed.
    #[serde(
        default = "handshake_time",
        rename = "handshake-time",
        deserialize_with = "time"
    )]
    pub handshake_time: Duration,
}

impl TlsConfig {
    /// Without client certificates, and with ten seconds for a handshake.
    #[must_use]
    pub fn new(address: SocketAddr, certificates: PathBuf, key: PathBuf) -> Self {
        Self {
            address,
            framing: Framing::Detect,
            certificates,
            key,
            client_roots: None,
            handshake_time: handshake_time(),
        }
    }

    /// Reads certificates and key.
    ///
    /// # Errors
    /// A file cannot be used, or the certificate is not valid today.
    pub fn check(&self) -> Result<(), InputError> {
        load(self).map(drop)
    }
}

const fn handshake_time() -> Duration {
    Duration::from_secs(10)
}

/// The counters of a TLS input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsSnapshot {
    /// Handshakes that succeeded.
    pub established: u64,
    /// Connections that failed because of a certificate: the client's, or ours in the eyes of the client.
    pub bad_certificates: u64,
    /// Connections that failed otherwise.
    pub failed: u64,
    /// Handshakes that took too long.
    pub late: u64,
}

/// What the connections of an input share. Cheap to clone.
#[derive(Clone)]
pub(super) struct TlsInput(Arc<Shared>);

struct Shared {
    server: ServerHandle,
    /// For connections from now on.
    loaded: RwLock<Loaded>,
    handshake_time: Duration,
    established: AtomicU64,
    bad_certificates: AtomicU64,
    failed: AtomicU64,
    late: AtomicU64,
    reported_ns: AtomicU64,
    unreported: AtomicU64,
}

impl TlsInput {
    pub(super) fn new(server: &ServerHandle, config: &TlsConfig) -> Result<Self, InputError> {
        Ok(Self(Arc::new(Shared {
            server: server.clone(),
            loaded: RwLock::new(load(config)?),
            handshake_time: config.handshake_time,
            established: AtomicU64::new(0),
            bad_certificates: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            late: AtomicU64::new(0),
            reported_ns: AtomicU64::new(0),
            unreported: AtomicU64::new(0),
        })))
    }

    /// Uses other certificates for connections from now on. Those that are open keep theirs.
    pub(super) fn set(&self, loaded: Loaded) {
        let current = self.0.loaded.write();
        *current.unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// When the certificate expires.
    pub(super) fn expires(&self) -> Timestamp {
        self.loaded().expires
    }

    fn loaded(&self) -> Loaded {
        let loaded = self.0.loaded.read();
        loaded.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The layer of a connection.
    pub(super) fn layer(&self, peer: Peer) -> Option<Box<dyn Layer>> {
        // It fails only for a configuration that cannot be, which is checked at the start.
        let connection = ServerConnection::new(self.loaded().config).ok()?;
        Some(Box::new(TlsLayer {
            connection,
            input: self.clone(),
            peer,
            is_established: false,
            is_broken: AtomicBool::new(false),
        }))
    }

    // Ordering: Relaxed, here and below: counters, and a time that only spaces lines out.
    pub(super) fn snapshot(&self) -> TlsSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TlsSnapshot {
            established: get(&self.0.established),
            bad_certificates: get(&self.0.bad_certificates),
            failed: get(&self.0.failed),
            late: get(&self.0.late),
        }
    }

    /// Counts a failure, and writes a line unless there was one within the last second.
    fn report(&self, counter: &AtomicU64, peer: Peer, why: &str) {
        let Shared {
            server,
            reported_ns,
            unreported,
            ..
        } = &*self.0;
        counter.fetch_add(1, Ordering::Relaxed);
        unreported.fetch_add(1, Ordering::Relaxed);
        let now_ns = received_now_ns();
        let may_report = |before_ns| (now_ns >= before_ns + REPORT_EVERY_NS).then_some(now_ns);
        let relaxed = Ordering::Relaxed;
        if reported_ns
            .fetch_update(relaxed, relaxed, may_report)
            .is_err()
        {
            return;
        }
        let mut text = format!("TLS connection of {peer} failed: {why}");
        let others = unreported.swap(0, relaxed).saturating_sub(1);
        if others > 0 {
            text += &format!(" ({others} others failed since the last such line)");
        }
        let own = OpenSource::new(server, "logd");
        let batch = own_batch(own.source(), now_ns, PRIORITY, 0, text.into_bytes());
        if let Some(batch) = batch {
            server.lanes().send(batch);
        }
    }
}

/// What the files of an input give.
#[derive(Clone)]
pub(super) struct Loaded {
    config: Arc<ServerConfig>,
    expires: Timestamp,
}

/// Reads the files of an input.
pub(super) fn load(config: &TlsConfig) -> Result<Loaded, InputError> {
    let certificates = read_certificates(&config.certificates)?;
    let expires = valid_until(&certificates[0], Timestamp::now());
    let expires = expires.map_err(fail(&config.certificates))?;
    let config = Arc::new(server_config(config, certificates)?);
    Ok(Loaded { config, expires })
}

/// When a certificate expires.
///
/// # Errors
/// It has, or is not valid yet.
fn valid_until(certificate: &CertificateDer<'_>, now: Timestamp) -> Result<Timestamp, String> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp());
    let validity = parsed.validity();
    // A year after 9999 is as good as never.
    let from = time(validity.not_before).unwrap_or(Timestamp::MAX);
    let until = time(validity.not_after).unwrap_or(Timestamp::MAX);
    if until < now {
        return Err(format!("the certificate has expired at {until}"));
    }
    if now < from {
        return Err(format!("the certificate is not valid before {from}"));
    }
    Ok(until)
}

fn server_config(
    config: &TlsConfig,
    certificates: Vec<CertificateDer<'static>>,
) -> Result<ServerConfig, InputError> {
    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(fail(&config.key))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(fail(&config.certificates))?;
    let builder = match &config.client_roots {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(fail(path))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(fail(path))?)
        }
    };
    let built = builder.with_single_cert(certificates, key);
    built.map_err(fail(&config.certificates))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, InputError> {
    let found = CertificateDer::pem_file_iter(path).map_err(fail(path))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(fail(path))?;
    if found.is_empty() {
        return Err(fail(path)("it has no certificate"));
    }
    Ok(found)
}

fn fail<E: ToString>(path: &Path) -> impl Fn(E) -> InputError {
    move |error| InputError::Certificate {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// The TLS of one connection.
struct TlsLayer {
    connection: ServerConnection,
    input: TlsInput,
    peer: Peer,
    is_established: bool,
    /// The failure is counted already.
    is_broken: AtomicBool,
}

impl Layer for TlsLayer {
    fn received(&mut self, bytes: Bytes, answer: &mut Vec<u8>) -> (Bytes, Result<(), LayerClosed>) {
        let mut text = BytesMut::new();
        let mut rest = &bytes[..];
        let mut result = Ok(());
        let mut is_closed = false;
        while !rest.is_empty() && result.is_ok() && !self.is_broken.load(Ordering::Relaxed) {
            let advanced = self.advance(&mut rest, &mut text);
            result = advanced.map(|has_ended| is_closed |= has_ended);
        }
        if is_closed {
            // The peer tells an end from an attacker's cut by it (RFC 5425, 4.4).
            self.connection.send_close_notify();
        }
        // Writing to a vector does not fail.
        while self.connection.wants_write() && self.connection.write_tls(answer).is_ok() {}
        if let Err(error) = result {
            self.fail(&error);
        }
        if self.is_broken.load(Ordering::Relaxed) {
            return (text.freeze(), Err(LayerClosed));
        }
        if !self.is_established && !self.connection.is_handshaking() {
            self.is_established = true;
            self.input.0.established.fetch_add(1, Ordering::Relaxed);
        }
        let is_open = if is_closed { Err(LayerClosed) } else { Ok(()) };
        (text.freeze(), is_open)
    }

    fn deadline(&self) -> Duration {
        self.input.0.handshake_time
    }

    fn is_late(&self) -> bool {
        let is_late = !self.is_established && !self.is_broken.swap(true, Ordering::Relaxed);
        if is_late {
            let why = "the handshake took too long";
            self.input.report(&self.input.0.late, self.peer, why);
        }
        is_late
    }
}

impl TlsLayer {
    /// Passes bytes to rustls until its buffer is full, and takes the plain text out. Whether the peer has ended its side.
    fn advance(&mut self, rest: &mut &[u8], text: &mut BytesMut) -> Result<bool, Error> {
        // Reading from a slice does not fail. A full buffer is emptied below; then this is not the end.
        let read = self.connection.read_tls(rest).unwrap_or(usize::MAX);
        let processed = self.connection.process_new_packets();
        // Behind a broken record there is nothing; what was decrypted before it is kept.
        let plain = processed
            .as_ref()
            .map_or(PLAIN_BYTES_MAX, |it| it.plaintext_bytes_to_read());
        if read == 0 {
            // The peer has closed its side; it may send nothing more.
            *rest = &[];
        }
        let before = text.len();
        text.resize(before + plain, 0);
        let read = self.connection.reader().read(&mut text[before..]);
        text.truncate(before + read.unwrap_or(0));
        processed.map(|state| state.peer_has_closed())
    }

    fn fail(&self, error: &Error) {
        self.is_broken.store(true, Ordering::Relaxed);
        let shared = &self.input.0;
        let (counter, why) = match error {
            Error::AlertReceived(alert) if is_about_certificate(*alert) => (
                &shared.bad_certificates,
                format!("the client does not accept this server's certificate: {alert:?}"),
            ),
            Error::InvalidCertificate(reason) => (
                &shared.bad_certificates,
                format!("the client's certificate is not accepted: {reason:?}"),
            ),
            Error::NoCertificatesPresented => (
                &shared.bad_certificates,
                "the client has sent no certificate".to_owned(),
            ),
            error => (&shared.failed, error.to_string()),
        };
        self.input.report(counter, self.peer, &why);
    }
}

fn is_about_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
    )
}
