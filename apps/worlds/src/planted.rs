//! The planted mistakes: one line each in the code, active one at a time.

use freeboard::sim::{Failure, Simulation};
use freeboard_platform::planted as active;

use crate::named;

/// A mistake that is planted into the code.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its name in the code: `planted!("name")`.
    pub name: &'static str,
    /// What goes wrong.
    pub about: &'static str,
    /// The world that finds it.
    pub world: &'static str,
}

const fn planted(name: &'static str, world: &'static str, about: &'static str) -> Planted {
    Planted { name, about, world }
}

/// All of them.
#[rustfmt::skip]
pub const PLANTED: &[Planted] = &[
    planted("wake-up-dropped", "mailboxes", "of 64 messages one does not schedule its idle actor"),
    planted("bound-off-by-one", "mailboxes", "a lane accepts one message more than its bound"),
    planted("shed-not-counted", "mailboxes", "a message that a policy sheds is not counted"),
    planted("waiter-not-woken", "mailboxes", "an actor that waits for capacity is not woken"),
    planted("cancelled-timer-fires", "mailboxes", "a timer is not cancelled, but is said to be"),
    planted("credit-given-twice", "mailboxes", "a handled message gives a dam two credits back"),
    planted("outbox-out-of-order", "mailboxes", "a waiting message goes behind the later ones of its sender"),
    planted("circle-not-found", "services", "an ask that closes a circle of asks waits"),
    planted("deadline-ignored", "services", "an ask is handled behind its deadline"),
    planted("key-changes-member", "services", "of 16 messages one goes to another member than its key's"),
    planted("subscriber-missed", "services", "a message is counted as delivered to a subscriber, but is not"),
    planted("activation-too-early", "services", "an activation begins before the one before it was saved"),
    planted("acknowledged-before-sync", "streams", "in mode interval a ticket is resolved when its record is written, before the sync"),
    planted("sync-tried-again", "streams", "a sync that failed is tried again, and the second one succeeds"),
    planted("last-record-cut-off", "streams", "recovery cuts off a last chunk when the one before was not known to be durable"),
    planted("batch-in-parts", "streams", "the records of a batch are appended one by one"),
    planted("position-too-far", "streams", "a consumer's position is one record further than it acknowledged"),
    planted("replied-before-durable", "kvs", "the store replies before the record of a change is durable"),
    planted("deletion-forgotten", "kvs", "the records after a snapshot are applied without the deletions"),
    planted("rest-of-write-dropped", "connections", "what a full socket does not take is dropped"),
    planted("read-credit-ignored", "connections", "a connection reads without credit"),
    planted("end-told-twice", "connections", "a broken connection has two last events"),
    planted("accepting-not-resumed", "connections", "a full listener does not go on when a connection closes"),
    planted("announced-end-forgotten", "connections", "a short read behind an announced end waits for another event"),
    planted("datagram-credit-kept", "connections", "a datagram socket uses up no credit"),
    planted("sent-kept-on-loss", "redis", "sent commands wait for replies of the next connection"),
    planted("unsent-bytes-sent-later", "redis", "the bytes of a command that was not sent are sent by the next connection"),
    planted("lost-command-sent-again", "redis", "a command whose connection was lost is sent again"),
    planted("timed-out-slot-removed", "redis", "a timeout leaves no slot for the late reply"),
    planted("credit-lost-with-connection", "redis", "a lost connection does not return the credit of its commands"),
    planted("subscription-not-renewed", "redis", "a new connection does not subscribe again"),
    planted("two-leases", "cache", "a lease is granted while another holds"),
    planted("lease-too-long", "cache", "a lease holds a thousand times its time"),
    planted("lease-not-voided", "cache", "an invalidation does not void the lease of a fetch"),
    planted("fetch-wakes-nobody", "cache", "callers that wait for a fetch are not told of its end"),
    planted("permit-kept", "cache", "a fetch without Redis does not give its permit back"),
    planted("old-value-for-late-callers", "cache", "a value that was not stored serves callers that came during its fetch"),
    planted("local-value-not-removed", "cache", "the local layer keeps a value that its process has invalidated"),
    planted("unacknowledged-is-lost", "fetcher", "a notification that a dead consumer has not acknowledged is not delivered again"),
    planted("answered-before-durable", "logd", "a request is answered when its lines are appended, before they are durable"),
    planted("remote-credit-granted-twice", "cluster", "a port grants twice as much credit as it has"),
    planted("remote-keeper-confused", "cluster", "a node that has found a keeper dead replaces the entry of the next keeper, who lives"),
    planted("remote-lease-kept-too-long", "cluster", "a node keeps its keys when its lease is over"),
    planted("remote-takeover-without-fence", "cluster", "a node takes keys over although their keeper's lease holds"),
];

/// Searches the seeds from 0 below `seeds` for one that finds the mistake. Returns the failure.
///
/// # Panics
/// If no world has the name in [`Planted::world`].
#[must_use]
pub fn find(mistake: &Planted, seeds: u64) -> Option<Box<Failure>> {
    let world = named(mistake.world).expect("a world with this name");
    active::set(mistake.name);
    let found = (0..seeds).find_map(|seed| Simulation::seed(seed).try_run(world.test).err());
    active::set("");
    found
}
