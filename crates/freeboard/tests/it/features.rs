//! Each feature by itself: what it exports does the least that it promises.

use std::time::Duration;

use freeboard::prelude::*;

const SHUTDOWN: Duration = Duration::from_secs(10);

struct Echo;

impl Actor for Echo {}

impl Handler<u64> for Echo {
    type Reply = u64;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
        number
    }
}

#[test]
fn without_features_actors_are_asked() {
    let system = System::builder().workers(1).build().expect("a system");
    assert_eq!(system.spawn(Echo).ask(7).wait(), Ok(7));
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "tokio")]
#[test]
fn tokio_pipes_a_future_to_an_actor() {
    struct Sum(std::sync::mpsc::Sender<u64>);
    impl Actor for Sum {
        fn started(&mut self, cx: &mut Context<Self>) {
            let piped = cx.pipe(std::future::ready(7_u64), |number| number);
            piped.expect("a runtime is attached");
        }
    }
    impl Handler<u64> for Sum {
        type Reply = ();
        fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
            let _ = self.0.send(number);
        }
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let builder = System::builder().tokio(runtime.handle().clone());
    let system = builder.build().expect("a system");
    let (sender, numbers) = std::sync::mpsc::channel();
    system.spawn(Sum(sender));
    assert_eq!(numbers.recv_timeout(SHUTDOWN), Ok(7));
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "stream")]
#[test]
fn stream_appends_through_an_actor() {
    use freeboard::stream::{
        StreamOptions,
        actor::{Append, StreamActor},
    };
    let directory = tempfile::tempdir().expect("a directory");
    let system = System::builder().workers(1).build().expect("a system");
    let writer = StreamActor::open(StreamOptions::new(), directory.path()).expect("it opens");
    let log = system.spawn(writer);
    let ticket = log.ask(Append(b"a record".to_vec())).wait();
    let sequence = ticket.expect("a reply").expect("a ticket").wait();
    assert_eq!(sequence.expect("durable"), 1);
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "net")]
#[test]
fn net_serves_a_request() {
    use freeboard::net::{
        http::{Body, HttpHandler, HttpServer, Limits},
        poller::{Policy, Poller},
        tcp::ListenerOptions,
        types::Response,
    };
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };
    let poller = Poller::new(1, Policy::default()).expect("a poller");
    let builder = System::builder().workers(1).driver(poller.driver());
    let system = builder.build().expect("a system");
    let page = HttpHandler::function(|_| Response::new(Body::from("a page".to_owned())));
    let (options, limits) = (ListenerOptions::default(), Limits::default());
    let address = ([127, 0, 0, 1], 0).into();
    let server = HttpServer::bind(&system, &poller, address, options, limits, page);
    let server = server.expect("a port");
    let mut client = TcpStream::connect(server.address()).expect("a connection");
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    client.write_all(request).expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    assert!(text.ends_with("\r\n\r\na page"), "{text}");
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "board")]
#[test]
fn board_answers() {
    use freeboard::board::ServeBoard;
    let system = System::builder().workers(1).build().expect("a system");
    let address = ([127, 0, 0, 1], 0).into();
    let board = system.serve_board(address).expect("a port");
    assert!(std::net::TcpStream::connect(board.address().expect("it is served")).is_ok());
    drop(board);
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "redis")]
#[test]
fn redis_refuses_commands_without_a_server() {
    use freeboard::{
        net::poller::{Policy, Poller},
        redis::{Redis, RedisOptions},
    };
    let poller = Poller::new(1, Policy::default()).expect("a poller");
    let builder = System::builder().workers(1).driver(poller.driver());
    let system = builder.build().expect("a system");
    // Nothing listens on port 1.
    let options = RedisOptions::from_url("redis://127.0.0.1:1").expect("an address");
    let redis = Redis::connect(&system, &poller, options).expect("it begins to connect");
    assert!(redis.get("a key").wait().is_err());
    drop(redis);
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "cache")]
#[test]
fn cache_fetches_without_a_server() {
    use freeboard::{
        cache::{Cache, CacheOptions},
        net::poller::{Policy, Poller},
        redis::{Redis, RedisOptions},
    };
    let poller = Poller::new(1, Policy::default()).expect("a poller");
    let builder = System::builder().workers(1).driver(poller.driver());
    let system = builder.build().expect("a system");
    let options = RedisOptions::from_url("redis://127.0.0.1:1").expect("an address");
    let redis = Redis::connect(&system, &poller, options).expect("it begins to connect");
    let cache = Cache::new(&system, &redis, CacheOptions::default()).expect("options");
    let fetch = || Ok::<_, std::io::Error>(Some("a value".into()));
    let value = cache.get_or_fetch_blocking("a key", fetch);
    assert_eq!(value.expect("fetched").as_deref(), Some(&b"a value"[..]));
    drop((cache, redis));
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "redis-embedded")]
#[test]
fn redis_embedded_stores_and_returns() {
    use freeboard::{
        net::poller::{Policy, Poller},
        redis::Redis,
        redis_embedded::{EmbeddedOptions, RedisEmbedded},
    };
    let poller = Poller::new(1, Policy::default()).expect("a poller");
    let builder = System::builder().workers(1).driver(poller.driver());
    let system = builder.build().expect("a system");
    let options = EmbeddedOptions::default();
    let server = RedisEmbedded::start(&system, &poller, options).expect("a port");
    let redis = Redis::connect(&system, &poller, server.client_options()).expect("options");
    redis.wait_up(SHUTDOWN).expect("it is up");
    redis.set("greeting", "hello").wait().expect("stored");
    let value = redis.get("greeting").wait().expect("returned");
    assert_eq!(value.as_deref(), Some(&b"hello"[..]));
    drop((redis, server));
    assert!(system.shutdown(SHUTDOWN).is_clean());
}

#[cfg(feature = "opentelemetry")]
#[test]
fn opentelemetry_observes_a_system() {
    use freeboard::meter::{
        families,
        opentelemetry::{observe, opentelemetry::global},
    };
    let system = System::builder().workers(1).build().expect("a system");
    let weak = system.downgrade();
    let source = move || Some(families(&weak.upgrade()?.snapshot()));
    assert_eq!(observe(&global::meter("freeboard"), source), Ok(()));
    assert!(system.shutdown(SHUTDOWN).is_clean());
}
