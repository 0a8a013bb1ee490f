//! The metrics as Prometheus text.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{Query as Params, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use freeboard_meter::families;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::routes::{Site, refused};
use crate::budget::ProcessorTime;

/// How long a text is reused: longer if making it cost more than its share of a processor. So frequent scrapes
/// do not raise the overhead.
const FRESH_MIN: Duration = Duration::from_secs(1);
const FRESH_MAX: Duration = Duration::from_secs(30);

/// The latest texts and until when they are reused, by the system's number; `None` without a system.
pub(super) type Cached = Arc<Mutex<HashMap<Option<u64>, (Instant, Bytes)>>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    system: Option<String>,
}

/// The text of one system, by default the newest, and of all sources.
pub(super) async fn text(
    State(site): State<Site>,
    which: Result<Params<Which>, QueryRejection>,
) -> Response {
    let Ok(Params(which)) = which else {
        return refused(StatusCode::BAD_REQUEST, "which system?");
    };
    let watched = site.state.systems.find(which.system.as_deref());
    if watched.is_none() && which.system.is_some() {
        return refused(StatusCode::NOT_FOUND, "there is no system of that name");
    }
    let number = watched.as_ref().map(|it| it.number);
    // Held while a text is made, even if the client disconnects: only one is made at a time.
    let mut cached = site.cached.clone().lock_owned().await;
    if let Some((until, text)) = cached.get(&number)
        && Instant::now() < *until
    {
        return answer(text.clone());
    }
    let sources = site.state.sources.clone();
    // Slow with a hundred thousand actors.
    let made = tokio::task::spawn_blocking(move || {
        let time = ProcessorTime::now();
        let system = watched.and_then(|watched| watched.alive());
        let snapshot = system.map(|system| system.snapshot());
        let mut text = snapshot.map(|it| families(&it)).unwrap_or_default();
        sources.render(&mut text);
        let text = Bytes::from(text.finish());
        let now = Instant::now();
        cached.retain(|_, (until, _)| now < *until);
        cached.insert(
            number,
            (now + fresh(time.elapsed(), site.share), text.clone()),
        );
        text
    });
    match made.await {
        Ok(text) => answer(text),
        Err(_) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the text could not be made",
        ),
    }
}

/// How long a text of this cost is reused.
fn fresh(cost: Duration, share: f64) -> Duration {
    let wait = Duration::try_from_secs_f64(cost.as_secs_f64() / share);
    wait.unwrap_or(FRESH_MAX).clamp(FRESH_MIN, FRESH_MAX)
}

fn answer(text: Bytes) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (headers, text).into_response()
}
