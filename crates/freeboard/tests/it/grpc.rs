//! tonic drops the future of a cancelled request, over a real connection: the actor does not handle its message.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
    sync::{Arc, mpsc},
    time::Duration,
};

use axum::http::{Request as HttpRequest, uri::PathAndQuery};
use freeboard::bridge::{RETRY_AFTER_DEFAULT, Refusal};
use freeboard::prelude::*;
use tokio::{net::TcpListener, task, time};
use tonic::transport::{Channel, Server, server::TcpIncoming};
use tonic::{Request, Response, Status, body::Body, client, server};
use tonic_prost::ProstCodec;
use tower::service_fn;

const LIMIT: Duration = Duration::from_secs(60);

struct Numbers(Vec<u64>);
struct Stall(mpsc::Receiver<()>);
struct Get;

impl Actor for Numbers {}

impl Handler<u64> for Numbers {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        self.0.push(number);
        number
    }
}

impl Handler<Stall> for Numbers {
    type Reply = ();
    fn handle(&mut self, stall: Stall, _cx: &mut Context<Self>) {
        let _ = stall.0.recv();
    }
}

impl Handler<Get> for Numbers {
    type Reply = Vec<u64>;
    fn handle(&mut self, _msg: Get, _cx: &mut Context<Self>) -> Vec<u64> {
        self.0.clone()
    }
}

/// Counts the futures of requests that have ended.
struct Ending(Arc<AtomicU64>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            task::yield_now().await;
        }
    };
    time::timeout(LIMIT, wait).await.expect(what);
}

async fn request(channel: Channel, number: u64) -> Result<u64, Status> {
    let mut grpc = client::Grpc::new(channel);
    grpc.ready().await.expect("a connection");
    let path = PathAndQuery::from_static("/test.Numbers/Push");
    let codec = ProstCodec::<u64, u64>::default();
    let reply: Response<u64> = grpc.unary(Request::new(number), path, codec).await?;
    Ok(reply.into_inner())
}

#[tokio::test]
async fn a_cancelled_request_is_not_handled() {
    let system = System::builder().workers(1).build().expect("a system");
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1).overload(Overload::Wait));
    let actor = system.spawn_once(options, Numbers(Vec::new()));
    let actor = actor.expect("valid options");
    let (begun, ended) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let server = {
        let (actor, begun, ended) = (actor.clone(), begun.clone(), ended.clone());
        let unary = service_fn(move |request: Request<u64>| {
            // Dropped after the ask, which is made later.
            let ending = Ending(ended.clone());
            let (actor, begun) = (actor.clone(), begun.clone());
            async move {
                let _ending = ending;
                begun.fetch_add(1, Ordering::SeqCst);
                let reply = actor.ask(request.into_inner()).await;
                reply.map(Response::new).map_err(|error| {
                    let trailers = Refusal::from(error).grpc_trailers(RETRY_AFTER_DEFAULT);
                    Status::from_header_map(&trailers).expect("a status")
                })
            }
        });
        service_fn(move |request: HttpRequest<Body>| {
            let mut grpc = server::Grpc::new(ProstCodec::<u64, u64>::default());
            let unary = unary.clone();
            async move { Ok::<_, Infallible>(grpc.unary(unary, request).await) }
        })
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    task::spawn(Server::builder().serve_with_incoming(server, TcpIncoming::from(listener)));
    let connect = async || {
        let endpoint = Channel::from_shared(url.clone()).expect("a URL");
        endpoint.connect().await.expect("it listens")
    };
    let (first, second) = (connect().await, connect().await);

    let (back_end, stalled) = mpsc::channel();
    actor.tell(Stall(stalled)).expect("an empty lane");
    eventually("the actor is busy", || actor.depth() == 0).await;
    let queued = task::spawn(request(first.clone(), 1));
    eventually("the lane is full", || actor.depth() == 1).await;
    let waiting = task::spawn(request(second, 2));
    eventually("it waits", || begun.load(Ordering::SeqCst) == 2).await;
    // The stream of one is reset, the connection of the other is closed with its only handle.
    queued.abort();
    waiting.abort();
    eventually("both ended", || ended.load(Ordering::SeqCst) == 2).await;
    drop(back_end);
    assert_eq!(request(first, 3).await.expect("a reply"), 3);
    assert_eq!(actor.ask(Get).await.expect("a reply"), [3]);

    let lane = || actor.snapshot().lanes[0].clone();
    // The counters of a batch follow its messages.
    eventually("all are counted", || lane().handled == 3).await;
    let shed = lane().shed.into_iter().filter(|it| it.count > 0);
    let shed: Vec<_> = shed.map(|it| (it.reason, it.count)).collect();
    assert_eq!(shed, [("asker_gone".to_owned(), 1)]);
    assert_eq!(lane().accepted, 4, "the waiting one was never accepted");
}
