//! A Redis cluster: several servers, each with an equal part of the slots and without a replica.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    port::Port,
    programs::redis,
    server::{Server, ServerError},
    wait::eventually,
};

const SLOTS: usize = 16_384;
/// Keys that move with one command.
const KEYS_MOVED: usize = 10;

/// A cluster. A killed node keeps its identity and its slots, but not its data.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    server: Server,
    id: String,
    /// Where the other nodes reach it.
    bus: Port,
}

impl RedisCluster {
    /// Starts empty nodes, and waits until they are a cluster. The nodes that are left serve their slots while others
    /// are down.
    ///
    /// # Errors
    /// [`ServerError`], for example because Redis is not installed.
    ///
    /// # Panics
    /// The nodes do not become a cluster.
    pub fn start(nodes: usize) -> Result<Self, ServerError> {
        let new_node = |index| {
            let io = |error| ServerError::Io {
                name: "Redis",
                error,
            };
            let bus = Port::reserve().map_err(io)?;
            let server = redis(&[
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus.number().to_string(),
                "--cluster-require-full-coverage",
                "no",
            ])?;
            let (first, end) = (first_slot(index, nodes), first_slot(index + 1, nodes));
            let address = server.address();
            let slots = format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1);
            command(address, &slots).map_err(io)?;
            let epoch = format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1);
            command(address, &epoch).map_err(io)?;
            let id = command(address, "CLUSTER MYID").map_err(io)?.remove(0);
            Ok(Node { server, id, bus })
        };
        let nodes: Result<Vec<_>, ServerError> = (0..nodes).map(new_node).collect();
        let cluster = Self { nodes: nodes? };
        for node in &cluster.nodes[1..] {
            let (port, bus) = (node.server.address().port(), node.bus.number());
            let meet = format!("CLUSTER MEET 127.0.0.1 {port} {bus}");
            cluster.at(0, &meet);
        }
        cluster.wait_up();
        Ok(cluster)
    }

    /// Waits until all nodes are up and agree that they are.
    ///
    /// # Panics
    /// A node does not answer.
    pub fn wait_up(&self) {
        let is_up = |index| {
            let info = self.at(index, "CLUSTER INFO").remove(0);
            let has_all = info.contains("cluster_state:ok") && info.contains("slots_ok:16384");
            // Without a link, a published message does not arrive.
            let nodes = self.at(index, "CLUSTER NODES").remove(0);
            has_all && nodes.lines().all(|node| node.contains(" connected"))
        };
        eventually("the nodes are a cluster", || {
            (0..self.nodes.len()).all(is_up)
        });
    }

    /// The addresses of its nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|it| it.server.address()).collect()
    }

    /// Its URL: `redis-cluster://127.0.0.1:PORT,127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses = self.addresses();
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    /// The node that a slot belongs to at first.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        let nodes = self.nodes.len();
        let owner = (0..nodes).rfind(|node| first_slot(*node, nodes) <= slot.into());
        owner.unwrap_or_default()
    }

    /// A node's server, to kill and to restart.
    ///
    /// # Panics
    /// There is no such node.
    pub fn node(&mut self, index: usize) -> &mut Server {
        &mut self.nodes[index].server
    }

    /// Moves a slot with its keys from one node to another. Calls `pause` between the steps.
    ///
    /// # Panics
    /// A node does not answer, or refuses.
    pub fn migrate(&self, slot: u16, [from, to]: [usize; 2], mut pause: impl FnMut()) {
        let set_slot = |on: usize, how: &str, node: usize| {
            let id = &self.nodes[node].id;
            self.at(on, &format!("CLUSTER SETSLOT {slot} {how} {id}"));
        };
        set_slot(to, "IMPORTING", from);
        set_slot(from, "MIGRATING", to);
        loop {
            pause();
            let keys = format!("CLUSTER GETKEYSINSLOT {slot} {KEYS_MOVED}");
            let keys = self.at(from, &keys);
            if keys.is_empty() {
                break;
            }
            let (port, keys) = (self.addresses()[to].port(), keys.join(" "));
            let migrate = format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {keys}");
            self.at(from, &migrate);
        }
        // The new owner first: it must not hand the slot back. The other nodes hear of it from these.
        set_slot(to, "NODE", to);
        set_slot(from, "NODE", to);
        pause();
    }

    /// Whether a client is subscribed to a channel at a node.
    ///
    /// # Panics
    /// The node does not answer.
    #[must_use]
    pub fn has_subscriber(&self, node: usize, channel: &str) -> bool {
        let channels = self.at(node, "PUBSUB CHANNELS");
        channels.iter().any(|it| it == channel)
    }

    #[track_caller]
    fn at(&self, node: usize, text: &str) -> Vec<String> {
        let answer = command(self.addresses()[node], text);
        answer.unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

fn first_slot(node: usize, nodes: usize) -> usize {
    SLOTS * node / nodes
}

/// Sends a command whose words are separated by spaces. Returns the strings of its reply.
fn command(to: SocketAddr, text: &str) -> io::Result<Vec<String>> {
    let mut stream = TcpStream::connect(to)?;
    stream.write_all(format!("{text}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut strings = Vec::new();
    let mut left = 1;
    while left > 0 {
        left -= 1;
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        match (kind, rest.parse::<usize>()) {
            ("$", Ok(bytes)) => {
                let mut string = vec![0; bytes + 2];
                reader.read_exact(&mut string)?;
                string.truncate(bytes);
                strings.push(String::from_utf8_lossy(&string).into_owned());
            }
            ("*", Ok(parts)) => left += parts,
            ("+", _) => strings.push(rest.to_owned()),
            _ => return Err(io::Error::other(line.to_owned())),
        }
    }
    Ok(strings)
}
