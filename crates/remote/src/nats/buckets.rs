//! Buckets: streams of JetStream with the layout of its key-value stores, for servers from 2.9 on.
//!
//! - The last message of a subject is a key's value, so the revision of a change is its place in the stream. A deleted key
//!   has a marker, which expires as values do.
//! - A bucket's first revision is its time of creation in milliseconds. So revisions also grow when a server has lost its
//!   data and the bucket was created again, unless its clock went back, or more than one change per millisecond was made in
//!   the bucket's whole life. Until this revision is set, the bucket takes no keys: it has another subject.
//! - Reads are answered by the stream's leader: direct access, which replicas answer, is not used and not allowed.

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_nats::{
    HeaderMap, Message, Request, RequestErrorKind,
    jetstream::{
        ErrorCode,
        message::StreamMessage,
        publish::PublishAck,
        response::Response,
        stream::{Config, DiscardPolicy, Info, RawMessage, StorageType},
    },
};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{select, sync::broadcast};

use super::{Shared, connection::while_up};
use crate::{
    engine::{BucketInfo, Done, EngineError, Entry, Expected},
    names,
};

/// Attempts to open a bucket, or to create a key, that other nodes open or change at the same time.
const ATTEMPTS: usize = 5;
/// The longest window in which a stream looks for duplicates; it may not exceed the time to live.
const DUPLICATES_MAX: Duration = Duration::from_secs(120);

const OPERATION: &str = "KV-Operation";
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// Runs a request. Its result is told exactly once, also if the engine is closed.
pub(super) fn spawn<T: Send + 'static>(
    shared: &Arc<Shared>,
    request: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    done: Done<T>,
) {
    let mut answer = Answer {
        shared: shared.clone(),
        done: Some(done),
        has_begun: false,
    };
    shared.runtime.spawn(async move {
        answer.has_begun = true;
        let result = request.await;
        answer.tell(result);
    });
}

struct Answer<T> {
    shared: Arc<Shared>,
    done: Option<Done<T>>,
    has_begun: bool,
}

impl<T> Answer<T> {
    fn tell(&mut self, result: Result<T, EngineError>) {
        if let Some(done) = self.done.take() {
            self.shared.call(|| done(result));
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.tell(Err(match self.has_begun {
            true => no_answer("the connection was closed"),
            false => EngineError::Offline,
        }));
    }
}

/// A value, or the marker of a deleted key, with its revision.
struct Last {
    value: Option<Bytes>,
    revision: u64,
}

pub(super) fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// What comes before a key in its subject.
pub(super) fn prefix_of(bucket: &str) -> String {
    format!("$KV.{bucket}.")
}

/// The subject of a bucket whose first revision is not set.
fn new_subject(bucket: &str) -> String {
    format!("_FREEBOARD_NEW.{bucket}")
}

/// Whether a message of a stream says that its key is deleted.
pub(super) fn is_marker(headers: Option<&HeaderMap>) -> bool {
    let operation = headers.and_then(|headers| headers.get(OPERATION));
    operation.is_some_and(|it| matches!(it.as_str(), "DEL" | "PURGE"))
}

fn jetstream_is_off() -> EngineError {
    EngineError::Refused(
        "JetStream is not enabled on the NATS server, or not for this account".to_owned(),
    )
}

fn no_permission(subject: &str) -> EngineError {
    EngineError::Refused(format!("no permission for subject {subject}"))
}

fn no_answer(why: &str) -> EngineError {
    EngineError::Unknown(why.to_owned())
}

impl Shared {
    /// `None` if nobody listens to the subject.
    async fn request(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<Option<Message>, EngineError> {
        if !self.is_up() {
            return Err(EngineError::Offline);
        }
        // Ordering: Relaxed, set on this thread.
        if self.is_inbox_denied.load(Ordering::Relaxed) {
            return Err(no_permission("_INBOX.>"));
        }
        let mut request = Request::new()
            .payload(payload)
            .timeout(Some(self.request_time));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let mut denials = self.denials.subscribe();
        let answer = select! {
            biased;
            answer = while_up(self, self.client.send_request(subject.to_owned(), request)) => answer,
            () = denied(&mut denials, subject) => return Err(no_permission(subject)),
        };
        match answer {
            None => Err(no_answer("the connection broke")),
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(error)) => match error.kind() {
                RequestErrorKind::NoResponders => Ok(None),
                RequestErrorKind::TimedOut => Err(no_answer("no answer in time")),
                RequestErrorKind::MaxPayloadExceeded => {
                    let bytes_max = self.client.max_payload();
                    // The value fits, but not with its headers.
                    let bytes = bytes_max + 1;
                    Err(EngineError::TooLarge { bytes, bytes_max })
                }
                _ => Err(no_answer(&error.to_string())),
            },
        }
    }

