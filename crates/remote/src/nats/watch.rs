//! The watch of a bucket: a consumer of its stream that begins with the last message of each key.
//!
//! A consumer is not repaired. When anything is wrong (a gap, no heartbeat, a new connection), the next consumer begins with
//! the present keys again, and keys that are no longer present are told as deleted.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_nats::{
    StatusCode, Subscriber,
    jetstream::{self, consumer, response::Response},
};
use futures_util::StreamExt;
use tokio::{
    select,
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    Shared,
    buckets::{is_marker, prefix_of, stream_of},
};
use crate::engine::{EngineError, Entry, Watch};

/// The server's heartbeat while nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The consumer has failed if nothing arrives for so long.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// The first and the longest delay before the next consumer.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Runs a watch until its guard is dropped.
pub(super) async fn run(
    shared: Arc<Shared>,
    bucket: String,
    watch: Watch,
    mut ended: oneshot::Receiver<()>,
) {
    let mut watching = Watching {
        shared,
        bucket,
        watch,
        known: BTreeSet::new(),
    };
    select! {
        biased;
        _ = &mut ended => {}
        () = watching.run() => {}
    }
}

struct Watching {
    shared: Arc<Shared>,
    bucket: String,
    watch: Watch,
    /// The keys that were told as present.
    known: BTreeSet<String>,
}

impl Watching {
    async fn run(&mut self) {
        let mut link = self.shared.link.subscribe();
        let mut delay = RETRY_MIN;
        loop {
            let Ok(up) = link.wait_for(|link| link.is_up).await.map(|link| *link) else {
                return;
            };
            let mut has_begun = false;
            let watched = select! {
                biased;
                _ = link.wait_for(|link| *link != up) => Ok(()),
                watched = self.watch_once(&mut has_begun) => watched,
            };
            match watched {
                Ok(()) => self.forget_warning(),
                Err(error) => self.warn(&error),
            }
            delay = if has_begun { RETRY_MIN } else { delay * 2 }.min(RETRY_MAX);
            sleep(delay).await;
        }
    }

    /// Until the consumer fails.
    async fn watch_once(&mut self, has_begun: &mut bool) -> Result<(), EngineError> {
        let client = self.shared.client.clone();
        let inbox = client.new_inbox();
        let subscriber = client.subscribe(inbox.clone()).await;
        let subscriber = subscriber.map_err(|error| EngineError::Unknown(error.to_string()))?;
        let config = consumer::Config {
            deliver_subject: Some(inbox),
            deliver_policy: consumer::DeliverPolicy::LastPerSubject,
            ack_policy: consumer::AckPolicy::None,
            filter_subject: prefix_of(&self.bucket) + ">",
            flow_control: true,
            idle_heartbeat: HEARTBEAT,
            memory_storage: true,
            num_replicas: 1,
            ..Default::default()
        };
        let stream = stream_of(&self.bucket);
        let body = serde_json::json!({ "stream_name": stream, "config": config });
        let created = self
            .shared
            .api(&format!("CONSUMER.CREATE.{stream}"), &body)
            .await?;
        let info: consumer::Info = match created {
            Response::Ok(info) => info,
            Response::Err { error } => return Err(EngineError::Refused(error.to_string())),
        };
        let mut stale = self.known.clone();
        if info.num_pending == 0 {
            self.end_present(&mut stale, has_begun);
        }
        self.read(subscriber, stale, has_begun).await
    }

    async fn read(
        &mut self,
        mut subscriber: Subscriber,
        mut stale: BTreeSet<String>,
        has_begun: &mut bool,
    ) -> Result<(), EngineError> {
        let context = jetstream::new(self.shared.client.clone());
        let prefix = prefix_of(&self.bucket);
        let mut last = 0;
        while let Ok(Some(message)) = timeout(SILENCE_MAX, subscriber.next()).await {
            match message.status {
                None => {}
                Some(StatusCode::IDLE_HEARTBEAT) => {
                    let header = |name| message.headers.as_ref().and_then(|it| it.get(name));
                    let sent = header("Nats-Last-Consumer").and_then(|it| it.as_str().parse().ok());
                    if sent.is_some_and(|sent: u64| sent != last) {
                        return Ok(());
                    }
                    // The server waits for an answer before it sends more.
                    let stalled = header("Nats-Consumer-Stalled").map(|it| it.as_str().to_owned());
                    let reply = message.reply.map(async_nats::Subject::into_string);
                    if let Some(subject) = reply.or(stalled) {
                        let _ = self.shared.client.publish(subject, Vec::new().into()).await;
                    }
                    continue;
                }
                Some(_) => return Ok(()),
            }
            let message = jetstream::Message {
                message,
                context: context.clone(),
            };
            let Ok(info) = message.info() else {
                return Ok(());
            };
            if info.consumer_sequence != last + 1 {
                return Ok(());
            }
            last = info.consumer_sequence;
            let (revision, is_last) = (info.stream_sequence, info.pending == 0);
            let message = message.message;
            if let Some(key) = message.subject.strip_prefix(&prefix) {
                stale.remove(key);
                if !is_marker(message.headers.as_ref()) {
                    self.known.insert(key.to_owned());
                    let value = message.payload.clone();
                    self.tell(key, Some(Entry { value, revision }));
                } else if self.known.remove(key) {
                    self.tell(key, None);
                }
            }
            if is_last && !*has_begun {
                self.end_present(&mut stale, has_begun);
            }
        }
        Ok(())
    }

    /// The present keys were told.
    fn end_present(&mut self, stale: &mut BTreeSet<String>, has_begun: &mut bool) {
        *has_begun = true;
        for key in std::mem::take(stale) {
            self.known.remove(&key);
            self.tell(&key, None);
        }
    }

    fn tell(&self, key: &str, entry: Option<Entry>) {
        self.shared.call(|| (self.watch)(key, entry));
    }

    /// Logs the first of several failures.
    fn warn(&self, error: &EngineError) {
        if self.shared.warned.lock().insert(self.bucket.clone()) {
            let bucket = &self.bucket;
            tracing::warn!(bucket, %error, "the bucket cannot be watched; it is tried again");
        }
    }

    fn forget_warning(&self) {
        self.shared.warned.lock().remove(&self.bucket);
    }
}
