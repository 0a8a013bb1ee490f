//! How does a service that is asked for too much answer the requests that it handles in time? A lane sheds old ones.
//!
//! ```console
//! cargo run -p freeboard --example shed_by_age
//! ```

use std::{error::Error, time::Duration};

use freeboard::prelude::*;

/// Takes a millisecond for a request.
struct Service;
#[derive(Debug, PartialEq)]
struct Request;

impl Actor for Service {}

impl Handler<Request> for Service {
    type Reply = ();
    fn handle(&mut self, _request: Request, cx: &mut Context<Self>) {
        cx.blocking(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().workers(1).build()?;
    // If every message of 200 ms has waited longer than 50 ms, the queue stands. From then on a message that has waited
    // longer than 2 x 50 ms is shed when it reaches the service.
    let lane = LaneConfig::bounded(10_000).overload(Overload::CoDel {
        target: Duration::from_millis(50),
        interval: Duration::from_millis(200),
    });
    let service = system.spawn_with(SpawnOptions::new().lane(lane), || Service)?;

    // Half a second of work at once. Whoever asks for a shed request learns it at once.
    let requests: Vec<_> = (0..500).map(|_| service.tell(Request)).collect();
    assert!(requests.iter().all(Result::is_ok));
    assert_eq!(service.ask(Request).wait(), Err(AskError::Shed));

    // The queue is empty: requests are answered again.
    assert_eq!(service.ask(Request).wait(), Ok(()));

    assert!(system.shutdown(Duration::from_secs(5)).is_clean());
    let lane = &service.snapshot().lanes[0];
    let shed: u64 = lane.shed.iter().map(|it| it.count).sum();
    println!("{} handled, {shed} shed: {:?}", lane.handled, lane.shed);
    assert_eq!(lane.handled + shed, 502);
    Ok(())
}

#[test]
fn runs() {
    main().expect("no error");
}
