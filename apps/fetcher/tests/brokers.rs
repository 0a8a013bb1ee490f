//! Both brokers keep the same contract.

#![cfg(unix)]

mod contract;

use contract::CLAUSES;
use freeboard_fetcher::broker::{Broker, MemoryBroker, Queue, RabbitBroker, RabbitOptions};
use freeboard_test_servers::{ServerError, rabbitmq};

fn check(name: &str, clause: fn(&dyn Broker), broker: &dyn Broker) {
    contract::say(name);
    clause(broker);
    for queue in Queue::ALL {
        let ledger = broker.ledger(queue);
        assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
    }
}

#[test]
fn the_broker_in_memory_keeps_it() {
    for (name, clause) in CLAUSES {
        check(name, *clause, &MemoryBroker::default());
    }
}

#[test]
fn rabbitmq_keeps_it() {
    let server = match rabbitmq() {
        Err(error @ ServerError::Missing { .. }) => {
            contract::say(&format!("left out: {error}"));
            return;
        }
        server => server.expect("it comes up"),
    };
    for (number, (name, clause)) in CLAUSES.iter().enumerate() {
        let mut options = RabbitOptions::new(format!("amqp://guest:guest@{}", server.address()));
        options.name = format!("clause{number}");
        options.retry_delays.truncate(2);
        check(
            name,
            *clause,
            &RabbitBroker::connect(options).expect("a connection"),
        );
    }
}
