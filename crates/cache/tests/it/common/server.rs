//! A server, started for a test and stopped with it: a real one or the embedded one.

use freeboard_actor::System;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis_embedded::{EmbeddedOptions, Password, RedisEmbedded};
use freeboard_test_servers::{if_installed, redis};

pub(crate) struct Server {
    kind: Kind,
    pub(crate) port: u16,
}

enum Kind {
    Real(freeboard_test_servers::Server),
    /// In its own system, like another process.
    #[allow(dead_code, reason = "held so that the server runs")]
    Embedded(RedisEmbedded, System),
}

impl Server {
    /// A real server on a free port of localhost, without persistence. `None`, with a note on standard error, if
    /// `redis-server` is not installed.
    pub(crate) fn real() -> Option<Self> {
        let server = if_installed(redis(&[]))?;
        Some(Self {
            port: server.address().port(),
            kind: Kind::Real(server),
        })
    }

    pub(crate) fn embedded() -> Self {
        let poller = Poller::new(1, Policy::default()).unwrap();
        let system = System::builder().workers(1).driver(poller.driver());
        let system = system.build().unwrap();
        let options = EmbeddedOptions {
            password: Password::None,
            ..EmbeddedOptions::default()
        };
        let server = RedisEmbedded::start(&system, &poller, options).unwrap();
        Self {
            port: server.address().port(),
            kind: Kind::Embedded(server, system),
        }
    }

    /// Whether it has other types than strings.
    pub(crate) fn has_lists(&self) -> bool {
        matches!(self.kind, Kind::Real(_))
    }

    fn process(&mut self) -> &mut freeboard_test_servers::Server {
        match &mut self.kind {
            Kind::Real(server) => server,
            Kind::Embedded(..) => panic!("only a real server can be killed"),
        }
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.process().kill();
    }

    /// Starts it again, empty.
    pub(crate) fn restart(&mut self) {
        self.process().restart().unwrap();
    }
}
