//! The main actor. It holds a job for each notification and combines the results of its look-ups.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use freeboard::{
    Actor, Context, Handler, Recipient,
    cache::{CacheError, Found, Lease},
    flow::{Backoff, random},
    meter::now_ns,
};

use super::{
    FetcherOptions, Parts,
    job::{Failure, Interest, Job, JobId, Passing, Ticket},
    queries::{Queries, QueryId},
    snapshot::FetcherCounters,
};
use crate::{
    broker::{Delivery, Queue, Unconfirmed},
    message::{KeyOf, Notification},
    store::StoreError,
};

/// Answers come before new notifications.
pub(super) const LANE_OF_ANSWERS: usize = 0;

/// The lane of a priority.
pub(super) const fn lane_of(priority: usize) -> usize {
    priority + 1
}

/// A notification that was delivered.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) delivery: Delivery,
    ticket: Ticket,
    at_ns: u64,
}

impl Arrived {
    pub(super) fn now(delivery: Delivery, ticket: Ticket) -> Self {
        Self {
            delivery,
            ticket,
            at_ns: now_ns(),
        }
    }
}

/// An answer for a job.
pub(super) enum Answer {
    /// The result of the cache.
    Found(JobId, KeyOf, Result<Found, CacheError>),
    /// The result of the slow store, or the stale value if the store failed.
    Fetched(JobId, KeyOf, Result<Option<Bytes>, StoreError>),
    /// The result of a directory query.
    Devices(QueryId, Vec<JobId>, Result<Vec<Option<String>>, StoreError>),
    /// Whether the broker confirmed the reply.
    Published(JobId, Result<(), Unconfirmed>),
}

/// The recipient of an answer. Answers that are no longer awaited, because the deadline has passed or the actor has
/// restarted, are dropped here and use no capacity of the lane.
struct Asker {
    answers: Recipient<Answer>,
    interest: Interest,
}

impl Asker {
    fn tell(self, answer: impl FnOnce() -> Answer) {
        if self.interest.strong_count() > 0 {
            // Refused only if the actor has terminated: the lane has capacity for three answers of each job.
            let _ = self.answers.try_tell(answer());
        }
    }
}

/// The actor that holds the jobs.
#[derive(Debug)]
pub(super) struct Main {
    parts: Arc<Parts>,
    options: FetcherOptions,
    counters: Arc<FetcherCounters>,
    /// The oldest first, so in order of deadlines.
    jobs: BTreeMap<JobId, Job>,
    /// Whether a timer is set for the oldest job.
    is_timed: bool,
    queries: Queries,
    answers: Option<Recipient<Answer>>,
}

impl Main {
    pub(super) fn new(
        parts: Arc<Parts>,
        options: FetcherOptions,
        counters: Arc<FetcherCounters>,
    ) -> Self {
        Self {
            queries: Queries::new(options.query_users, options.queries),
            parts,
            options,
            counters,
            jobs: BTreeMap::new(),
            is_timed: false,
            answers: None,
        }
    }

    fn asker(&self, interest: Interest) -> Asker {
        let answers = self.answers.clone();
        Asker {
            answers: answers.expect("an actor handles after it has started"),
            interest,
        }
    }

    fn look_up(&self, id: JobId, job: &Job, which: KeyOf) {
        let asker = self.asker(Arc::downgrade(&job.answers));
        let key = job.notification.key(which);
        let call = self.parts.cache.get_or_lease(key);
        // A lease that is dropped goes to the next caller.
        call.then(move |found| asker.tell(|| Answer::Found(id, which, found)));
    }

    /// A miss: this job fetches the key for all callers.
    fn fetch(&self, id: JobId, which: KeyOf, lease: Lease) {
        // If the job is gone, the lease is dropped and goes to the next caller.
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        self.counters.misses.add(1);
        let asker = self.asker(Arc::downgrade(&job.answers));
        let key = Bytes::copy_from_slice(lease.key());
        self.parts.store.fetch(
            &key,
            Box::new(move |outcome| {
                let stale = lease.stale().map(|stale| stale.value.clone());
                if let Ok(value) = &outcome {
                    // Fills the cache for the others. The result is counted there; this job has its value.
                    lease.fill(value.clone()).then(|_| {});
                }
                asker.tell(|| {
                    Answer::Fetched(id, which, outcome.or_else(|error| stale.ok_or(error)))
                });
            }),
        );
    }