    /// Calls JetStream's interface.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        call: &str,
        body: &impl Serialize,
    ) -> Result<Response<T>, EngineError> {
        let body = serde_json::to_vec(body).map_err(|error| no_answer(&error.to_string()))?;
        let subject = format!("$JS.API.{call}");
        let answer = self.request(&subject, None, body.into()).await?;
        let answer = answer.ok_or_else(jetstream_is_off)?;
        serde_json::from_slice(&answer.payload)
            .map_err(|error| no_answer(&format!("the answer cannot be read: {error}")))
    }

    pub(super) async fn open_bucket(
        &self,
        bucket: &str,
        ttl: Option<Duration>,
    ) -> Result<BucketInfo, EngineError> {
        names::check_bucket(bucket)?;
        for _ in 0..ATTEMPTS {
            let config = match self.stream_info(bucket).await? {
                Some(info) => {
                    let created_ms = created_ms(&info)?;
                    check(bucket, &info.config, ttl)?;
                    if info.config.subjects != [new_subject(bucket)] {
                        return Ok(BucketInfo { created_ms });
                    }
                    // Others may do this too: it changes nothing more.
                    let stream = stream_of(bucket);
                    let purge = serde_json::json!({ "seq": created_ms });
                    self.admin(&format!("STREAM.PURGE.{stream}"), &purge)
                        .await?;
                    let mut config = info.config;
                    config.subjects = vec![prefix_of(bucket) + ">"];
                    self.admin(&format!("STREAM.UPDATE.{stream}"), &config)
                        .await?;
                    continue;
                }
                None => config(bucket, ttl, self.replicas),
            };
            let stream = stream_of(bucket);
            let created = self
                .admin(&format!("STREAM.CREATE.{stream}"), &config)
                .await;
            // While another node creates it, the server may also refuse because the subjects overlap.
            if let Err(error) = created
                && self.stream_info(bucket).await?.is_none()
            {
                return Err(error);
            }
        }
        Err(EngineError::Refused(format!(
            "bucket {bucket} cannot be created"
        )))
    }

    /// A call that changes a stream. That another node has made the change is no error: the caller looks again.
    async fn admin(&self, call: &str, body: &impl Serialize) -> Result<(), EngineError> {
        match self.api::<serde_json::Value>(call, body).await? {
            Response::Ok(_) => Ok(()),
            Response::Err { error }
                if matches!(
                    error.error_code(),
                    ErrorCode::STREAM_NAME_EXIST | ErrorCode::STREAM_NOT_FOUND
                ) =>
            {
                Ok(())
            }
            Response::Err { error } => Err(refused(&error)),
        }
    }

