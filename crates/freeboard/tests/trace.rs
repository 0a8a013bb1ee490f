//! One trace from an HTTP request through two actors.
//!
//! A process of its own: it installs the global subscriber of `tracing`.
#![cfg(all(feature = "spans", feature = "tower", feature = "tokio"))]

use std::{
    collections::HashMap,
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::HeaderMap, routing::get};
use freeboard::{bridge::TraceParent, prelude::*};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task,
};
use tracing::{
    Instrument, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context as LayerContext, SubscriberExt},
    registry::LookupSpan,
};

/// A span: its name, id, parent and fields.
#[derive(Clone, Debug)]
struct Seen {
    name: &'static str,
    id: u64,
    parent: Option<u64>,
    fields: Fields,
}

#[derive(Clone, Debug, Default)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Seen>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        if attributes.metadata().target() != "freeboard_actor" {
            return;
        }
        let parent = context.span(id).and_then(|span| span.parent());
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.0.lock().expect("no panic").push(Seen {
            name: attributes.metadata().name(),
            id: id.into_u64(),
            parent: parent.map(|it| it.id().into_u64()),
            fields,
        });
    }
}

struct Front(ActorRef<Back>);
struct Back;
struct Page;
struct Load;

impl Actor for Front {}
impl Actor for Back {}

impl AsyncHandler<Page> for Front {
    type Reply = String;
    async fn handle(&mut self, _msg: Page, _cx: &mut Context<Self>) -> String {
        self.0.ask(Load).await.expect("a reply")
    }
}

impl Handler<Load> for Back {
    type Reply = String;
    fn handle(&mut self, _msg: Load, _cx: &mut Context<Self>) -> String {
        "a page".to_owned()
    }
}

async fn visit(State(front): State<ActorRef<Front>>, headers: HeaderMap) -> String {
    let span = TraceParent::from_headers(&headers).span();
    let asking = front.ask(Page).into_future().instrument(span);
    asking.await.expect("a reply")
}

#[tokio::test]
async fn a_request_s_trace_goes_through_two_actors() {
    let recorder = Recorder::default();
    let subscriber = Registry::default().with(recorder.clone());
    tracing::subscriber::set_global_default(subscriber).expect("the only one");
    let system = System::builder().workers(1).build().expect("a system");
    let back = system.spawn(Back);
    let front = system.spawn(Front(back.clone()));
    let app = Router::new()
        .route("/", get(visit))
        .with_state(front.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    task::spawn(async { axum::serve(listener, app).await });

    let parent = TraceParent::random();
    let mut client = TcpStream::connect(address).await.expect("a connection");
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\ntraceparent: {parent}\r\n");
    let request = format!("{head}connection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("an answer");
    assert!(text.ends_with("\r\n\r\na page"), "{text}");
    let shutdown = move || system.shutdown(Duration::from_secs(60));
    let report = task::spawn_blocking(shutdown).await.expect("no panic");
    assert!(report.is_clean(), "{report:?}");

    let spans = recorder.0.lock().expect("no panic").clone();
    let request: Vec<_> = spans.iter().filter(|it| it.name == "request").collect();
    let of = |actor: u64| -> Vec<_> {
        let is_of = |it: &&Seen| it.fields.0.get("actor") == Some(&actor.to_string());
        spans.iter().filter(is_of).collect()
    };
    let (front, back) = (of(front.id().get()), of(back.id().get()));
    let ([request], [front], [back]) = (&request[..], &front[..], &back[..]) else {
        panic!("one span each: {spans:?}");
    };
    assert_eq!(request.parent, None);
    assert_eq!(
        request.fields.0["trace_id"],
        format!("{:032x}", parent.trace_id())
    );
    assert_eq!(
        request.fields.0["parent_id"],
        format!("{:016x}", parent.parent_id())
    );
    assert_eq!(
        (front.parent, back.parent),
        (Some(request.id), Some(front.id))
    );
}