    fn ask_directory(&mut self) {
        while let Some(query) = self.queries.next() {
            let asker = self.asker(query.interest);
            let (id, jobs) = (query.id, query.jobs);
            self.parts.directory.look_up(
                query.users,
                Box::new(move |devices| asker.tell(|| Answer::Devices(id, jobs, devices))),
            );
        }
    }

    /// Gives an answer to a job, and publishes the reply if it was the last.
    fn with(&mut self, id: JobId, take: impl FnOnce(&mut Job) -> bool) {
        if self.jobs.get_mut(&id).is_some_and(take) {
            self.publish(id);
        }
    }

    fn publish(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let reply = match job.reply() {
            Ok(reply) => reply,
            Err(failure) => return self.give_up(id, failure),
        };
        let interest = Arc::downgrade(&job.answers);
        let asker = self.asker(interest);
        let published = self.parts.broker.publish_with(
            Queue::Replies,
            reply.to_body().into(),
            Box::new(move |outcome| asker.tell(|| Answer::Published(id, outcome))),
        );
        if let Err(refused) = published {
            self.give_up(id, Failure::of_publish(&refused));
        }
    }

    fn published(&mut self, id: JobId, outcome: Result<(), Unconfirmed>) {
        match outcome {
            Ok(()) => {
                let Some(job) = self.jobs.remove(&id) else {
                    return;
                };
                let counters = &self.counters;
                counters
                    .lifetime
                    .record_shared(now_ns().saturating_sub(job.begun_ns));
                counters.completed.add(1);
                job.delivery.ack();
            }
            Err(unconfirmed) => {
                let failure = Failure::Passing(Passing::Publish, unconfirmed.to_string());
                self.give_up(id, failure);
            }
        }
    }

    /// Delivers a job again later, or dead-letters it.
    fn give_up(&mut self, id: JobId, failure: Failure) {
        if let Some(job) = self.jobs.remove(&id) {
            self.settle(job.delivery, failure);
        }
    }

    fn settle(&self, delivery: Delivery, failure: Failure) {
        let counters = &self.counters;
        let attempts = delivery.attempts().saturating_add(1);
        match failure {
            Failure::NoRoom(by) => {
                counters.retried(by).add(1);
                let delay = delay_after(&self.options.backoff, delivery.redeliveries());
                delivery.defer(delay);
            }
            Failure::Passing(by, _) if attempts < self.options.attempts => {
                counters.retried(by).add(1);
                let delay = delay_after(&self.options.backoff, delivery.attempts());
                delivery.retry(delay);
            }
            Failure::Passing(_, reason) => {
                counters.dead_lettered.add(1);
                let reason = format!("given up after {attempts} attempts: {reason}");
                delivery.dead_letter(&reason);
            }
            Failure::Lasting(reason) => {
                counters.dead_lettered.add(1);
                delivery.dead_letter(&reason);
            }
        }
    }

    /// Sets a timer for the deadline of the oldest job.
    fn watch_oldest(&mut self, cx: &mut Context<Self>) {
        if self.is_timed {
            return;
        }
        let Some((_, oldest)) = self.jobs.first_key_value() else {
            return;
        };
        let age = Duration::from_nanos(now_ns().saturating_sub(oldest.begun_ns));
        let left = self.options.deadline.saturating_sub(age);
        // Without a timer, the next notification tries again.
        self.is_timed = cx.wake_after(left, Self::expire).is_ok();
    }

    /// Expires the jobs whose deadline has passed.
    fn expire(&mut self, cx: &mut Context<Self>) {
        self.is_timed = false;
        let now_ns = now_ns();
        let deadline = self.options.deadline;
        while let Some((id, oldest)) = self.jobs.first_key_value()
            && now_ns.saturating_sub(oldest.begun_ns) >= nanos(deadline)
        {
            let id = *id;
            self.counters.expired.add(1);
            self.queries.expire(id);
            let reason = format!("not done within {deadline:?}");
            self.give_up(id, Failure::Passing(Passing::Deadline, reason));
        }
        self.ask_directory();
        self.watch_oldest(cx);
    }
}

