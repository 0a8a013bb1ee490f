//! One client and its backend, as one actor.
//!
//! ```text
//!   client ──▶ read ──▶ Outgoing ──▶ write ──▶ backend     nothing is read while
//!   client ◀── write ◀── Outgoing ◀── read ◀── backend     window_bytes wait to be written
//! ```

use std::{io, sync::Arc};

use bytes::BufMut;
use freeboard_actor::{Actor, Context};
use freeboard_io::mio::net::TcpStream;
use freeboard_meter::Counter;

use super::server::Common;
use crate::{
    deadline::Deadline,
    tcp::{Arrived, Outgoing, Place, Socket},
};

/// Pieces carried in one run, so that others have their turn.
const STEPS_MAX: u32 = 64;

/// What is on its way in one direction.
#[derive(Debug, Default)]
struct Way {
    outgoing: Outgoing,
    /// Whether the end was passed on.
    has_ended: bool,
}

/// One client and its backend.
#[derive(Debug)]
pub(super) struct Link {
    client_stream: Option<TcpStream>,
    client: Option<Socket>,
    backend: Option<Socket>,
    is_connected: bool,
    to_backend: Way,
    to_client: Way,
    common: Arc<Common>,
    deadline: Deadline,
    place: Place,
}

impl Way {
    /// Carries what there is. Whether anything moved.
    fn carry(
        &mut self,
        from: &mut Socket,
        to: &mut Socket,
        window_bytes: usize,
        carried: &Counter,
    ) -> io::Result<bool> {
        let room = window_bytes.saturating_sub(self.outgoing.len());
        let outgoing = &mut self.outgoing;
        let arrived = from.read(room, |bytes| outgoing.append(|tail| tail.put_slice(bytes)))?;
        if let Arrived::Bytes(count) = arrived {
            carried.add(count as u64);
        }
        let is_written = to.write(&mut self.outgoing)?;
        if is_written && from.is_ended() && !self.has_ended {
            self.has_ended = true;
            to.end()?;
            return Ok(true);
        }
        Ok(matches!(arrived, Arrived::Bytes(_)))
    }
}

impl Link {
    pub(super) fn new(client: TcpStream, place: Place, common: Arc<Common>) -> Self {
        Self {
            client_stream: Some(client),
            client: None,
            backend: None,
            is_connected: false,
            to_backend: Way::default(),
            to_client: Way::default(),
            common,
            deadline: Deadline::default(),
            place,
        }
    }

    fn open(&mut self, cx: &Context<Self>) -> io::Result<()> {
        let client = self
            .client_stream
            .take()
            .ok_or(io::ErrorKind::NotConnected)?;
        let poller = &self.common.poller;
        let socket = |stream: TcpStream| {
            let call = cx.notifier(|link: &mut Self, cx| link.ready(cx));
            Socket::new(stream, poller, call)
        };
        let _ = client.set_nodelay(true);
        self.client = Some(socket(client)?);
        let backend = TcpStream::connect(self.common.backend).inspect_err(|_| {
            self.common.gauges.backend_failures.add(1);
        })?;
        let _ = backend.set_nodelay(true);
        self.backend = Some(socket(backend)?);
        Ok(())
    }

    fn ready(&mut self, cx: &mut Context<Self>) {
        for socket in [&mut self.client, &mut self.backend].into_iter().flatten() {
            socket.refresh();
        }
        self.run(cx);
    }

    fn run(&mut self, cx: &mut Context<Self>) {
        match self.steps(cx) {
            Ok(true) => self.over(cx),
            Ok(false) => {
                let time = self.common.options.idle_time;
                self.deadline.set(time, cx, Self::expired);
            }
            Err(_) => {
                let gauges = &self.common.gauges;
                if self.is_connected {
                    gauges.broken.add(1);
                } else {
                    gauges.backend_failures.add(1);
                }
                self.over(cx);
            }
        }
    }

    /// Carries as far as it can without waiting. Whether both ends have ended.
    fn steps(&mut self, cx: &Context<Self>) -> io::Result<bool> {
        let (Some(client), Some(backend)) = (&mut self.client, &mut self.backend) else {
            return Ok(true);
        };
        if !self.is_connected {
            self.is_connected = backend.is_connected()?;
            if !self.is_connected {
                return Ok(false);
            }
        }
        let window = self.common.options.window_bytes;
        let gauges = &self.common.gauges;
        for _ in 0..STEPS_MAX {
            let to_backend = &gauges.to_backend_bytes;
            let there = self.to_backend.carry(client, backend, window, to_backend)?;
            let to_client = &gauges.to_client_bytes;
            let back = self.to_client.carry(backend, client, window, to_client)?;
            if !there && !back {
                return Ok(self.to_backend.has_ended && self.to_client.has_ended);
            }
        }
        cx.notifier(|link: &mut Self, cx| link.run(cx))();
        Ok(false)
    }

    fn over(&mut self, cx: &mut Context<Self>) {
        (self.client, self.backend) = (None, None);
        cx.stop();
    }

    fn expired(&mut self, cx: &mut Context<Self>) {
        if self.deadline.has_passed(cx, Self::expired) {
            self.common.gauges.idle_timeouts.add(1);
            self.over(cx);
        }
    }
}

impl Actor for Link {
    fn started(&mut self, cx: &mut Context<Self>) {
        if self.open(cx).is_err() {
            return self.over(cx);
        }
        // What is carried is not the proxy's to end: a drain cuts it off.
        self.place
            .on_drain(cx.notifier(|link: &mut Self, cx| link.over(cx)));
        self.run(cx);
    }
}
