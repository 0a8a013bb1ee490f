//! `freeboard serve-http`: one page, over and over.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, sync::OnceLock};

use anyhow::Result;
use bytes::Bytes;
use clap::Args;
use freeboard::net::{
    http::{Body, HttpHandler, HttpServer, Limits},
    tcp::ListenerOptions,
};
use http::{Response, StatusCode, header::CONTENT_TYPE};

use super::{HostArgs, announce, bound, metrics};
use crate::{board, interrupt::Interrupt, spin::spin_us};

/// Knobs of `freeboard serve-http`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeHttpArgs {
    /// Listen here; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// What / answers
    #[arg(long, value_name = "TEXT", default_value = "Hello world\n")]
    body: String,

    /// Compute so long for each request, in microseconds
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    cpu_us: u64,

    #[command(flatten)]
    host: HostArgs,
}

/// Serves until Ctrl-C.
pub(crate) fn serve_http(args: &ServeHttpArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let end = interrupt.expect();
    let host = args.host.start()?;
    let body = Bytes::from(args.body.clone());
    let cpu_us = args.cpu_us;
    let this: Arc<OnceLock<HttpServer>> = Arc::default();
    let (server, system) = (this.clone(), host.system.clone());
    let handler = HttpHandler::function(move |request| match request.uri().path() {
        "/" => {
            spin_us(cpu_us);
            page(body.clone())
        }
        "/metrics" => metrics::page(&system, |text| {
            let Some(server) = server.get() else { return };
            server.connections().render("http", text);
            server.snapshot().render("http", text);
        }),
        _ => {
            let mut answer = page(Bytes::from_static(b"Not found\n"));
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    });
    let options = ListenerOptions {
        connections_max: args.host.connections_max as usize,
    };
    let server = bound(HttpServer::bind(
        &host.system,
        &host.poller,
        args.listen,
        options,
        Limits::default(),
        handler,
    ))?;
    let seen = server.clone();
    let _shown = board::show("http", "http", move |text| {
        seen.connections().render("http", text);
        seen.snapshot().render("http", text);
    });
    // Set once, here.
    let _ = this.set(server.clone());
    announce(&format!(
        "http://{} serves, gauges on /metrics; Ctrl-C ends it",
        server.address()
    ))?;
    Ok(host.serve(end, "connection", |time| server.drain(time)))
}

fn page(body: Bytes) -> Response<Body> {
    let answer = Response::builder().header(CONTENT_TYPE, "text/plain");
    answer
        .body(Body::from(body))
        .expect("the header is well-formed")
}
