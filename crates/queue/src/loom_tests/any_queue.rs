//! Senders that wait for any of several members, under loom: each capacity is given once, and no sender waits beside a
//! member that has capacity.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

use loom::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{Wakes, wakes};
use crate::any_queue::{AnyQueue, Effects, Members, Turn};

/// A member, reduced to its capacity and to those who wait for it.
#[derive(Default)]
struct Member {
    free: usize,
    sent: usize,
    /// Registrations that wait, and those that hold a grant.
    line: VecDeque<(u64, Waker)>,
    granted: HashSet<u64>,
    next_key: u64,
    is_closed: bool,
}

/// A registration: member and key.
type Ticket = (usize, u64);

struct World {
    members: [Mutex<Member>; 2],
    /// So many of the members can be read.
    count: AtomicUsize,
    queue: AnyQueue<usize, Ticket>,
}

struct Scout {
    world: Weak<World>,
    member: usize,
}

impl Wake for Scout {
    fn wake(self: Arc<Self>) {
        let world = self.world.upgrade().expect("the world stays");
        world.step(|queue, members| queue.scout_returns(&self.member, members));
    }
}

struct Scouting<'w> {
    world: &'w Arc<World>,
    signalled: Vec<usize>,
}

impl Scouting<'_> {
    fn place(&mut self, index: usize, scouts: &mut BTreeMap<usize, Ticket>) {
        let mut member = self.world.members[index].lock().unwrap();
        if member.is_closed || scouts.contains_key(&index) {
            return;
        }
        let scout = Scout {
            world: Arc::downgrade(self.world),
            member: index,
        };
        let key = member.next_key;
        member.next_key += 1;
        member.line.push_back((key, Arc::new(scout).into()));
        scouts.insert(index, (index, key));
        self.signalled.push(index);
    }
}

impl Members for Scouting<'_> {
    type Id = usize;
    type Scout = Ticket;

    fn place_missing(&mut self, scouts: &mut BTreeMap<usize, Ticket>) {
        let count = self.world.count.load(Ordering::Acquire);
        (0..count).for_each(|member| self.place(member, scouts));
    }

    fn place_again(&mut self, at: &Ticket, scouts: &mut BTreeMap<usize, Ticket>) {
        self.place(at.0, scouts);
    }

    fn has_closed(&self, scout: &Ticket) -> bool {
        self.world.members[scout.0].lock().unwrap().is_closed
    }
}

impl World {
    /// Members of no capacity, of which `count` can be read.
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            members: [(); 2].map(|()| Mutex::new(Member::default())),
            count: AtomicUsize::new(count),
            queue: AnyQueue::default(),
        })
    }

    fn step(
        self: &Arc<Self>,
        step: impl FnOnce(&AnyQueue<usize, Ticket>, &mut Scouting<'_>) -> Effects<Ticket>,
    ) {
        let mut scouting = Scouting {
            world: self,
            signalled: Vec::new(),
        };
        let effects = step(&self.queue, &mut scouting);
        effects.returned.into_iter().for_each(|it| self.finish(it));
        for member in scouting.signalled {
            self.change(member, |_| ());
        }
        effects.woken.into_iter().for_each(Waker::wake);
    }

    /// Changes a member, which then grants its capacity.
    fn change(&self, index: usize, change: impl FnOnce(&mut Member)) {
        let mut woken = Vec::new();
        {
            let mut guard = self.members[index].lock().unwrap();
            let member = &mut *guard;
            change(member);
            while member.is_closed || member.free > member.granted.len() {
                let Some((key, waker)) = member.line.pop_front() else {
                    break;
                };
                member.granted.insert(key);
                woken.push(waker);
            }
        }
        woken.into_iter().for_each(Waker::wake);
    }

    fn free(&self, index: usize) {
        self.change(index, |member| member.free += 1);
    }

    fn close(&self, index: usize) {
        self.change(index, |member| member.is_closed = true);
    }

    fn finish(&self, (index, key): Ticket) {
        self.change(index, |member| {
            member.line.retain(|it| it.0 != key);
            member.granted.remove(&key);
        });
    }

    fn sent(&self) -> usize {
        let sent = |it: &Mutex<Member>| it.lock().unwrap().sent;
        self.members.iter().map(sent).sum()
    }

    /// Nothing is granted, and no capacity is both free and waited for.
    fn check_idle(&self) {
        for member in &self.members {
            let member = member.lock().unwrap();
            assert!(member.granted.is_empty(), "a grant was leaked");
            assert!(
                member.free == 0 || member.line.is_empty(),
                "nobody wakes this scout"
            );
        }
        self.queue.take_scouts().for_each(drop);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Sent,
    Closed,
    Waits,
    GivenUp,
}

/// A sender, as `SendAny` of the actor crate.
struct Sender {
    world: Arc<World>,
    number: Option<u64>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

impl Sender {
    fn new(world: &Arc<World>) -> Self {
        let (wakes, waker) = wakes();
        Self {
            world: world.clone(),
            number: None,
            wakes,
            waker,
        }
    }

    fn poll(&mut self) -> Sent {
        let queue = &self.world.queue;
        let turn = self
            .number
            .map(|it| queue.poll(it, &mut self.waker.clone()));
        match turn {
            Some(Turn::Waiting) => return Sent::Waits,
            Some(Turn::Granted(ticket)) => {
                let mut has_sent = false;
                self.world.change(ticket.0, |member| {
                    has_sent = !member.is_closed;
                    if has_sent {
                        assert!(member.granted.contains(&ticket.1));
                        assert!(member.free > 0, "a capacity was given twice");
                        member.free -= 1;
                        member.sent += 1;
                    }
                    member.granted.remove(&ticket.1);
                });
                if has_sent {
                    return Sent::Sent;
                }
            }
            Some(Turn::Unserved) | None => {}
        }
        if self.number.is_some() || queue.is_empty() {
            let mut is_open = false;
            for member in 0..self.world.count.load(Ordering::Acquire) {
                let mut member = self.world.members[member].lock().unwrap();
                if member.is_closed {
                    continue;
                }
                is_open = true;
                // Newcomers wait behind those that wait.
                if member.free > 0 && member.line.is_empty() && member.granted.is_empty() {
                    member.free -= 1;
                    member.sent += 1;
                    return Sent::Sent;
                }
            }
            if !is_open {
                return Sent::Closed;
            }
        }
        let (number, waker) = (&mut self.number, self.waker.clone());
        self.world
            .step(|queue, members| queue.enter(number, waker, members));
        Sent::Waits
    }

    /// Polls, as long as it has been woken since. A lost wake-up leaves it waiting.
    fn run(&mut self) -> Sent {
        loop {
            let before = self.wakes.0.load(Ordering::SeqCst);
            let sent = self.poll();
            if sent != Sent::Waits || self.wakes.0.load(Ordering::SeqCst) == before {
                return sent;
            }
        }
    }
    fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            self.world
                .step(|queue, members| queue.leave(number, members));
        }
    }
}

