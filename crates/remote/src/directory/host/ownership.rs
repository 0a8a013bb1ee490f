//! The ownership of partitions: claims, the loss of the lease, releases, moves to other nodes, and the drain.

use std::{collections::VecDeque, mem, sync::Arc};

use freeboard_actor::{Actor, Context};
use freeboard_platform::planted;

use super::{Control, Host, Ownership, PartStore, Partition};
use crate::{
    directory::{RemoteKey, choose, routed::Owned},
    engine::{Done, EngineError, Entry, Expected},
    lease::{LeaseId, LeasePlan, LeaseValue, to_bytes},
};

/// Partitions that are released at the same time to move.
const MOVES_MAX: usize = 8;

impl<K: RemoteKey, A: Actor> Host<K, A> {
    /// Takes the next step of a claim. It routes nothing itself: `route` calls it.
    pub(super) fn claim(&mut self, index: u32, cx: &mut Context<Self>) {
        if self.sends_only {
            return;
        }
        let Some(own) = self.own_lease() else {
            return;
        };
        let key = self.key(index);
        let partition = &mut self.partitions[index as usize];
        if partition.is_under_way {
            return;
        }
        partition.is_under_way = true;
        partition.attempt += 1;
        let attempt = partition.attempt;
        let expected = match &partition.entry {
            None => {
                partition.dead = None;
                Expected::Absent
            }
            // A put without an answer, or one that was deleted since: only a read tells.
            Some((_, lease)) if *lease == own => {
                self.read(index, cx);
                return;
            }
            // An earlier lease of this start of the node.
            Some((revision, lease)) if lease.node == self.node.id => {
                partition.dead = None;
                Expected::Revision(*revision)
            }
            Some((revision, lease)) => {
                // First it must be certain that the keeper's lease is over.
                partition.dead = Some((*revision, lease.clone()));
                let by = self.node.id.clone();
                let done: Done<u64> = Self::done(cx, move |it| Control::Fenced(index, attempt, it));
                let value = to_bytes(&LeaseValue::Dead { by });
                let key = LeasePlan::key_of(&lease.node.name);
                let engine = &self.node.engine;
                engine.put(&self.plan.leases, &key, value, Expected::Absent, done);
                return;
            }
        };
        self.put(index, &key, &own, expected, cx);
    }

    fn put(
        &mut self,
        index: u32,
        key: &str,
        own: &LeaseId,
        expected: Expected,
        cx: &Context<Self>,
    ) {
        let partition = &mut self.partitions[index as usize];
        partition.is_under_way = true;
        partition.claimed = Some(own.clone());
        let attempt = partition.attempt;
        let done: Done<u64> = Self::done(cx, move |it| Control::Put(index, attempt, it));
        let value = to_bytes(own);
        self.node
            .engine
            .put(&self.plan.names, key, value, expected, done);
    }

    pub(super) fn read(&mut self, index: u32, cx: &Context<Self>) {
        let partition = &mut self.partitions[index as usize];
        partition.is_under_way = true;
        let attempt = partition.attempt;
        let done: Done<Option<Entry>> = Self::done(cx, move |it| Control::Got(index, attempt, it));
        let key = self.key(index);
        self.node.engine.get(&self.plan.names, &key, done);
    }

    pub(super) fn is_claiming(&self, index: u32, attempt: u64) -> bool {
        let partition = &self.partitions[index as usize];
        matches!(partition.ownership, Ownership::Claiming(_)) && partition.attempt == attempt
    }

    /// The keeper's lease is over: its entry may be replaced.
    pub(super) fn take_over(&mut self, index: u32, cx: &mut Context<Self>) {
        let key = self.key(index);
        let partition = &self.partitions[index as usize];
        let mut dead = partition.dead.as_ref();
        if planted!("remote-keeper-confused") {
            dead = partition.entry.as_ref();
        }
        if let (Some(own), Some((revision, _))) = (self.own_lease(), dead) {
            let expected = Expected::Revision(*revision);
            self.put(index, &key, &own, expected, cx);
        }
    }

