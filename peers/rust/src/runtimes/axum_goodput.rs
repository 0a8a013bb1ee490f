//! A route of axum behind tower's LoadShed and ConcurrencyLimit, called without a connection.
//!
//! The handler computes in the runtime's only blocking thread, as axum's authors advise for work that takes a processor.
//! A handler that computes in its task would hold the runtime's only worker: no other request would be in flight
//! meanwhile, and the limit would never be reached.

use std::time::Duration;

use anyhow::Result;
use axum::{BoxError, Router, body::Body, error_handling::HandleErrorLayer, routing::get};
use http::{Request, StatusCode};
use tokio::runtime::Runtime;
use tokio::task;
use tower::{ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer};

use crate::goodput::{Answer, Service, Work};

use super::tokio_runtime::start_one;

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

    async fn ask(&self, _: Duration) -> Answer {
        let routes = self.routes.clone();
        let answered = self
            .runtime
            .spawn(async move { routes.oneshot(Request::new(Body::empty())).await });
        match answered.await {
            Ok(Ok(response)) if response.status() == StatusCode::OK => Answer::Replied,
            Ok(Ok(response)) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                Answer::Refused
            }
            _ => Answer::GivenUp,
        }
    }
}