/// Runs each of `senders` on a thread of its own while `act` changes the world; then polls those that were woken. Returns
/// what became of them.
fn run<const N: usize>(
    world: &Arc<World>,
    senders: [fn(&mut Sender) -> Sent; N],
    act: impl FnOnce(&World),
) -> [Sent; N] {
    let threads = senders.map(|run| {
        let mut sender = Sender::new(world);
        thread::spawn(move || {
            let sent = run(&mut sender);
            (sender, sent)
        })
    });
    act(world);
    let mut polled = threads.map(|it| it.join().expect("no panic"));
    // A sender's step may wake another one.
    for _ in 0..N {
        for (sender, sent) in &mut polled {
            if *sent == Sent::Waits {
                *sent = sender.run();
            }
        }
    }
    polled.map(|(mut sender, sent)| {
        sender.leave();
        sent
    })
}

#[test]
fn each_capacity_serves_one_sender() {
    for second in [0, 1] {
        loom::model(move || {
            let world = World::new(2);
            let sent = run(&world, [Sender::run, Sender::run], |world| {
                world.free(0);
                world.free(second);
            });
            assert_eq!(sent, [Sent::Sent, Sent::Sent]);
            assert_eq!(world.sent(), 2);
            world.check_idle();
        });
    }
}

#[test]
fn a_dropped_sender_passes_its_capacity_on() {
    fn give_up(sender: &mut Sender) -> Sent {
        let sent = sender.poll();
        sender.leave();
        if sent == Sent::Waits {
            Sent::GivenUp
        } else {
            sent
        }
    }
    loom::model(|| {
        let world = World::new(1);
        let [first, second] = run(&world, [give_up, Sender::run], |world| world.free(0));
        let has_sent = first == Sent::Sent;
        assert_eq!(second == Sent::Sent, !has_sent, "{first:?} {second:?}");
        assert_eq!(world.sent(), 1);
        world.check_idle();
    });
}

#[test]
fn a_member_that_closes_wakes_its_senders() {
    // The last member.
    loom::model(|| {
        let world = World::new(1);
        let sent = run(&world, [Sender::run, Sender::run], |world| world.close(0));
        assert_eq!(sent, [Sent::Closed, Sent::Closed]);
    });
    // Another one has capacity.
    loom::model(|| {
        let world = World::new(2);
        let sent = run(&world, [Sender::run], |world| {
            world.close(0);
            world.free(1);
        });
        assert_eq!(sent, [Sent::Sent]);
        world.check_idle();
    });
}

#[test]
fn a_new_member_serves_a_sender_that_waits() {
    loom::model(|| {
        let world = World::new(1);
        world.free(1);
        let shared = world.clone();
        let sent = run(&world, [Sender::run], |world| {
            world.count.store(2, Ordering::Release);
            shared.step(|queue, members| queue.members_changed(members));
        });
        assert_eq!(sent, [Sent::Sent]);
        world.check_idle();
    });
}