    /// Reads the key of this node's lease, which the entry names. If the server has lost its data, the key is gone. The entry
    /// is in a new bucket then, and says nothing of the keepers in the old one.
    pub(super) fn check(
        &mut self,
        index: u32,
        revision: u64,
        own: LeaseId,
        cx: &mut Context<Self>,
    ) {
        let partition = &mut self.partitions[index as usize];
        partition.entry = Some((revision, own.clone()));
        partition.is_under_way = true;
        let attempt = partition.attempt;
        let key = LeasePlan::key_of(&own.node.name);
        let done: Done<Option<Entry>> = Self::done(cx, move |it| {
            Control::Checked(index, attempt, (revision, own), it)
        });
        self.node.engine.get(&self.plan.leases, &key, done);
    }

    /// This node keeps the partition, if its lease is still the one of the claim.
    pub(super) fn kept(&mut self, index: u32, revision: u64, own: LeaseId, cx: &mut Context<Self>) {
        let fence = Owned::<K, A>::fence_of(index, &self.lease, own.number, revision);
        let partition = &mut self.partitions[index as usize];
        partition.entry = Some((revision, own));
        let is_takeover = partition.dead.take().is_some();
        let Ownership::Claiming(waiting) = mem::replace(&mut partition.ownership, Ownership::Free)
        else {
            return;
        };
        if fence.is_valid() {
            let store = PartStore {
                store: self.load.clone(),
                fence: fence.clone(),
            };
            let directory = cx.system().directory(self.member.clone(), store);
            let directory = directory.expect("the options were checked");
            let owned = Arc::new(Owned { directory, fence });
            self.shared.keep(index, owned.clone());
            self.shared.claims.add(1);
            self.shared.takeovers.add(u64::from(is_takeover));
            self.partitions[index as usize].ownership = Ownership::Kept(owned);
        }
        self.route_again(waiting, cx);
    }

    /// A claim did not succeed: the messages are routed by what is known now.
    pub(super) fn give_up_claim(&mut self, index: u32, cx: &mut Context<Self>) {
        let partition = &mut self.partitions[index as usize];
        if let Ownership::Claiming(waiting) =
            mem::replace(&mut partition.ownership, Ownership::Free)
        {
            self.route_again(waiting, cx);
        }
    }

    pub(super) fn read_or_claim(&mut self, index: u32, cx: &mut Context<Self>) {
        let entry = self.partitions[index as usize].entry.as_ref();
        let keeper = entry.map(|(_, lease)| lease.node.clone());
        match keeper {
            Some(node) if node != self.node.id && self.node.table.is_up(&node) => {
                self.give_up_claim(index, cx);
            }
            // Another node may have come.
            _ if self.sends_only && !self.live_hosts().is_empty() => {
                self.give_up_claim(index, cx);
            }
            _ => self.claim(index, cx),
        }
    }

    /// The lease is over: all that was kept stops now.
    pub(super) fn lost(&mut self, cx: &mut Context<Self>) {
        self.shared.set_trouble(Some(self.lease.why.lock().clone()));
        // The buckets may be new.
        self.is_announced = false;
        for index in 0..self.shared.partitions {
            let partition = &mut self.partitions[index as usize];
            let (owned, waiting) = match mem::replace(&mut partition.ownership, Ownership::Free) {
                Ownership::Kept(owned) => (Some(owned), None),
                Ownership::Releasing(owned, waiting) => (Some(owned), Some(waiting)),
                Ownership::Claiming(waiting) => (None, Some(waiting)),
                Ownership::Free => (None, None),
            };
            partition.attempt += 1;
            if let Some(owned) = owned {
                owned.directory.abandon();
                drop(self.shared.remove(index));
                self.shared.losses.add(1);
            }
            if let Some(waiting) = waiting {
                self.partitions[index as usize].ownership = Ownership::Claiming(waiting);
            }
        }
        self.later(cx);
    }

