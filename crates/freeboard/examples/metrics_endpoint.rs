//! How does Prometheus scrape a system?
//!
//! ```console
//! cargo run -p freeboard --example metrics_endpoint
//! ```

use std::error::Error;

use axum::{extract::State, http::header, routing::get};
use freeboard::{meter::families, prelude::*};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

struct Orders;
struct Place;

impl Actor for Orders {}

impl Handler<Place> for Orders {
    type Reply = ();
    fn handle(&mut self, _msg: Place, _cx: &mut Context<Self>) {}
}

async fn metrics(
    State(system): State<System>,
) -> ([(header::HeaderName, &'static str); 1], String) {
    // The overview has actors by type, so the text does not grow with their number. To add a stream, a Redis client
    // or a cache: `stream.snapshot().render("journal", &mut text)`.
    let text = families(&system.overview());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text.finish())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().name("shop").build()?;
    let orders = system.spawn_once(SpawnOptions::new().name("orders"), Orders)?;
    for _ in 0..1_000 {
        orders.ask(Place).await?;
    }

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut client = TcpStream::connect(listener.local_addr()?).await?;
    let app = axum::Router::new()
        .route("/metrics", get(metrics))
        .with_state(system);
    tokio::spawn(async move { axum::serve(listener, app).await });

    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    client.read_to_string(&mut text).await?;

    let samples: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("orders"))
        .collect();
    println!("{}", samples.join("\n"));
    assert!(text.starts_with("HTTP/1.1 200 OK"));
    assert!(text.contains("freeboard_system_info{system=\"shop\"} 1"));
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
