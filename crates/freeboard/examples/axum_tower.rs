//! How does an axum service put an actor behind tower, and what do its clients get under overload? Status 503 with
//! `Retry-After` at a full lane, 504 at the deadline; a request whose client has disconnected is not handled.

use std::{error::Error, io, net::SocketAddr, sync::mpsc, time::Duration};

use axum::{BoxError, Router, body::Body, error_handling::HandleErrorLayer};
use axum::{extract::Request, response::Response, routing::post_service};
use freeboard::bridge::{RETRY_AFTER_DEFAULT, Refusal, request_timeout};
use freeboard::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::{net::TcpListener, net::TcpStream, task, task::JoinSet};
use tower::{ServiceBuilder, ServiceExt};

struct Orders(u64);
struct Place(Option<Duration>); // with the time that its client waits
struct Stall(mpsc::Receiver<()>); // stands for a slow back end

impl Actor for Orders {}

impl Handler<Place> for Orders {
    type Reply = Response;
    fn handle(&mut self, _msg: Place, _cx: &mut Context<Self>) -> Response {
        self.0 += 1;
        Response::new(format!("order {}", self.0).into())
    }
}

impl Handler<Stall> for Orders {
    type Reply = ();
    fn handle(&mut self, stall: Stall, _cx: &mut Context<Self>) {
        let _ = stall.0.recv();
    }
}

async fn send(address: SocketAddr, timeout: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("POST / HTTP/1.1\r\nhost: shop\r\nx-request-timeout: {timeout}\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(b"connection: close\r\n\r\n").await?;
    Ok(stream)
}

async fn request(address: SocketAddr, timeout: &str) -> io::Result<String> {
    let (mut stream, mut text) = (send(address, timeout).await?, String::new());
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let options = SpawnOptions::new().lane(LaneConfig::bounded(4).overload(Overload::Reject));
    let orders = system.spawn_once(options, Orders(0))?;
    let service = orders.service().timeout_by(|order: &Place| order.0);
    let service = service.map_err(Refusal::from);
    let service = service.filter(|request: Request| request_timeout(request.headers()).map(Place));
    let refuse = HandleErrorLayer::new(|error: BoxError| async move {
        Refusal::of_layers(&*error).response::<Body>(RETRY_AFTER_DEFAULT)
    });
    let service = ServiceBuilder::new()
        .layer(refuse)
        .load_shed()
        .service(service);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route("/", post_service(service));
    task::spawn(async { axum::serve(listener, app).await });
    assert!(request(address, "10s").await?.ends_with("\r\n\r\norder 1"));
    assert!(request(address, "soon").await?.contains("400 Bad Request"));

    let (back_end, stalled) = mpsc::channel();
    orders.tell(Stall(stalled))?;
    let lane_is = async |depth| {
        while orders.depth() != depth {
            task::yield_now().await
        }
    };
    lane_is(0).await;
    let client = send(address, "1m").await?;
    lane_is(1).await;
    drop(client); // its request stays in the lane, and will not be handled
    let requests: JoinSet<_> = (0..5).map(|_| request(address, "100ms")).collect();
    let texts: Vec<_> = requests.join_all().await.into_iter().flatten().collect();
    let count = |text: &str| texts.iter().filter(|it| it.contains(text)).count();
    println!("{} are refused, {} are late", count("503"), count("504"));
    assert_eq!(
        (count("503"), count("\r\nretry-after: 1\r\n"), count("504")),
        (2, 2, 3)
    );
    drop(back_end);
    lane_is(0).await;
    assert!(
        request(address, "10s").await?.ends_with("order 2"),
        "none of the six was placed"
    );
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