impl Actor for Main {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.answers = Some(cx.actor_ref().recipient());
    }
}

impl Handler<Arrived> for Main {
    type Reply = ();

    fn handle(&mut self, arrived: Arrived, cx: &mut Context<Self>) {
        let begun_ns = now_ns();
        let Arrived {
            delivery,
            ticket,
            at_ns,
        } = arrived;
        let counters = &self.counters;
        counters.received.add(1);
        let body_bytes = delivery.body().len() as u64;
        // Ordering: Relaxed: a figure for a read-out.
        counters.body_bytes.store(body_bytes, Ordering::Relaxed);
        counters
            .in_queue
            .record_shared(begun_ns.saturating_sub(at_ns));
        if self.jobs.len() >= self.options.jobs_max() {
            // A reconnected broker has forgotten earlier deliveries, whose answers are still outstanding.
            return self.settle(delivery, Failure::NoRoom(Passing::Broker));
        }
        if delivery.attempts() >= self.options.attempts {
            counters.dead_lettered.add(1);
            let reason = format!("given up after {} attempts", delivery.attempts());
            return delivery.dead_letter(&reason);
        }
        let notification = match Notification::parse(delivery.body()) {
            Ok(notification) => notification,
            Err(malformed) => {
                counters.malformed.add(1);
                counters.dead_lettered.add(1);
                return delivery.dead_letter(&malformed.to_string());
            }
        };
        if let Some(waited) = notification.waited(delivery.published_at()) {
            counters.wait.record_shared(nanos(waited));
        }
        // Ordering: Relaxed: only the number matters.
        let id = counters.ids.fetch_add(1, Ordering::Relaxed);
        self.queries.add(id, notification.user.clone());
        let job = Job::new(delivery, ticket, notification, begun_ns);
        for which in KeyOf::ALL {
            self.look_up(id, &job, which);
        }
        self.jobs.insert(id, job);
        self.ask_directory();
        self.watch_oldest(cx);
    }
}

impl Handler<Answer> for Main {
    type Reply = ();

    fn handle(&mut self, answer: Answer, _: &mut Context<Self>) {
        match answer {
            Answer::Found(id, which, Ok(Found::Cached(cached))) => {
                self.with(id, |job| job.found(which, cached.value.as_ref()));
            }
            Answer::Found(id, which, Ok(Found::Lease(lease))) => self.fetch(id, which, lease),
            Answer::Found(id, _, Err(error)) => {
                self.with(id, |job| job.failed(Failure::of_cache(&error)));
            }
            Answer::Fetched(id, which, Ok(value)) => {
                self.with(id, |job| job.found(which, value.as_ref()));
            }
            Answer::Fetched(id, _, Err(error)) => {
                let failure = Failure::of_store(Passing::Store, &error);
                self.with(id, |job| job.failed(failure));
            }
            // Its jobs expired, or belonged to a previous incarnation.
            Answer::Devices(query, ..) if !self.queries.answered(query) => {}
            Answer::Devices(_, jobs, Ok(devices)) => {
                for (id, device) in jobs.into_iter().zip(devices) {
                    self.with(id, |job| job.has_device(device));
                }
                self.ask_directory();
            }
            Answer::Devices(_, jobs, Err(error)) => {
                for id in jobs {
                    let failure = Failure::of_store(Passing::Directory, &error);
                    self.with(id, |job| job.failed(failure));
                }
                self.ask_directory();
            }
            Answer::Published(id, outcome) => self.published(id, outcome),
        }
    }
}

/// The delay before the next delivery of a notification that had `times` delays.
pub(super) fn delay_after(backoff: &Backoff, times: u32) -> Duration {
    // By the time: equal in each run of a simulation's seed.
    let jitter_ppm = random::below(random::number(now_ns(), 0), 1_000_001) as u32;
    Duration::from_nanos(backoff.delay_jittered_ns(times, jitter_ppm))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
