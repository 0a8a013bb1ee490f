//! gRPC: tonic with a unary call for an ask, and one stream of the client for all tells. The service is written by hand, as
//! its generator would.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    pin::Pin,
    task::{Context, Poll},
};

use anyhow::{Context as _, Result};
use http::uri::PathAndQuery;
use tokio::{
    net::TcpListener,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    client,
    server::{self, ClientStreamingService, NamedService, UnaryService},
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::{
    peer::{self, Running},
    receiver::Inbox,
    sender::{Client, Ledger, Messages},
};

const ASK: &str = "/peers.Counter/Ask";
const TELL: &str = "/peers.Counter/Tell";
/// Messages that wait for the stream.
const QUEUE_BOUND: usize = 8_192;

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(bytes = "vec", tag = "1")]
    payload: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[derive(Clone)]
struct Counter(Inbox);

impl NamedService for Counter {
    const NAME: &'static str = "peers.Counter";
}

impl Service<http::Request<Body>> for Counter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Call<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let counter = self.clone();
        Box::pin(async move {
            let mut grpc = server::Grpc::new(ProstCodec::default());
            Ok(match request.uri().path() {
                ASK => grpc.unary(counter, request).await,
                TELL => grpc.client_streaming(counter, request).await,
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

impl UnaryService<Message> for Counter {
    type Response = Number;
    type Future = Ready<Result<Response<Number>, Status>>;

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let value = self.0.handle(&request.get_ref().payload);
        ready(Ok(Response::new(Number { value })))
    }
}

impl ClientStreamingService<Message> for Counter {
    type Response = Number;
    type Future = Call<Result<Response<Number>, Status>>;

    fn call(&mut self, request: Request<Streaming<Message>>) -> Self::Future {
        let inbox = self.0.clone();
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut value = 0;
            while let Some(message) = messages.message().await? {
                value = inbox.handle(&message.payload);
            }
            Ok(Response::new(Number { value }))
        })
    }
}

pub fn receive(inbox: Inbox) -> Result<Running> {
    let runtime = peer::runtime()?;
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = Server::builder().add_service(Counter(inbox));
        tokio::spawn(server.serve_with_incoming(incoming));
        anyhow::Ok(address)
    })?;
    Ok(Running::new(format!("http://{address}"), runtime))
}

#[derive(Clone)]
pub struct Remote {
    channel: Channel,
    tells: mpsc::Sender<Message>,
}

pub async fn connect(to: &str) -> Result<Remote> {
    let channel = Endpoint::from_shared(to.to_owned())?.connect().await?;
    let (tells, messages) = mpsc::channel(QUEUE_BOUND);
    let mut grpc = client::Grpc::new(channel.clone());
    tokio::spawn(async move {
        grpc.ready().await?;
        let messages = Request::new(ReceiverStream::new(messages));
        let path = PathAndQuery::from_static(TELL);
        let codec = ProstCodec::<Message, Number>::default();
        grpc.client_streaming(messages, path, codec).await?;
        anyhow::Ok(())
    });
    Ok(Remote { channel, tells })
}

impl Client for Remote {
    async fn ask(&self, payload: Vec<u8>) -> Result<u64> {
        let mut grpc = client::Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static(ASK);
        let codec = ProstCodec::<Message, Number>::default();
        let reply = grpc.unary(Request::new(Message { payload }), path, codec);
        Ok(reply.await?.into_inner().value)
    }

    async fn tell_all(&self, messages: Messages) -> Result<()> {
        for payload in messages {
            let sent = self.tells.send(Message { payload }).await;
            sent.ok().context("the stream has ended")?;
        }
        Ok(())
    }

    fn offer(&self, payload: Vec<u8>, ledger: &Ledger) {
        let result = self.tells.try_send(Message { payload });
        ledger.note(!matches!(
            result,
            Err(TrySendError::Full(_) | TrySendError::Closed(_))
        ));
    }
}
