//! A route of axum, called without a connection: behind tower's LoadShed and ConcurrencyLimit, or behind LoadShed and
//! an actor's service.
//!
//! With tower's limit, the handler computes in the runtime's only blocking thread, as axum's authors advise for work
//! that takes a processor. A handler that computes in its task would hold the runtime's only worker: no other request
//! would be in flight meanwhile, and the limit would never be reached.
//!
//! [`Goodput`] gets the bound of all peers, half a deadline of work. [`Untuned`] has a bound that is not made from the
//! capacity, which a service seldom knows: [`BOUND_UNTUNED`]. The limit of [`WithService`] follows the latency of the
//! requests.

use std::time::Duration;

use anyhow::Result;
use axum::{
    BoxError, Router,
    body::Body,
    error_handling::HandleErrorLayer,
    response::Response,
    routing::{get, get_service},
};
use freeboard::{
    bridge::{RETRY_AFTER_DEFAULT, Refusal},
    prelude::*,
};
use http::{Request, StatusCode};
use tokio::runtime::Runtime;
use tokio::task;
use tower::{ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer};

use crate::goodput::{Answer, Service, Work};

use super::{freeboard_goodput::adaptive_limit, tokio_runtime::start_one};

/// Requests of 200 us for four deadlines.
const BOUND_UNTUNED: usize = 1_000;

async fn ask(routes: &Router, runtime: &Runtime, left: Duration) -> Answer {
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(left);
    let routes = routes.clone();
    let answered = runtime.spawn(async move { routes.oneshot(request).await });
    match answered.await {
        Ok(Ok(response)) if response.status() == StatusCode::OK => Answer::Replied,
        Ok(Ok(response)) if response.status() == StatusCode::SERVICE_UNAVAILABLE => Answer::Refused,
        _ => Answer::GivenUp,
    }
}

pub struct Goodput {
    routes: Router,
    runtime: Runtime,
}

impl Service for Goodput {
    fn start(work: Work, bound: usize) -> Result<Self> {
        let handle = move || {
            let work = work.clone();
            async move {
                match task::spawn_blocking(move || work.handle()).await {
                    Ok(()) => StatusCode::OK,
                    Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
                }
            }
        };
        let layers = ServiceBuilder::new()
            .layer(HandleErrorLayer::new(|_: BoxError| async {
                StatusCode::SERVICE_UNAVAILABLE
            }))
            .layer(LoadShedLayer::new())
            .layer(ConcurrencyLimitLayer::new(bound));
        // With its state, as a server has it: otherwise each call would make a limit of its own.
        let routes = Router::new().route("/", get(handle)).layer(layers);
        Ok(Self {
            routes: routes.with_state(()),
            runtime: start_one()?,
        })
    }

    async fn ask(&self, left: Duration) -> Answer {
        ask(&self.routes, &self.runtime, left).await
    }
}

/// As [`Goodput`], with [`BOUND_UNTUNED`].
pub struct Untuned(Goodput);

impl Service for Untuned {
    fn start(work: Work, _bound: usize) -> Result<Self> {
        Goodput::start(work, BOUND_UNTUNED).map(Self)
    }

    async fn ask(&self, left: Duration) -> Answer {
        self.0.ask(left).await
    }
}

#[derive(Clone)]
struct Server(Work);

/// A request, with the time that its client waits.
struct Handle(Option<Duration>);

impl Actor for Server {}

impl Handler<Handle> for Server {
    type Reply = ();

    fn handle(&mut self, _: Handle, _: &mut Context<Self>) {
        self.0.handle();
    }
}

/// LoadShed and the service of a group of one, with deadlines, and an adaptive limit of the requests in flight.
pub struct WithService {
    routes: Router,
    runtime: Runtime,
    _system: System,
}

impl Service for WithService {
    fn start(work: Work, _bound: usize) -> Result<Self> {
        let system = System::builder().workers(1).build()?;
        let member = SpawnOptions::new().lane(LaneConfig::bounded(BOUND_UNTUNED));
        let options = GroupOptions::new(1)
            .member(member)
            .adaptive(adaptive_limit());
        let server = Server(work);
        let group = system.spawn_group(options, move |_| server.clone())?;
        let service = group.service().timeout_by(|it: &Handle| it.0);
        let service = service
            .map_err(Refusal::from)
            .map_request(|it: Request<Body>| Handle(it.extensions().get().copied()))
            .map_response(|()| Response::new(Body::empty()));
        let refuse = |error: BoxError| async move {
            let refusal = error.downcast_ref().unwrap_or(&Refusal::Overloaded);
            refusal.response::<Body>(RETRY_AFTER_DEFAULT)
        };
        let service = ServiceBuilder::new()
            .layer(HandleErrorLayer::new(refuse))
            .layer(LoadShedLayer::new())
            .service(service);
        let routes = Router::new().route("/", get_service(service));
        Ok(Self {
            routes: routes.with_state(()),
            runtime: start_one()?,
            _system: system,
        })
    }

    async fn ask(&self, left: Duration) -> Answer {
        ask(&self.routes, &self.runtime, left).await
    }
}
