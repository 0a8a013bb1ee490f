//! How does a tonic service use an actor? A full lane gives `RESOURCE_EXHAUSTED` with a time to retry, a missed deadline
//! `DEADLINE_EXCEEDED`. The generator of tonic writes the messages, the server and the client from a `.proto` file.

use std::{convert::Infallible, error::Error, sync::mpsc, time::Duration};

use axum::http::{Request as HttpRequest, uri::PathAndQuery};
use freeboard::bridge::{RETRY_AFTER_DEFAULT, Refusal, grpc_timeout};
use freeboard::prelude::*;
use tokio::{net::TcpListener, task, task::JoinSet};
use tonic::transport::{Channel, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status, body::Body, client, server};
use tonic_prost::ProstCodec;
use tower::service_fn;

const LIMIT: Duration = Duration::from_millis(100);

#[derive(Clone, PartialEq, prost::Message)]
struct Order {}
#[derive(Clone, PartialEq, prost::Message)]
struct Placed {
    #[prost(uint64, tag = "1")]
    number: u64,
}
struct Orders(u64);
struct Stall(mpsc::Receiver<()>); // stands for a slow back end

impl Actor for Orders {}

impl Handler<Order> for Orders {
    type Reply = Placed;
    fn handle(&mut self, _msg: Order, _cx: &mut Context<Self>) -> Placed {
        self.0 += 1;
        Placed { number: self.0 }
    }
}

impl Handler<Stall> for Orders {
    type Reply = ();
    fn handle(&mut self, stall: Stall, _cx: &mut Context<Self>) {
        let _ = stall.0.recv();
    }
}

async fn place(to: ActorRef<Orders>, request: Request<Order>) -> Result<Response<Placed>, Status> {
    let timeout = grpc_timeout(request.metadata().as_ref());
    let timeout = timeout.map_err(|error| Status::invalid_argument(error.to_string()))?;
    let ask = to.ask(request.into_inner());
    let reply = ask.timeout(timeout.unwrap_or(LIMIT).min(LIMIT)).await;
    reply.map(Response::new).map_err(|error| {
        let trailers = Refusal::from(error).grpc_trailers(RETRY_AFTER_DEFAULT);
        Status::from_header_map(&trailers).expect("a status")
    })
}

async fn request(channel: Channel) -> Result<u64, Status> {
    let mut grpc = client::Grpc::new(channel);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let (path, codec) = (
        PathAndQuery::from_static("/shop.Orders/Place"),
        ProstCodec::default(),
    );
    let mut request = Request::new(Order {});
    request.set_timeout(Duration::from_secs(60));
    let placed: Response<Placed> = grpc.unary(request, path, codec).await?;
    Ok(placed.into_inner().number)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2).overload(Overload::Reject));
    let orders = system.spawn_once(options, Orders(0))?;
    let to = orders.clone();
    let unary = service_fn(move |request| place(to.clone(), request));
    let service = service_fn(move |request: HttpRequest<Body>| {
        let mut grpc = server::Grpc::new(ProstCodec::default());
        let unary = unary.clone(); // several methods: one for each `request.uri().path()`
        async move { Ok::<_, Infallible>(grpc.unary(unary, request).await) }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = Server::builder().serve_with_incoming(service, TcpIncoming::from(listener));
    task::spawn(server);
    let channel = Channel::from_shared(url)?.connect().await?;
    assert_eq!(request(channel.clone()).await?, 1);

    let (back_end, stalled) = mpsc::channel();
    orders.tell(Stall(stalled))?;
    let lane_is_empty = async || {
        while orders.depth() > 0 {
            task::yield_now().await
        }
    };
    lane_is_empty().await;
    let requests: JoinSet<_> = (0..4).map(|_| request(channel.clone())).collect();
    let refused = requests
        .join_all()
        .await
        .into_iter()
        .map(Result::unwrap_err);
    let (late, full): (Vec<_>, Vec<_>) =
        refused.partition(|it| it.code() == Code::DeadlineExceeded);
    println!("late: {late:?}, refused: {full:?}");
    assert!(late.len() == 2 && full[0].code() == Code::ResourceExhausted);
    assert_eq!(
        full[0].metadata().get("grpc-retry-pushback-ms"),
        Some(&"1000".parse()?)
    );
    drop(back_end);
    lane_is_empty().await;
    assert_eq!(request(channel).await?, 2, "none of the four was placed");
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
