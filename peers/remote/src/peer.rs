//! The peers.

use anyhow::{Result, bail};
use clap::ValueEnum;
use tokio::runtime::{Builder, Runtime};

use crate::{
    async_nats_peer, freeboard_peer, kameo_peer, ractor_peer,
    receiver::Inbox,
    sender, tonic_peer,
    work::{Scale, Work},
};

/// The names are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    Freeboard,
    AsyncNats,
    Kameo,
    Ractor,
    Beam,
    Tonic,
}

/// A server between the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    Nats,
    /// The BEAM's directory of nodes: no message passes it.
    Epmd,
}

impl Peer {
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        // No peer is hidden.
        value.map_or_else(String::new, |it| it.get_name().to_owned())
    }

    pub fn broker(self) -> Option<Broker> {
        match self {
            Self::Freeboard | Self::AsyncNats => Some(Broker::Nats),
            Self::Beam => Some(Broker::Epmd),
            Self::Kameo | Self::Ractor | Self::Tonic => None,
        }
    }
}

/// A receiver that runs until it is dropped.
pub struct Running {
    /// Where the sender finds it.
    pub address: String,
    _guard: Box<dyn std::any::Any>,
}

impl Running {
    pub fn new(address: impl Into<String>, guard: impl std::any::Any) -> Self {
        Self {
            address: address.into(),
            _guard: Box::new(guard),
        }
    }
}

/// As many threads as the machine has cores.
pub fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// Starts what gives each message to the inbox.
pub fn receive(peer: Peer, server: &str, inbox: Inbox) -> Result<Running> {
    match peer {
        Peer::Freeboard => freeboard_peer::receive(server, inbox),
        Peer::AsyncNats => async_nats_peer::receive(server, inbox),
        Peer::Kameo => kameo_peer::receive(inbox),
        Peer::Ractor => ractor_peer::receive(inbox),
        Peer::Tonic => tonic_peer::receive(inbox),
        Peer::Beam => bail!("it is a program of its own"),
    }
}

/// Connects and measures.
pub fn send(peer: Peer, runtime: &Runtime, work: Work, scale: Scale, to: &str) -> Result<()> {
    let measured = async {
        match peer {
            Peer::Freeboard => sender::measure(freeboard_peer::connect(to)?, work, scale).await,
            Peer::AsyncNats => {
                let client = async_nats_peer::connect(to).await?;
                sender::measure(client, work, scale).await
            }
            Peer::Kameo => sender::measure(kameo_peer::connect(to).await?, work, scale).await,
            Peer::Ractor => sender::measure(ractor_peer::connect(to).await?, work, scale).await,
            Peer::Tonic => sender::measure(tonic_peer::connect(to).await?, work, scale).await,
            Peer::Beam => bail!("it is a program of its own"),
        }
    };
    runtime.block_on(measured)
}
