//! The slow store behind HTTP.

use std::{
    fmt::Write,
    io,
    num::NonZeroUsize,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use ureq::{Agent, Error, http::StatusCode};

use super::{OnFetched, Report, SlowStore, StoreError};
use crate::message::BODY_BYTES_MAX;

/// The settings of an [`HttpStore`].
#[derive(Clone, Debug)]
pub struct HttpStoreOptions {
    /// The address of a key without the key: `http://HOST:PORT/PATH/`.
    pub url: String,
    /// Concurrent requests, each on a thread of its own; 64 unless set.
    pub requests_max: NonZeroUsize,
    /// The timeout of a request, with connecting; 2 s unless set.
    pub timeout: Duration,
}

impl HttpStoreOptions {
    /// The default settings for a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            requests_max: const { NonZeroUsize::new(64).unwrap() },
            timeout: Duration::from_secs(2),
        }
    }
}

/// Creating an [`HttpStore`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpStoreError {
    /// The URL cannot be used.
    #[error("the store's URL must be http://HOST:PORT/PATH: {0}")]
    Url(String),
    /// A thread cannot be created.
    #[error("the store's threads cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// A store that asks a server with `GET URL/KEY`: 200 with the value as the body, or 404 if the key has none. A server
/// that answers 429 or 5xx, or not in time, is [`StoreError::Unavailable`]; other answers are
/// [`StoreError::Refused`]. Keys are percent-encoded.
///
/// Requests beyond [`HttpStoreOptions::requests_max`] wait: put a [`Bulkhead`](super::Bulkhead) in front. Connections
/// are kept for further requests.
pub struct HttpStore(mpsc::Sender<Fetch>);

type Fetch = (String, Report<Option<Bytes>>);

impl HttpStore {
    /// Starts the threads. Connects with the first request.
    ///
    /// # Errors
    /// [`HttpStoreError`].
    pub fn new(options: &HttpStoreOptions) -> Result<Self, HttpStoreError> {
        let uri: ureq::http::Uri = options
            .url
            .parse()
            .map_err(|error| HttpStoreError::Url(format!("{error}")))?;
        let has_login = uri.authority().is_some_and(|it| it.as_str().contains('@'));
        if uri.scheme_str() != Some("http") || uri.query().is_some() || has_login {
            return Err(HttpStoreError::Url(
                "no other protocol, no user, no query".to_owned(),
            ));
        }
        let requests_max = options.requests_max.get();
        let agent = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .max_idle_connections(requests_max)
            .max_idle_connections_per_host(requests_max)
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .new_agent();
        let (fetches, queue) = mpsc::channel::<Fetch>();
        let queue = Arc::new(Mutex::new(queue));
        let base = options.url.trim_end_matches('/').to_owned();
        for _ in 0..requests_max {
            let (agent, queue, base) = (agent.clone(), queue.clone(), base.clone());
            let fetch = move || {
                loop {
                    let next = queue.lock().recv();
                    let Ok((key, report)) = next else { return };
                    report.tell(get(&agent, &format!("{base}/{key}")));
                }
            };
            let thread = thread::Builder::new().name("http store".to_owned());
            thread.spawn(fetch)?;
        }
        Ok(Self(fetches))
    }
}

impl SlowStore for HttpStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        // Fails only if all threads have panicked. The dropped request then reports that.
        let _ = self.0.send((encoded(key), Report::new(on_outcome)));
    }
}

fn get(agent: &Agent, url: &str) -> Result<Option<Bytes>, StoreError> {
    let unavailable = |error: &Error| StoreError::Unavailable(format!("{url}: {error}"));
    let mut answer = agent.get(url).call().map_err(|error| unavailable(&error))?;
    match answer.status() {
        StatusCode::OK => {
            let body = answer.body_mut().with_config().limit(BODY_BYTES_MAX as u64);
            let value = body.read_to_vec().map_err(|error| unavailable(&error))?;
            Ok(Some(value.into()))
        }
        StatusCode::NOT_FOUND => Ok(None),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(StoreError::Unavailable(format!("{url}: {status}")))
        }
        status => Err(StoreError::Refused(format!("{url}: {status}"))),
    }
}

/// A key as a segment of a path.
fn encoded(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b':' => {
                text.push(char::from(*byte));
            }
            // Also dots: a key of two dots is no path upwards.
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_segment_of_a_path() {
        assert_eq!(encoded(b"user:a-1"), "user:a-1");
        assert_eq!(encoded(b".."), "%2E%2E");
        assert_eq!(encoded("a/b?ü".as_bytes()), "a%2Fb%3F%C3%BC");
    }
}
