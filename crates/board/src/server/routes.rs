//! What can be asked of the board; nothing that is asked changes anything.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query as Params, Request, State, rejection::QueryRejection},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_stream::{StreamExt, wrappers::WatchStream};

use super::{
    access::{Access, Verdict},
    assets, metrics,
};
use crate::{
    board::{BoardOptions, FrameError, Watching, check},
    query::Query,
};

/// Pages load nothing from elsewhere, and nobody else may frame them.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What all requests share.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) watching: Watching,
    access: Access,
    viewers: Arc<AtomicUsize>,
    viewers_max: usize,
    pub(super) cached: metrics::Cached,
    /// Of a processor, that looking may cost.
    pub(super) share: f64,
}

/// One of those that are kept up to date.
struct Viewer(Arc<AtomicUsize>);

impl Drop for Viewer {
    fn drop(&mut self) {
        // Ordering: Relaxed, a count that orders nothing else.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Site {
    pub(super) fn new(options: &BoardOptions, watching: Watching, port: u16) -> Self {
        Self {
            watching,
            access: Access::new(options.token.clone(), port),
            viewers: Arc::default(),
            viewers_max: options.viewers_max,
            cached: metrics::Cached::default(),
            share: options.share,
        }
    }

    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/events", get(events))
            .route("/api/frame", get(frame))
            .route("/metrics", get(metrics::text))
            .route("/healthz", get(async || "ok\n"))
            .fallback(get(assets::asset))
            .layer(middleware::from_fn_with_state(self.clone(), guard))
            .with_state(self)
    }

    fn enter(&self) -> Option<Viewer> {
        let viewer = Viewer(self.viewers.clone());
        // Ordering: Relaxed, as above.
        let before = self.viewers.fetch_add(1, Ordering::Relaxed);
        // One too many leaves again as it is dropped.
        (before < self.viewers_max).then_some(viewer)
    }
}

/// Lets in who may look, and says to browsers what the page may do.
async fn guard(State(site): State<Site>, request: Request, next: Next) -> Response {
    let is_looking = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match site.access.judge(request.uri(), request.headers()) {
        _ if !is_looking => {
            let text = "the board is only to be looked at";
            let allow = [(header::ALLOW, "GET, HEAD")];
            (allow, refused(StatusCode::METHOD_NOT_ALLOWED, text)).into_response()
        }
        Verdict::Granted => next.run(request).await,
        Verdict::GrantedByAddress if request.uri().path() == "/" => to_cookie(&site.access),
        Verdict::GrantedByAddress => next.run(request).await,
        Verdict::Unauthorised => refused(
            StatusCode::UNAUTHORIZED,
            "this board needs its token: open /?token=TOKEN once, or send it as a bearer token",
        ),
        Verdict::OtherSite => refused(
            StatusCode::FORBIDDEN,
            "this board does not answer to other sites' pages",
        ),
        Verdict::WrongHost => refused(
            StatusCode::FORBIDDEN,
            "this board answers to localhost and to addresses, not to other names",
        ),
    };
    let is_stranger = matches!(
        response.status(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED
    );
    let headers = response.headers_mut();
    if is_stranger {
        // It keeps no place among the connections.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Has the browser keep the token, and takes it out of its address bar.
fn to_cookie(access: &Access) -> Response {
    let cookie = access.set_cookie().unwrap_or_default();
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, "/".to_owned()),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

pub(super) fn refused(status: StatusCode, text: &str) -> Response {
    // It may repeat what was asked: it stays one line, and says nothing to a terminal.
    let line = text.replace(char::is_control, " ");
    (status, format!("{line}\n")).into_response()
}

fn refused_frame(error: &FrameError) -> Response {
    let status = match error {
        FrameError::Filter(_) | FrameError::Rows => StatusCode::BAD_REQUEST,
        FrameError::TooMany(_) | FrameError::Within | FrameError::Ended => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    refused(status, &error.to_string())
}

type Asked = Result<Params<Query>, QueryRejection>;

fn asked(params: Asked) -> Result<Query, String> {
    match params {
        Ok(Params(query)) => Ok(query),
        Err(rejection) => Err(rejection.body_text()),
    }
}

/// How often a viewer wants to be told.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Pace {
    hz: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { hz: 10.0 }
    }
}

/// Frames for as long as somebody listens.
async fn events(
    State(site): State<Site>,
    pace: Result<Params<Pace>, QueryRejection>,
    params: Asked,
) -> Response {
    let query = match asked(params) {
        Ok(query) => query,
        Err(text) => return refused(StatusCode::BAD_REQUEST, &text),
    };
    let hz = match pace {
        Ok(Params(pace)) if pace.hz > 0.0 => pace.hz.clamp(0.1, 10.0),
        _ => return refused(StatusCode::BAD_REQUEST, "hz is a number above 0"),
    };
    let filter = match check(&query) {
        Ok(filter) => filter,
        Err(error) => return refused_frame(&error),
    };
    let Some(viewer) = site.enter() else {
        let text = format!(
            "{} pages are kept up to date, which is as many as may be; close one, or raise viewers_max",
            site.viewers_max
        );
        return refused(StatusCode::SERVICE_UNAVAILABLE, &text);
    };
    let answers = WatchStream::new(site.watching.desk.listen(query, filter));
    let events = answers
        .filter(|event: &Bytes| !event.is_empty())
        .throttle(Duration::from_secs_f64(1.0 / hz) - Duration::from_millis(5));
    let events = events.map(move |event| {
        // Leaves when the stream is dropped.
        let _ = &viewer;
        Ok::<_, Infallible>(event)
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    (headers, Body::from_stream(events)).into_response()
}

fn unknown(site: &Site, name: &str) -> String {
    let all = site.watching.systems.all();
    let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
    format!(
        "there is no system {:?}; there are: {}",
        name,
        names.join(", ")
    )
}

/// One frame.
async fn frame(State(site): State<Site>, params: Asked) -> Response {
    let query = match asked(params) {
        Ok(query) => query,
        Err(text) => return refused(StatusCode::BAD_REQUEST, &text),
    };
    if let Some(name) = &query.system
        && site.watching.systems.find(Some(name)).is_none()
    {
        return refused(StatusCode::NOT_FOUND, &unknown(&site, name));
    }
    let (sender, receiver) = oneshot::channel();
    let asked = site.watching.demand(query, Box::new(sender));
    if let Err(error) = asked {
        return refused_frame(&error);
    }
    match receiver.await {
        Ok(frame) => Json(frame).into_response(),
        Err(_) => refused_frame(&FrameError::Ended),
    }
}
