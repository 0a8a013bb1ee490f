//! How does a handler await I/O? Its actor handles no other message meanwhile; other actors use the thread.
//!
//! ```console
//! cargo run -p freeboard --example async_handler
//! ```

use std::{error::Error, io, net::SocketAddr, time::Duration};

use freeboard::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

struct Fetcher {
    server: SocketAddr,
    fetched: u64,
}

struct Fetch;
struct Fetched;

impl Actor for Fetcher {}

impl AsyncHandler<Fetch> for Fetcher {
    type Reply = io::Result<String>;
    async fn handle(&mut self, _msg: Fetch, _cx: &mut Context<Self>) -> io::Result<String> {
        let mut text = String::new();
        let mut stream = TcpStream::connect(self.server).await?;
        stream.read_to_string(&mut text).await?;
        self.fetched += 1; // `self` is borrowed across awaits: no other message is handled meanwhile
        Ok(text)
    }
}

impl Handler<Fetched> for Fetcher {
    type Reply = u64;
    fn handle(&mut self, _msg: Fetched, _cx: &mut Context<Self>) -> u64 {
        self.fetched
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"a page").await;
        }
    });

    // A system that is built inside a tokio runtime uses it. Elsewhere call `System::builder().tokio(handle)`.
    let system = System::builder().build()?;
    let fetcher = system.spawn(Fetcher { server, fetched: 0 });
    for _ in 0..10 {
        let text = fetcher.ask(Fetch).timeout(Duration::from_secs(5)).await??;
        assert_eq!(text, "a page");
    }
    let fetched = fetcher.ask(Fetched).await?;
    println!("fetched {fetched} pages");
    assert_eq!(fetched, 10);

    // `shutdown` blocks its thread, so do not call it on a thread of the runtime.
    let report = tokio::task::spawn_blocking(move || system.shutdown(Duration::from_secs(5)));
    assert!(report.await?.is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
