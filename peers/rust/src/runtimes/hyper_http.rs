//! hyper on tokio.

use std::{convert::Infallible, net::SocketAddr};

use anyhow::Result;
use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::{
    cpu_time,
    http::{self, Connections, PAGE},
    outcome::Outcome,
};

const WORKERS_COUNT: usize = 2;

pub fn run(connections: Connections, count: u64) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS_COUNT)
        .enable_all()
        .build()?;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = runtime.block_on(TcpListener::bind(address))?;
    let address = listener.local_addr()?;
    runtime.spawn(serve(listener));
    http::ask(connections, count, address, || {
        Ok(cpu_time::used().as_secs_f64())
    })
}

async fn serve(listener: TcpListener) {
    // It ends with the runtime.
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let answer = service_fn(|_| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(
                    PAGE.as_bytes(),
                ))))
            });
            // Clients end connections as they like.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}
