//! How do messages go from a tokio channel to an actor and back, with back-pressure in both directions?
//!
//! ```console
//! cargo run -p freeboard --example tokio_bridge
//! ```

use std::{error::Error, time::Duration};

use freeboard::prelude::*;
use tokio::sync::mpsc;

const NUMBERS: u64 = 10_000;

struct Squares {
    results: mpsc::Sender<u64>,
}

struct Number(u64);

impl Actor for Squares {}

impl AsyncHandler<Number> for Squares {
    type Reply = ();
    async fn handle(&mut self, number: Number, cx: &mut Context<Self>) {
        // While the channel is full, this handler waits; the mailbox fills; then the forwarding task waits.
        if self.results.send(number.0 * number.0).await.is_err() {
            cx.stop(); // the receiver was dropped
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let (numbers, mut inbound) = mpsc::channel(8);
    let (results, mut outbound) = mpsc::channel(8);
    let lane = LaneConfig::bounded(8).overload(Overload::Wait);
    let squares = system.spawn_once(SpawnOptions::new().lane(lane), Squares { results })?;

    // From the channel into the mailbox: `send` awaits capacity and does not block the executor.
    let forward = tokio::spawn(async move {
        while let Some(number) = inbound.recv().await {
            if squares.send(Number(number)).await.is_err() {
                break; // the actor has terminated: dropping `inbound` tells the producer
            }
        }
        squares.stop_gracefully(); // the channel is closed: handle what is queued, then drop `results`
    });
    let produce = tokio::spawn(async move {
        for number in 0..NUMBERS {
            numbers.send(number).await?;
        }
        Ok::<(), mpsc::error::SendError<u64>>(())
    });

    let mut received = 0;
    while let Some(square) = outbound.recv().await {
        assert_eq!(square, received * received, "in order");
        received += 1;
    }
    println!("{received} numbers went through two channels of 8 and a mailbox of 8");
    assert_eq!(received, NUMBERS, "nothing is lost");

    produce.await??;
    forward.await?;
    let report = tokio::task::spawn_blocking(move || system.shutdown(Duration::from_secs(5)));
    assert!(report.await?.is_clean());
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