    async fn stream_info(&self, bucket: &str) -> Result<Option<Info>, EngineError> {
        let call = format!("STREAM.INFO.{}", stream_of(bucket));
        match self.api(&call, &serde_json::json!({})).await? {
            Response::Ok(info) => Ok(Some(info)),
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                Ok(None)
            }
            Response::Err { error } => Err(refused(&error)),
        }
    }

    pub(super) async fn get(&self, bucket: &str, key: &str) -> Result<Option<Entry>, EngineError> {
        names::check_bucket(bucket)?;
        names::check_key(key)?;
        let last = self.last(bucket, key).await?;
        Ok(last.and_then(|Last { value, revision }| {
            let value = value?;
            Some(Entry { value, revision })
        }))
    }

    async fn last(&self, bucket: &str, key: &str) -> Result<Option<Last>, EngineError> {
        #[derive(Deserialize)]
        struct Found {
            message: RawMessage,
        }
        let call = format!("STREAM.MSG.GET.{}", stream_of(bucket));
        let subject = prefix_of(bucket) + key;
        let body = serde_json::json!({ "last_by_subj": subject });
        let found: Found = match self.api(&call, &body).await? {
            Response::Ok(found) => found,
            Response::Err { error } => match error.error_code() {
                ErrorCode::NO_MESSAGE_FOUND => return Ok(None),
                ErrorCode::STREAM_NOT_FOUND => return Err(names::bucket_is_gone(bucket)),
                _ => return Err(refused(&error)),
            },
        };
        let message = StreamMessage::try_from(found.message)
            .map_err(|error| no_answer(&format!("the answer cannot be read: {error}")))?;
        let is_marker = is_marker(Some(&message.headers));
        Ok(Some(Last {
            value: (!is_marker).then_some(message.payload),
            revision: message.sequence,
        }))
    }

    pub(super) async fn put(
        &self,
        bucket: &str,
        key: &str,
        value: Bytes,
        expected: Expected,
    ) -> Result<u64, EngineError> {
        names::check_bucket(bucket)?;
        names::check_key(key)?;
        let (bytes, bytes_max) = (value.len(), self.client.max_payload());
        if bytes > bytes_max {
            return Err(EngineError::TooLarge { bytes, bytes_max });
        }
        match expected {
            // The server takes 0 for a key that never was.
            Expected::Revision(0) => return Err(EngineError::Conflict),
            Expected::Revision(revision) => {
                return self.change(bucket, key, value, revision, None).await;
            }
            Expected::Absent => {}
        }
        // A key that was deleted has the revision of its marker, until that expires.
        let mut revision = 0;
        for _ in 0..ATTEMPTS {
            let changed = self
                .change(bucket, key, value.clone(), revision, None)
                .await;
            if changed != Err(EngineError::Conflict) {
                return changed;
            }
            revision = match self.last(bucket, key).await? {
                Some(Last { value: Some(_), .. }) => return changed,
                Some(Last { revision, .. }) => revision,
                None => 0,
            };
        }
        Err(EngineError::Conflict)
    }

    pub(super) async fn delete(
        &self,
        bucket: &str,
        key: &str,
        revision: u64,
    ) -> Result<(), EngineError> {
        names::check_bucket(bucket)?;
        names::check_key(key)?;
        if revision == 0 {
            return Err(EngineError::Conflict);
        }
        let changed = self
            .change(bucket, key, Bytes::new(), revision, Some("DEL"))
            .await;
        changed.map(|_| ())
    }

    /// Writes to a key whose last revision is `expected`.
    async fn change(
        &self,
        bucket: &str,
        key: &str,
        value: Bytes,
        expected: u64,
        operation: Option<&str>,
    ) -> Result<u64, EngineError> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, expected.to_string().as_str());
        if let Some(operation) = operation {
            headers.insert(OPERATION, operation);
        }
        let subject = prefix_of(bucket) + key;
        let Some(answer) = self.request(&subject, Some(headers), value).await? else {
            // Nobody has stored it. Find out why.
            return Err(match self.stream_info(bucket).await {
                Ok(Some(_)) => no_answer("the bucket has no leader"),
                Ok(None) => names::bucket_is_gone(bucket),
                Err(error) => error,
            });
        };
        let answer = serde_json::from_slice(&answer.payload)
            .map_err(|error| no_answer(&format!("the answer cannot be read: {error}")))?;
        match answer {
            Response::Ok::<PublishAck>(ack) => Ok(ack.sequence),
            Response::Err { error } => match error.error_code() {
                ErrorCode::STREAM_WRONG_LAST_SEQUENCE => Err(EngineError::Conflict),
                _ => Err(refused(&error)),
            },
        }
    }
}

/// Ends when the server denies the subject.
async fn denied(denials: &mut broadcast::Receiver<Arc<str>>, subject: &str) {
    loop {
        match denials.recv().await {
            Ok(denied) if *denied == *subject => return,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn config(bucket: &str, ttl: Option<Duration>, replicas: usize) -> Config {
    let max_age = ttl.unwrap_or_default();
    Config {
        name: stream_of(bucket),
        subjects: vec![new_subject(bucket)],
        max_messages: -1,
        max_bytes: -1,
        max_consumers: -1,
        max_messages_per_subject: 1,
        max_age,
        duplicate_window: ttl.unwrap_or(DUPLICATES_MAX).min(DUPLICATES_MAX),
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        num_replicas: replicas,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: false,
        ..Config::default()
    }
}

fn check(bucket: &str, config: &Config, ttl: Option<Duration>) -> Result<(), EngineError> {
    let subjects = [prefix_of(bucket) + ">", new_subject(bucket)];
    let is_own = config.subjects.len() == 1 && subjects.contains(&config.subjects[0]);
    if !is_own || config.max_messages_per_subject != 1 {
        let stream = stream_of(bucket);
        return Err(EngineError::Refused(format!(
            "stream {stream} exists, but it is no bucket of ours: another prefix?"
        )));
    }
    let is = Some(config.max_age).filter(|age| !age.is_zero());
    match is == ttl {
        true => Ok(()),
        false => Err(names::other_ttl(bucket, is, ttl)),
    }
}

fn created_ms(info: &Info) -> Result<u64, EngineError> {
    let ms = info.created.unix_timestamp_nanos() / 1_000_000;
    u64::try_from(ms).map_err(|_| EngineError::Refused("the server's clock is wrong".to_owned()))
}

/// The server has not done it. Errors that pass, such as a missing leader, are [`EngineError::Unknown`].
fn refused(error: &async_nats::jetstream::Error) -> EngineError {
    match error.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            jetstream_is_off()
        }
        _ if error.code() == 503 || error.code() == 500 => no_answer(&error.to_string()),
        _ => EngineError::Refused(format!("the NATS server refuses: {error}")),
    }
}
