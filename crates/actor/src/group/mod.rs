//! Groups: a fixed number of actors of one type behind one reference, and the router that chooses
//! among them.
//!
//! ```text
//!                  router
//!   route(key) ──▶ key, turn, load ──▶ index ──▶ member's own mailbox   routed
//!   any()                                │
//!                                        └ terminated: the next one     redirected ▶ taken_over
//!                                          lane full, all terminated:
//!                                          back to the sender           refused
//! ```
//!
//! A group is not an actor: routing runs on the sender's thread, without a mailbox, an extra hop, a lock or an
//! allocation per message. A routing actor (ractor's factory, Akka Typed's routers) would be one mailbox in front of
//! many. The set of members is fixed, and a member that panics is restarted in place if its supervision says so.
//! The mapping of keys to members does not change while all live, so plain hashing is enough; a changing set would
//! need consistent hashing.
//!
//! **Where the key comes from.** The sender gives it, before the message:
//! `group.route(&order.account).tell(order)`. A key in one call with the message (as in ractor's
//! `Job`) could not be borrowed from the message, which moves, and would need a copy per message; a trait on
//! messages (as Akka's `ConsistentHashable`) would bind each message type to one key, and exclude
//! foreign types. A group accepts messages with and without key under every router, so the router is a
//! setting: a router that is not by key ignores the key, and a router by key distributes messages without
//! key in turn, as a Kafka producer does.

mod ask;
pub(crate) mod gauges;
mod options;
mod route;
mod router;

use std::{fmt, sync::Arc};

use freeboard_meter::{GroupSnapshot, MemberSnapshot};

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    receives::Receives,
};
use gauges::{Gauged, MemberGauges, Turns};

pub use ask::{GroupAsk, GroupAskFuture};
pub use options::{GROUP_MEMBERS_MAX, GroupError, GroupOptions};
pub use route::Route;
pub use router::Router;

/// A group of actors of one type, made by [`crate::System::spawn_group`]. Cheap to clone, usable from
/// any thread and any async runtime, as an [`ActorRef`]; it does not keep its members alive.
///
/// When a member terminates, its queued messages become dead letters, as with every actor. Later messages go to the
/// next living member, which takes over all its keys for good. A draining member still handles its queue while the
/// next one handles new messages: the order per key holds only as long as its member lives. With
/// [`crate::Supervision::restart`] a panic does not terminate a member.
///
/// ```
/// use freeboard_actor::{Actor, Context, GroupOptions, Handler, Router, System};
///
/// struct Ledger(u64);
/// struct Order {
///     account: String,
///     amount: u64,
/// }
///
/// impl Actor for Ledger {}
///
/// impl Handler<Order> for Ledger {
///     type Reply = u64;
///     fn handle(&mut self, order: Order, _cx: &mut Context<Self>) -> u64 {
///         self.0 += order.amount;
///         self.0
///     }
/// }
///
/// let system = System::builder().workers(1).build()?;
/// let options = GroupOptions::new(4).router(Router::HashOfKey).name("ledger");
/// let ledgers = system.spawn_group(options, |_index| Ledger(0))?;
/// let order = |amount| Order { account: "NL42".to_owned(), amount };
/// let (first, second) = (order(1), order(2));
/// ledgers.route(&first.account).tell(first)?;
/// assert_eq!(ledgers.route(&second.account).ask(second).wait()?, 3);
/// // One account only: all of it with one of four members.
/// assert_eq!(ledgers.snapshot().skew, 4.0);
/// assert!(system.shutdown(std::time::Duration::from_secs(5)).is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Group<A: Actor> {
    inner: Arc<GroupInner<A>>,
}

struct GroupInner<A: Actor> {
    name: Option<String>,
    router: Router,
    /// Separate from their counters: every sender reads these, and they are never written.
    actors: Box<[ActorRef<A>]>,
    gauges: Box<[MemberGauges]>,
    turns: Turns,
}

impl<A: Actor> Clone for Group<A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<A: Actor> fmt::Debug for Group<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl<A: Actor> fmt::Debug for GroupInner<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or(std::any::type_name::<A>());
        let members = self.actors.len();
        write!(formatter, "Group({name}, {members} by {})", self.router)
    }
}

