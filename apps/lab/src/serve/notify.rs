//! What a service tells systemd: sd_notify(3), without its library.

use std::{env, io, os::unix::net::UnixDatagram, sync::Arc, time::Duration};

use anyhow::Result;
use freeboard::{Actor, Context, Handler, System};

/// The socket of the service manager, if it waits for messages. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Notifier(Option<Arc<UnixDatagram>>);

impl Notifier {
    /// Connects to `$NOTIFY_SOCKET`.
    ///
    /// # Errors
    /// The socket is named and cannot be reached. Without a message the service manager would wait until its timeout.
    pub(super) fn connect() -> io::Result<Self> {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else {
            return Ok(Self(None));
        };
        let socket = UnixDatagram::unbound()?;
        match name.as_encoded_bytes().strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(name) => {
                use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
                socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?;
            }
            _ => socket.connect(name)?,
        }
        Ok(Self(Some(Arc::new(socket))))
    }

    /// Says, for example, `READY=1`.
    pub(super) fn say(&self, state: &str) {
        if let Some(socket) = &self.0 {
            // A service manager that has gone misses nothing.
            let _ = socket.send(state.as_bytes());
        }
    }

    /// Says every half of `$WATCHDOG_USEC` that the workers of this system handle messages.
    pub(super) fn watch(&self, system: &System) -> Result<()> {
        let time_us = env::var("WATCHDOG_USEC").ok();
        let time_us = time_us.and_then(|text| text.parse().ok());
        if let (Some(_), Some(time_us)) = (&self.0, time_us) {
            system.spawn_once(
                freeboard::SpawnOptions::new().name("watchdog"),
                Watchdog {
                    notifier: self.clone(),
                    interval: Duration::from_micros(time_us) / 2,
                },
            )?;
        }
        Ok(())
    }
}

struct Watchdog {
    notifier: Notifier,
    interval: Duration,
}

#[derive(Clone, Copy)]
struct Tick;

impl Actor for Watchdog {
    fn started(&mut self, cx: &mut Context<Self>) {
        // Without timers nothing works, and the service manager finds out.
        let _ = cx.every(self.interval, Tick);
    }
}

impl Handler<Tick> for Watchdog {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<Self>) {
        self.notifier.say("WATCHDOG=1");
    }
}
