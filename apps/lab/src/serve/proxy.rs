//! `freeboard proxy`: connections carried on to another address.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use freeboard::net::{
    http::{HttpHandler, HttpServer, Limits},
    proxy::{Proxy, ProxyOptions},
    tcp::ListenerOptions,
};

use super::{HostArgs, announce, bound, metrics, resolve};
use crate::{board, interrupt::Interrupt, usage::Usage};

/// Knobs of `freeboard proxy`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProxyArgs {
    /// Listen here; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:13306")]
    listen: SocketAddr,

    /// Carry each connection on to this address, which is not the proxy's own; a name is looked up once, now
    #[arg(long, value_name = "HOST:PORT")]
    to: String,

    /// Close what has carried nothing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = crate::parse::seconds)]
    idle_time: Duration,

    /// Serve the gauges here, on /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    host: HostArgs,
}

/// Carries until Ctrl-C.
pub(crate) fn proxy(args: &ProxyArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let backend = resolve(&args.to)?;
    if backend.port() == 0 {
        return Err(Usage::new(format!("--to {backend} has no port")).into());
    }
    let end = interrupt.expect();
    let host = args.host.start()?;
    let options = ProxyOptions {
        listener: ListenerOptions {
            connections_max: args.host.connections_max as usize,
        },
        idle_time: args.idle_time,
        ..ProxyOptions::default()
    };
    let proxy = bound(Proxy::bind(
        &host.system,
        &host.poller,
        args.listen,
        backend,
        options,
    ))?;
    let mut gauges = None;
    if let Some(address) = args.metrics {
        let (shown, system) = (proxy.clone(), host.system.clone());
        let handler = HttpHandler::function(move |_| {
            metrics::page(&system, |text| {
                shown.connections().render("proxy", text);
                shown.snapshot().render("proxy", text);
            })
        });
        gauges = Some(bound(HttpServer::bind(
            &host.system,
            &host.poller,
            address,
            ListenerOptions::default(),
            Limits::default(),
            handler,
        ))?);
    }
    let seen = proxy.clone();
    let _shown = board::show("proxy", "proxy", move |text| {
        seen.connections().render("proxy", text);
        seen.snapshot().render("proxy", text);
    });
    // Said once nothing can be in the way any more.
    announce(&format!(
        "{} carries on to {backend}; Ctrl-C ends it",
        proxy.address()
    ))?;
    if let Some(server) = gauges {
        announce(&format!("gauges on http://{}/metrics", server.address()))?;
    }
    Ok(host.serve(end, "connection", |time| proxy.drain(time)))
}
