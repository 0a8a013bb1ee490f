//! The routes of the board. No request changes anything.

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
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_stream::{StreamExt, wrappers::WatchStream};

use super::{
    access::{Access, Verdict},
    metrics,
};
use crate::{
    board::{BoardOptions, BoardState, FrameError, check},
    frame::Frame,
    query::Query,
};

/// Pages load nothing from other hosts and cannot be framed.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Shared by all requests.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) state: BoardState,
    access: Access,
    viewers: Arc<AtomicUsize>,
    viewers_max: usize,
    pub(super) cached: metrics::Cached,
    /// The board's share of a processor.
    pub(super) share: f64,
}

/// A viewer, counted until it is dropped.
struct Viewer(Arc<AtomicUsize>);

impl Drop for Viewer {
    fn drop(&mut self) {
        // Ordering: Relaxed, a count that orders nothing else.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Site {
    pub(super) fn new(options: &BoardOptions, state: BoardState, port: u16) -> Self {
        Self {
            state,
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
            .fallback(get(asset))
            .layer(middleware::from_fn_with_state(self.clone(), guard))
            .with_state(self)
    }

    fn enter(&self) -> Option<Viewer> {
        let viewer = Viewer(self.viewers.clone());
        // Ordering: Relaxed, as above.
        let before = self.viewers.fetch_add(1, Ordering::Relaxed);
        // A viewer beyond the limit is dropped and subtracted again.
        (before < self.viewers_max).then_some(viewer)
    }
}

/// Checks access, and adds the security headers.
async fn guard(State(site): State<Site>, request: Request, next: Next) -> Response {
    let is_read_only = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match site.access.judge(request.uri(), request.headers()) {
        _ if !is_read_only => {
            let text = "the board accepts only GET and HEAD";
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
    let is_refused = matches!(
        response.status(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED
    );
    let headers = response.headers_mut();
    if is_refused {
        // It must not keep a permit.
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

/// Stores the token in a cookie and removes it from the address bar.
fn to_cookie(access: &Access) -> Response {
    let cookie = access.set_cookie().unwrap_or_default();
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, "/".to_owned()),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

pub(super) fn refused(status: StatusCode, text: &str) -> Response {
    // The text may repeat input: it must be one line without control characters.
    let line = text.replace(char::is_control, " ");
    (status, format!("{line}\n")).into_response()
}

/// An error becomes its status and its text.
struct Refusal(StatusCode, String);

impl From<FrameError> for Refusal {
    fn from(error: FrameError) -> Self {
        let status = match error {
            FrameError::Filter(_) | FrameError::Rows => StatusCode::BAD_REQUEST,
            FrameError::TooMany(_) | FrameError::Within | FrameError::Ended => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self(status, error.to_string())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        refused(self.0, &self.1)
    }
}

type QueryParams = Result<Params<Query>, QueryRejection>;

/// The update rate of a viewer.
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

/// A stream of frames.
async fn events(
    State(site): State<Site>,
    pace: Result<Params<Pace>, QueryRejection>,
    params: QueryParams,
) -> Result<Response, Refusal> {
    let Params(query) = params?;
    let hz = match pace {
        Ok(Params(pace)) if pace.hz > 0.0 => pace.hz.clamp(0.1, 10.0),
        _ => {
            let text = "hz is a number above 0".to_owned();
            return Err(Refusal(StatusCode::BAD_REQUEST, text));
        }
    };
    let filter = check(&query)?;
    let Some(viewer) = site.enter() else {
        let text = format!(
            "{} pages are kept up to date, which is as many as may be; close one, or raise viewers_max",
            site.viewers_max
        );
        return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let answers = WatchStream::new(site.state.subscriptions.subscribe(query, filter));
    let events = answers
        .filter(|event: &Bytes| !event.is_empty())
        .throttle(Duration::from_secs_f64(1.0 / hz) - Duration::from_millis(5));
    let events = events.map(move |event| {
        // Dropped with the stream.
        let _ = &viewer;
        Ok::<_, Infallible>(event)
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::from_stream(events)).into_response())
}

fn unknown(site: &Site, name: &str) -> String {
    let all = site.state.systems.all();
    let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
    format!(
        "there is no system {:?}; there are: {}",
        name,
        names.join(", ")
    )
}

/// One frame.
async fn frame(State(site): State<Site>, params: QueryParams) -> Result<Json<Frame>, Refusal> {
    let Params(query) = params?;
    if let Some(name) = &query.system
        && site.state.systems.find(Some(name)).is_none()
    {
        return Err(Refusal(StatusCode::NOT_FOUND, unknown(&site, name)));
    }
    let (sender, receiver) = oneshot::channel();
    site.state.request(query, Box::new(sender))?;
    Ok(Json(receiver.await.map_err(|_| FrameError::Ended)?))
}

/// The files of the page, which are part of the binary.
static PAGE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/page");

/// The file of that path; the page itself at `/`.
async fn asset(uri: Uri) -> Response {
    let path = match uri.path() {
        "/" => "index.html",
        path => path.trim_start_matches('/'),
    };
    // Only embedded files are found: no path leads to the file system.
    let Some(file) = PAGE.get_file(path) else {
        return refused(StatusCode::NOT_FOUND, "there is no such page");
    };
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    ([(header::CONTENT_TYPE, kind)], file.contents()).into_response()
}
