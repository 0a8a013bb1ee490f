//! The same figures as Prometheus reads them.

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

/// For so long a text is given again: who scrapes often, or from many places, costs no more.
const FRESH: Duration = Duration::from_secs(1);

/// The latest texts, by the number of the system; that without any has none.
pub(super) type Cached = Arc<Mutex<HashMap<Option<u64>, (Instant, Bytes)>>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    system: Option<String>,
}

/// The text of one system, the newest if none is named, and of all sources.
pub(super) async fn text(
    State(site): State<Site>,
    which: Result<Params<Which>, QueryRejection>,
) -> Response {
    let Ok(Params(which)) = which else {
        return refused(StatusCode::BAD_REQUEST, "which system?");
    };
    let watched = site.watching.systems.find(which.system.as_deref());
    if watched.is_none() && which.system.is_some() {
        return refused(StatusCode::NOT_FOUND, "there is no system of that name");
    }
    let number = watched.as_ref().map(|it| it.number);
    // Held while a text is made, even if who asked for it has gone: one is made at a time.
    let mut cached = site.cached.clone().lock_owned().await;
    if let Some((at, text)) = cached.get(&number)
        && at.elapsed() < FRESH
    {
        return answer(text.clone());
    }
    let sources = site.watching.sources.clone();
    // A hundred thousand actors take a while.
    let made = tokio::task::spawn_blocking(move || {
        let system = watched.and_then(|watched| watched.alive());
        let snapshot = system.map(|system| system.snapshot());
        let mut text = snapshot.map(|it| families(&it)).unwrap_or_default();
        sources.render(&mut text);
        let text = Bytes::from(text.finish());
        cached.retain(|_, (at, _)| at.elapsed() < FRESH);
        cached.insert(number, (Instant::now(), text.clone()));
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

fn answer(text: Bytes) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (headers, text).into_response()
}
