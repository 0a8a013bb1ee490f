//! A real server, started for a test and ended with it.

use freeboard_test_servers::{ServerError, redis};

pub(crate) struct Server {
    server: freeboard_test_servers::Server,
    pub(crate) port: u16,
}

impl Server {
    /// One on a free port of loopback, that keeps nothing on the disk. `None`, said on the error output,
    /// if there is no `redis-server` on this machine.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        match redis(arguments) {
            Ok(server) => {
                let port = server.address().port();
                Some(Self { server, port })
            }
            Err(error @ ServerError::Missing { .. }) => {
                eprintln!("left out: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again, empty.
    pub(crate) fn restart(&mut self) {
        self.server.restart().unwrap();
    }
}
