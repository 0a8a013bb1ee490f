//! The server between the two processes, on loopback.

use std::{
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use freeboard_test_servers::{Guarded, Port};

use crate::peer::Broker;

const START_TIME_MAX: Duration = Duration::from_secs(10);

/// A running server. Dropping it kills it.
pub struct BrokerProcess {
    broker: Broker,
    port: Port,
    process: Guarded,
}

impl BrokerProcess {
    pub fn start(broker: Broker) -> Result<Self> {
        let port = Port::reserve()?;
        let mut command = Command::new(match broker {
            Broker::Nats => "nats-server",
            Broker::Epmd => "epmd",
        });
        let address_option = match broker {
            Broker::Nats => "--addr",
            Broker::Epmd => "-address",
        };
        let port_option = match broker {
            Broker::Nats => "--port",
            Broker::Epmd => "-port",
        };
        command
            .args([address_option, "127.0.0.1", port_option])
            .arg(port.number().to_string());
        let process = Guarded::spawn(&command, Stdio::null(), Stdio::null());
        let process = process.with_context(|| format!("{broker:?} cannot be started"))?;
        let begun = Instant::now();
        while TcpStream::connect(port.address()).is_err() {
            ensure!(
                begun.elapsed() < START_TIME_MAX,
                "{broker:?} does not start"
            );
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Self {
            broker,
            port,
            process,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The process, if messages pass it.
    pub fn message_server(&self) -> Option<u32> {
        (self.broker == Broker::Nats).then(|| self.process.id())
    }
}