impl<A: Actor> Group<A> {
    /// `members` has at least one.
    fn new(name: Option<String>, router: Router, members: Vec<ActorRef<A>>) -> Self {
        let gauges = members.iter().map(|_| MemberGauges::default()).collect();
        let inner = Arc::new(GroupInner {
            name,
            router,
            actors: members.into(),
            gauges,
            turns: Turns::default(),
        });
        let system = &inner.actors[0].cell().core().system;
        let gauged: Arc<dyn Gauged> = inner.clone();
        system.groups.enter(Arc::downgrade(&gauged));
        Self { inner }
    }

    #[inline]
    fn choose(&self, key: Option<&[u8]>) -> Route<'_, A> {
        let group = &*self.inner;
        let turn = || group.turns.next();
        let load = |index: usize| group.load(index);
        let index = group.router.choose(group.actors.len(), key, turn, load);
        Route::new(group, index)
    }

    /// Chooses a member for a message with this key: any `AsRef<[u8]>`. For a number use its `to_be_bytes`.
    #[inline]
    pub fn route<Key: AsRef<[u8]> + ?Sized>(&self, key: &Key) -> Route<'_, A> {
        self.choose(Some(key.as_ref()))
    }

    /// Chooses a member for a message without key; under a router by key, the members in turn.
    #[inline]
    pub fn any(&self) -> Route<'_, A> {
        self.choose(None)
    }

    /// Tells each member a clone of the message, waiting at full lanes as [`ActorRef::tell`] does.
    /// Returns how many accepted it. The group's gauges do not count it: nothing was routed.
    pub fn broadcast<M: Message + Clone>(&self, msg: &M) -> usize
    where
        A: Receives<M>,
    {
        let accepted = |member: &&ActorRef<A>| member.tell(msg.clone()).is_ok();
        self.members().iter().filter(accepted).count()
    }

    /// All members, by index, including terminated ones. The group's counters ignore messages sent to them directly.
    pub fn members(&self) -> &[ActorRef<A>] {
        &self.inner.actors
    }

    /// The router it was spawned with.
    pub fn router(&self) -> Router {
        self.inner.router
    }

    /// [`ActorRef::stop`] for each member. A message sent meanwhile may still reach a member that is not stopped
    /// yet; later messages are refused.
    pub fn stop(&self) {
        self.members().iter().for_each(ActorRef::stop);
    }

    /// [`ActorRef::stop_gracefully`] for each member; see [`Group::stop`].
    pub fn stop_gracefully(&self) {
        self.members().iter().for_each(ActorRef::stop_gracefully);
    }

    /// The group's current counters. [`crate::System::snapshot`] contains them while a handle of the group exists.
    pub fn snapshot(&self) -> GroupSnapshot {
        self.inner.snapshot()
    }
}

impl<A: Actor> GroupInner<A> {
    /// The load that a router compares. A terminated member is empty, but must be avoided.
    #[inline]
    fn load(&self, index: usize) -> u64 {
        let mailbox = &self.actors[index].cell().core().mailbox;
        if mailbox.is_closed() {
            router::CLOSED
        } else {
            mailbox.depth()
        }
    }
}

impl<A: Actor> Gauged for GroupInner<A> {
    fn snapshot(&self) -> GroupSnapshot {
        let members: Vec<_> = std::iter::zip(&self.gauges, &self.actors)
            .map(|(gauges, actor)| MemberSnapshot {
                id: actor.id().get(),
                name: actor.name().map(str::to_owned),
                routed: gauges.routed.get(),
                redirected: gauges.redirected.get(),
                taken_over: gauges.taken_over.get(),
                refused: gauges.refused.get(),
                depth: actor.depth(),
                is_alive: actor.is_alive(),
            })
            .collect();
        GroupSnapshot {
            id: self.actors[0].id().get(),
            name: self.name.clone(),
            actor_type: std::any::type_name::<A>().to_owned(),
            router: self.router.to_string(),
            skew: freeboard_meter::skew(members.iter().map(|member| member.routed)),
            members,
        }
    }
}
