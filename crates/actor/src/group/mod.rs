//! Groups: actors of one type behind one reference, and the router that chooses among them.
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
//! many. A member that panics is restarted in place if its supervision says so. [`Group::resize`] changes the number
//! of members: `members` has the snapshot that senders read, `resize` the protocol, and `router` which keys move.
//!
//! **Where the key comes from.** The sender gives it, before the message:
//! `group.route(&order.account).tell(order)`. A key in one call with the message (as in ractor's
//! `Job`) could not be borrowed from the message, which moves, and would need a copy per message; a trait on
//! messages (as Akka's `ConsistentHashable`) would bind each message type to one key, and exclude
//! foreign types. A group accepts messages with and without key under every router, so the router is a
//! setting: a router that is not by key ignores the key, and a router by key distributes messages without
//! key in turn, as a Kafka producer does.

mod any_capacity;
mod ask;
mod ask_all;
pub(crate) mod gauges;
mod limiter;
mod members;
mod options;
mod resize;
mod route;
mod router;

use std::{fmt, sync::Arc};

use freeboard_meter::{GroupSnapshot, MemberSnapshot};

#[cfg(feature = "tower")]
use crate::ask::AskFuture;
use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    catch_panic,
    receives::Receives,
};
use any_capacity::AnyCapacity;
use gauges::{Gauged, Turns};
use limiter::Limiter;
use members::Membership;
use resize::Spawner;

pub use any_capacity::SendAny;
#[cfg(feature = "tower")]
pub(crate) use ask::LimitedAsk;
pub use ask::{GroupAsk, GroupAskFuture};
pub use ask_all::{AskAll, AskAllFuture, Replies};
pub use members::Members;
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
    membership: Membership<A>,
    turns: Turns,
    any_capacity: AnyCapacity,
    spawner: Spawner<A>,
    limiter: Option<Arc<Limiter>>,
}

/// The result of [`Group::broadcast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcast {
    /// Members that accepted the message.
    pub accepted: usize,
    /// Members that refused it: terminated, or full by their policy.
    pub refused: usize,
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
        let members = self.members().len();
        write!(formatter, "Group({name}, {members} by {})", self.router)
    }
}

impl<A: Actor> Group<A> {
    /// `members` has at least one.
    fn new(
        name: Option<String>,
        router: Router,
        members: Vec<ActorRef<A>>,
        spawner: Spawner<A>,
        limiter: Option<Limiter>,
    ) -> Self {
        let system = members[0].cell().core().system.clone();
        let inner = Arc::new(GroupInner {
            name,
            router,
            membership: Membership::new(members),
            turns: Turns::default(),
            any_capacity: AnyCapacity::default(),
            spawner,
            limiter: limiter.map(Arc::new),
        });
        let gauged: Arc<dyn Gauged> = inner.clone();
        system.groups.enter(Arc::downgrade(&gauged));
        Self { inner }
    }

    #[inline]
    fn choose(&self, key: Option<&[u8]>) -> Route<'_, A> {
        let group = &*self.inner;
        let choice = match group.membership.unresized() {
            Some(first) => group.choose_of(&first.actors, key),
            None => group.choose_resized(key),
        };
        Route::new(group, choice)
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

    /// Sends an ask of its member, if the group's limit lets a message of this lane through.
    #[cfg(feature = "tower")]
    pub(crate) fn limit_ask<M: Message>(
        &self,
        lane: usize,
        msg: M,
        ask: impl FnOnce(M) -> AskFuture<A, M, A::Reply>,
    ) -> LimitedAsk<A, M>
    where
        A: Receives<M>,
    {
        match self.inner.admit(lane) {
            Ok(admitted) => LimitedAsk::new(ask(msg), admitted),
            Err(_) => LimitedAsk::refused(msg),
        }
    }

    /// Counts a message that was sent to this member directly.
    #[cfg(feature = "tower")]
    pub(crate) fn count_routed(&self, member: &ActorRef<A>) {
        let members = self.members();
        if let Some(index) = members.iter().position(|it| it == member) {
            members.gauges()[index].routed.add(1);
        }
    }

    /// Tells each member a clone of the message, waiting at full lanes as [`ActorRef::tell`] does. The group's
    /// counters ignore it: nothing was routed.
    pub fn broadcast<M: Message + Clone>(&self, msg: &M) -> Broadcast
    where
        A: Receives<M>,
    {
        let members = self.members();
        let accepted = |member: &&ActorRef<A>| {
            let told = member.tell(msg.clone());
            let is_accepted = told.is_ok();
            // A panic of the drop of a refused message concerns no other member.
            catch_panic::drop(told);
            is_accepted
        };
        let accepted = members.iter().filter(accepted).count();
        Broadcast {
            accepted,
            refused: members.len() - accepted,
        }
    }

    /// All members, by index, including terminated ones. The group's counters ignore messages sent to them directly.
    pub fn members(&self) -> Members<'_, A> {
        self.inner.members()
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

/// The load that a router compares. A terminated member is empty, but must be avoided.
#[inline]
fn load<A: Actor>(member: &ActorRef<A>) -> u64 {
    let mailbox = &member.cell().core().mailbox;
    if mailbox.is_closed() {
        router::CLOSED
    } else {
        mailbox.depth()
    }
}

impl<A: Actor> GroupInner<A> {
    #[cold]
    #[inline(never)]
    fn choose_resized(&self, key: Option<&[u8]>) -> router::Choice {
        self.choose_of(&self.members(), key)
    }

    #[inline(always)]
    fn choose_of(&self, members: &[ActorRef<A>], key: Option<&[u8]>) -> router::Choice {
        let turn = || self.turns.next();
        let load = |index: usize| load(&members[index]);
        let sizes = self.membership.sizes(members.len());
        self.router.choose(sizes, key, turn, load)
    }

    #[inline]
    fn members(&self) -> Members<'_, A> {
        self.membership.read()
    }
}

impl<A: Actor> Gauged for GroupInner<A> {
    fn snapshot(&self) -> GroupSnapshot {
        let current = self.members();
        let of_index = |(index, gauges): (usize, &Arc<gauges::MemberGauges>)| {
            // Indices beyond the members are those that a resize has removed: their counters remain.
            let actor = current.get(index);
            MemberSnapshot {
                id: actor.map_or(0, |it| it.id().get()),
                name: actor.and_then(ActorRef::name).map(str::to_owned),
                routed: gauges.routed.get(),
                redirected: gauges.redirected.get(),
                taken_over: gauges.taken_over.get(),
                refused: gauges.refused.get(),
                depth: actor.map_or(0, ActorRef::depth),
                is_alive: actor.is_some_and(ActorRef::is_alive),
            }
        };
        let members: Vec<_> = current.gauges().iter().enumerate().map(of_index).collect();
        let routed = members.iter().take(current.len()).map(|it| it.routed);
        let limiter = self.limiter.as_deref();
        GroupSnapshot {
            limit: limiter.map(Limiter::limit),
            in_flight: limiter.map(Limiter::in_flight),
            limited: limiter.map(Limiter::refused),
            id: self.membership.id(),
            name: self.name.clone(),
            actor_type: std::any::type_name::<A>().to_owned(),
            router: self.router.to_string(),
            skew: freeboard_meter::skew(routed),
            members,
        }
    }
}
