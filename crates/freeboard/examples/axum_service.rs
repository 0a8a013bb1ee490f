//! How does an axum service use an actor and shed load? A full lane gives status 503, a missed deadline 504.
//!
//! ```console
//! cargo run -p freeboard --example axum_service
//! ```

use std::{error::Error, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::State, http::Request, http::StatusCode, routing::post};
use freeboard::prelude::*;
use tokio::{sync::Barrier, task::JoinSet};
use tower::ServiceExt;

struct Orders(u64);
struct Place;
struct Busy(Arc<Barrier>); // simulates a slow back end: busy from the first wait to the second

impl Actor for Orders {}

impl Handler<Place> for Orders {
    type Reply = u64;
    fn handle(&mut self, _msg: Place, _cx: &mut Context<Self>) -> u64 {
        self.0 += 1;
        self.0
    }
}

impl AsyncHandler<Busy> for Orders {
    type Reply = ();
    async fn handle(&mut self, busy: Busy, _cx: &mut Context<Self>) {
        busy.0.wait().await;
        busy.0.wait().await;
    }
}

async fn place(State(orders): State<ActorRef<Orders>>) -> Result<String, StatusCode> {
    match orders.ask(Place).timeout(Duration::from_millis(100)).await {
        Ok(number) => Ok(format!("order {number}\n")),
        Err(AskError::Full(_)) => Err(StatusCode::SERVICE_UNAVAILABLE), // at once: nothing was queued
        Err(_) => Err(StatusCode::GATEWAY_TIMEOUT), // too late: it will not be placed afterwards
    }
}

/// A client's request; a real server is `axum::serve(listener, app).await`.
async fn request(app: Router) -> StatusCode {
    let request = Request::post("/orders").body(Body::empty());
    let Ok(response) = app.oneshot(request.expect("a request")).await;
    response.status()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().build()?;
    let options = SpawnOptions::new().lane(LaneConfig::bounded(4).overload(Overload::Reject));
    let orders = system.spawn_once(options, Orders(0))?;
    let app = Router::new().route("/orders", post(place));
    let app = app.with_state(orders.clone());

    let busy = Arc::new(Barrier::new(2));
    orders.tell(Busy(busy.clone()))?;
    busy.wait().await;
    let requests: JoinSet<_> = (0..6).map(|_| request(app.clone())).collect();
    let mut statuses = requests.join_all().await;
    statuses.sort();
    println!("six requests while the back end is stuck: {statuses:?}");
    assert_eq!(statuses, [503, 503, 504, 504, 504, 504]);
    busy.wait().await;
    let mut placed = orders.ask(Place).await;
    while let Err(AskError::Full(_)) = placed {
        placed = orders.ask(Place).await; // until the expired orders have left the lane
    }
    assert_eq!(placed?, 1, "none of the six was placed");
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