    /// Gives a partition up in order: first its activations are saved.
    fn release(&mut self, index: u32) {
        let partition = &mut self.partitions[index as usize];
        match mem::replace(&mut partition.ownership, Ownership::Free) {
            Ownership::Kept(owned) => {
                drop(self.shared.remove(index));
                // A sender that has just found the partition sends its message to this host instead.
                owned.directory.close();
                partition.ownership = Ownership::Releasing(owned, VecDeque::new());
            }
            other => partition.ownership = other,
        }
    }

    pub(super) fn release_further(&mut self, cx: &mut Context<Self>) {
        for index in 0..self.shared.partitions {
            let key = self.key(index);
            let partition = &mut self.partitions[index as usize];
            let Ownership::Releasing(owned, _) = &partition.ownership else {
                continue;
            };
            if owned.directory.activations() > 0 {
                // Those whose outbox had messages, or whose save has failed.
                owned.directory.close();
                continue;
            }
            if !partition.is_under_way {
                // Not the revision of `partition.entry`: that may be the next keeper's already, if an earlier deletion was made
                // and its answer is lost.
                let revision = owned.fence.epoch.revision;
                partition.is_under_way = true;
                partition.attempt += 1;
                let attempt = partition.attempt;
                let done: Done<()> = Self::done(cx, move |it| Control::Deleted(index, attempt, it));
                let names = &self.plan.names;
                self.node.engine.delete(names, &key, revision, done);
            }
        }
    }

    pub(super) fn deleted(
        &mut self,
        index: u32,
        attempt: u64,
        outcome: &Result<(), EngineError>,
        cx: &mut Context<Self>,
    ) {
        let partition = &mut self.partitions[index as usize];
        let Ownership::Releasing(owned, _) = &partition.ownership else {
            return;
        };
        if partition.attempt != attempt {
            return;
        }
        // After a conflict somebody else has it, or nobody: an earlier deletion without an answer was made.
        if outcome.is_ok() || *outcome == Err(EngineError::Conflict) {
            let own = owned.fence.epoch.revision;
            partition.entry.take_if(|(revision, _)| *revision == own);
            self.shared.releases.add(1);
            if let Ownership::Releasing(_, waiting) =
                mem::replace(&mut partition.ownership, Ownership::Free)
            {
                self.route_again(waiting, cx);
            }
        }
        self.later(cx);
    }

    /// Moves partitions to the nodes that should keep them, a few at a time.
    pub(super) fn balance(&mut self) {
        let is_releasing = |it: &Partition<K, A>| matches!(it.ownership, Ownership::Releasing(..));
        let mut moving = self.partitions.iter().filter(|it| is_releasing(it)).count();
        let live: Vec<String> = self.live_hosts().into_iter().map(str::to_owned).collect();
        for index in 0..self.shared.partitions {
            if moving >= MOVES_MAX {
                return;
            }
            let is_kept = matches!(
                self.partitions[index as usize].ownership,
                Ownership::Kept(_)
            );
            let chosen = choose(index, live.iter().map(String::as_str));
            if is_kept && chosen.is_some_and(|name| name != self.node.id.name) {
                self.release(index);
                moving += 1;
            }
        }
    }

    pub(super) fn drain_further(&mut self, cx: &mut Context<Self>) {
        if self.is_leaving.is_none() {
            return;
        }
        for index in 0..self.shared.partitions {
            self.release(index);
        }
        let is_free = |it: &Partition<K, A>| matches!(it.ownership, Ownership::Free);
        if self.partitions.iter().all(is_free)
            && let Some(reply) = self.is_leaving.take()
        {
            self.has_left = true;
            reply.reply(());
        } else {
            self.release_further(cx);
        }
    }
}
