//! The metrics of a system: workers, scheduler, poller, actors by type, named actors, groups, topics,
//! directories.

use std::collections::HashMap;

use super::Exposition;
use crate::{
    by_type::{TypeLaneSnapshot, TypeSnapshot, by_type},
    metrics,
    scheduler::{SchedulerSnapshot, WorkerSnapshot, WorkerState},
    snapshot::{
        ActorSnapshot, DirectorySnapshot, GroupSnapshot, LaneSnapshot, MemberSnapshot,
        PollerSnapshot, PollsSnapshot, ReasonCount, SystemSnapshot, TopicSnapshot,
    },
};

/// The most actors that have series of their own: of those with a name, the oldest.
pub const ACTOR_SERIES_MAX: usize = 200;

/// The most groups that have series: the first of them.
pub const GROUP_SERIES_MAX: usize = 200;

/// The most members of all groups together that have series of their own: those of the first groups. The
/// series of a group include all of its members.
pub const MEMBER_SERIES_MAX: usize = 1_000;

/// The maximum number of topics with metrics of their own.
pub const TOPIC_SERIES_MAX: usize = 200;

/// The maximum number of directories with metrics of their own.
pub const DIRECTORY_SERIES_MAX: usize = 200;

metrics! {
    const SYSTEM: SystemSnapshot;
    gauge "freeboard_system_info" by "system" = |it| [(&it.name, 1_u64)], "The system's name; always 1.";
    gauge "freeboard_uptime_seconds" = |it| it.uptime_ns, "Time since the system was built.";
    gauge "freeboard_injector_depth" = |it| it.scheduler.injector_depth,
        "Runnable actors in the global queue.";
    gauge "freeboard_actors_alive" = |it| it.actors_alive, "Actors alive now.";
    counter "freeboard_actors_spawned_total" = |it| it.actors_spawned, "Actors ever spawned.";
    counter "freeboard_actors_ended_total" = |it| it.actors_ended, "Actors that have terminated.";
    counter "freeboard_actors_restarted_total" = |it| it.actors_restarted, "Restarts of actors.";
    counter "freeboard_dead_letters_total" by "reason" = |it| reasons(&it.dead_letters),
        "Messages not handled to their end, by reason.";
}

metrics! {
    const WORKER: WorkerSnapshot;
    gauge "freeboard_worker_online" = |it| it.is_online(), "Whether the worker is online: 1 or 0.";
    gauge "freeboard_worker_queue_depth" = |it| it.queue_depth,
        "Runnable actors in the worker's own queue.";
    counter "freeboard_worker_runs_total" = |it| it.runs, "Runs of an actor.";
    counter "freeboard_worker_steals_total" = |it| it.steals,
        "Times the worker took work from another.";
    counter "freeboard_worker_wakes_total" = |it| it.wakes, "Times the worker woke another.";
    counter "freeboard_worker_parks_total" = |it| it.parks, "Times the worker went to sleep.";
    counter "freeboard_worker_budget_expiries_total" = |it| it.budget_expiries,
        "Runs that ended because the budget was spent.";
    counter "freeboard_worker_state_seconds_total" by "state" = |it| {
        WorkerState::ALL.map(|state| (state.name(), it.times.of(state)))
    }, "Wall time of the worker, by state.";
}

metrics! {
    const SCHEDULER: SchedulerSnapshot;
    gauge "freeboard_workers_online" = |it| it.workers_online, "Workers online.";
    gauge "freeboard_worker_threads" = |it| it.threads,
        "Worker threads, including spare and displaced ones.";
    gauge "freeboard_worker_threads_spare" = |it| it.threads_spare,
        "Parked threads that can replace a blocked worker's thread.";
    gauge "freeboard_worker_threads_displaced" = |it| it.threads_displaced,
        "Threads in a run whose worker slot was given to a spare thread.";
    gauge "freeboard_worker_threads_limit" = |it| it.threads_max,
        "The maximum number of worker threads.";
    counter "freeboard_forced_wakes_total" = |it| it.forced_wakes, "Times the monitor woke a worker.";
    counter "freeboard_rescues_total" = |it| it.rescues,
        "Times a blocked worker's slot was given to a spare thread.";
    counter "freeboard_reliefs_total" = |it| it.reliefs,
        "Times a spare thread was added because all workers computed for long.";
    counter "freeboard_rescued_actors_total" = |it| it.rescued_tasks,
        "Runnable actors taken from the queues of stuck workers.";
    counter "freeboard_blocking_calls_total" = |it| it.blocking_calls,
        "Calls that were announced as blocking.";
    counter "freeboard_spares_exhausted_total" = |it| it.spares_exhausted,
        "Times all allowed threads were in use.";
    gauge "freeboard_scheduler_all_blocked" = |it| !it.all_blocked.is_empty(),
        "Whether all threads are blocked while actors wait: 1 or 0.";
    counter "freeboard_collapses_total" = |it| it.collapses,
        "Times workers slept while there was work for them.";
    gauge "freeboard_collapse_detect_max_seconds" = |it| it.collapse_detect_ns_max,
        "The longest time until a collapse was detected.";
    counter "freeboard_wasted_core_seconds_total" = |it| it.wasted_core_ns,
        "Time that workers slept while there was work for them.";
    counter "freeboard_long_runs_total" = |it| it.long_runs,
        "Runs that were longer than the threshold.";
    counter "freeboard_long_runs_unreported_total" = |it| it.long_runs_unreported,
        "Long runs that were counted but not reported.";
    summary "freeboard_rescue_delay_seconds" = |it| &it.rescue_delay,
        "From the start of a blocked run until a spare thread worked in its slot.";
}

metrics! {
    const POLLER_INFO: PollerSnapshot;
    gauge "freeboard_poller_info" by "policy" = |it| [(&it.policy, 1_u64)],
        "When busy workers poll; always 1.";
}

metrics! {
    const POLLS: PollsSnapshot;
    counter "freeboard_poller_attempts_total" = |it| it.attempts, "Attempted polls.";
    counter "freeboard_poller_looks_nonwaiting_total" = |it| it.nonwait, "Polls without waiting.";
    counter "freeboard_poller_looks_waiting_total" = |it| it.wait, "Polls that waited.";
    counter "freeboard_poller_looks_won_total" = |it| it.won(), "Polls that found events.";
    counter "freeboard_poller_events_total" = |it| it.events, "Events that polls found.";
}

metrics! {
    const POLLER: PollerSnapshot;
    gauge "freeboard_poller_sources" = |it| it.sources, "Registered sockets.";
    gauge "freeboard_poller_outstanding" = |it| it.outstanding,
        "Actors that were woken for their sockets and have not run yet.";
    counter "freeboard_poller_runs_total" = |it| it.runs, "Runs of actors for their sockets.";
    gauge "freeboard_poller_gap_max_seconds" = |it| it.gap_max_ns,
        "The longest time between two polls while sockets were registered.";
    counter "freeboard_poller_wakes_total" = |it| it.wakes,
        "Times that a waiting poll was woken because there was work.";
    counter "freeboard_poller_accepts_total" = |it| it.accepts, "Accepted connections.";
    counter "freeboard_poller_agains_total" = |it| it.agains,
        "Reads and writes that would have blocked.";
    summary "freeboard_poller_events_per_look" = |it| &it.events_per_poll,
        "Events per poll, of polls that found any.";
    summary "freeboard_poller_readiness_to_run_seconds" = |it| &it.readiness_to_run,
        "From the poll that found a socket ready to the run of its actor.";
}

metrics! {
    const TYPE: TypeSnapshot;
    gauge "freeboard_type_actors" = |it| it.alive, "Actors of the type alive now.";
    counter "freeboard_type_actors_ended_total" = |it| it.ended,
        "Actors of the type that have terminated.";
    counter "freeboard_type_restarts_total" = |it| it.restarts, "Restarts of actors of the type.";
    summary "freeboard_type_handling_seconds" = |it| &it.handling,
        "Time that handlers took, of one message in 128; quantiles of the type's slowest actor.";
}

metrics! {
    const TYPE_LANE: TypeLaneSnapshot;
    gauge "freeboard_type_mailbox_depth" = |it| it.depth,
        "Messages in the lanes of all actors of the type now.";
    gauge "freeboard_type_mailbox_depth_max" = |it| it.depth_max,
        "Messages in the fullest lane of an actor of the type now.";
    counter "freeboard_type_messages_accepted_total" = |it| it.accepted,
        "Messages that the lanes of all actors of the type have accepted.";
    counter "freeboard_type_messages_handled_total" = |it| it.handled,
        "Messages of all actors of the type that were handled.";
    counter "freeboard_type_messages_shed_total" by "reason" = |it| reasons(&it.shed),
        "Messages for actors of the type that were not handled, by reason.";
    summary "freeboard_type_time_in_queue_seconds" = |it| &it.time_in_queue,
        "Time that messages waited, of one in 128; quantiles of the type's slowest actor.";
}

metrics! {
    const ACTOR: ActorSnapshot;
    gauge "freeboard_actor_info" by "actor_type" = |it| [(&it.actor_type, 1_u64)],
        "The actor's type; always 1.";
    counter "freeboard_actor_restarts_total" = |it| it.restarts, "Restarts of the actor.";
    summary "freeboard_actor_handling_seconds" = |it| &it.handling,
        "Time that handlers took, of one message in 128.";
}

metrics! {
    const ACTOR_LANE: LaneSnapshot;
    gauge "freeboard_actor_mailbox_bound" = |it| it.bound, "The most messages the lane holds.";
    gauge "freeboard_actor_mailbox_depth" = |it| it.depth, "Messages in the lane now.";
    gauge "freeboard_actor_mailbox_high_water" = |it| it.high_water,
        "The most messages the lane has held.";
    counter "freeboard_actor_messages_accepted_total" = |it| it.accepted,
        "Messages the lane has accepted.";
    counter "freeboard_actor_messages_handled_total" = |it| it.handled,
        "Messages of the lane that were handled.";
    counter "freeboard_actor_messages_shed_total" by "reason" = |it| reasons(&it.shed),
        "Messages of the lane that were not handled, by reason.";
    summary "freeboard_actor_time_in_queue_seconds" = |it| &it.time_in_queue,
        "Time that messages waited in the lane, of one in 128.";
}

metrics! {
    const GROUP: GroupSnapshot;
    gauge "freeboard_group_info" by "router" = |it| [(&it.router, 1_u64)],
        "The group's router; always 1.";
    gauge "freeboard_group_skew_ratio" = |it| it.skew,
        "The most messages routed to one member over the mean of all members.";
    counter "freeboard_group_messages_routed_total" = |it| it.sum(|member| member.routed),
        "Messages that the router chose a member for.";
    counter "freeboard_group_messages_redirected_total" = |it| it.sum(|member| member.redirected),
        "Messages that another member got than was chosen, because that one had terminated.";
    counter "freeboard_group_messages_taken_over_total" = |it| it.sum(|member| member.taken_over),
        "Messages that members got instead of terminated ones.";
    counter "freeboard_group_messages_refused_total" = |it| it.sum(|member| member.refused),
        "Messages that came back from members.";
    gauge "freeboard_group_limit" = |it| it.limit,
        "The adaptive limit of messages and asks in flight.";
    gauge "freeboard_group_in_flight" = |it| it.in_flight,
        "Messages and asks in flight, in groups with an adaptive limit.";
    counter "freeboard_group_messages_limited_total" = |it| it.limited,
        "Messages that the adaptive limit has refused.";
}

metrics! {
    const MEMBER: MemberSnapshot;
    counter "freeboard_group_member_messages_routed_total" = |it| it.routed,
        "Messages that the router chose the member for.";
    counter "freeboard_group_member_messages_redirected_total" = |it| it.redirected,
        "Messages routed to the member that another one got, because it had terminated.";
    counter "freeboard_group_member_messages_taken_over_total" = |it| it.taken_over,
        "Messages that the member got instead of terminated ones.";
    counter "freeboard_group_member_messages_refused_total" = |it| it.refused,
        "Messages that came back from the member.";
}

metrics! {
    const DIRECTORY: DirectorySnapshot;
    gauge "freeboard_directory_activations" = |it| it.activations,
        "Keys with an activation.";
    counter "freeboard_directory_activated_total" = |it| it.activated,
        "Activations begun.";
    counter "freeboard_directory_passivated_total" = |it| it.passivated,
        "Activations that were saved and have ended.";
    counter "freeboard_directory_refused_total" = |it| it.refused,
        "Activations refused, at the bound or during a shutdown.";
    counter "freeboard_directory_loads_failed_total" = |it| it.loads_failed,
        "Loads of a state that failed.";
    counter "freeboard_directory_saves_failed_total" = |it| it.saves_failed,
        "Saves of a state that failed.";
}

metrics! {
    const TOPIC: TopicSnapshot;
    gauge "freeboard_topic_subscribers" = |it| it.subscribers.len(),
        "Subscribers of the topic.";
    counter "freeboard_topic_messages_published_total" = |it| it.published,
        "Messages published.";
    counter "freeboard_topic_messages_delivered_total" = |it| it.delivered,
        "Messages that subscribers got.";
    counter "freeboard_topic_messages_shed_total" = |it| it.shed,
        "Messages that subscribers missed because their lanes were full or the publisher gave up.";
    counter "freeboard_topic_subscribers_unsubscribed_total" = |it| it.unsubscribed,
        "Subscribers that were unsubscribed because their lanes were full, or their closures panicked.";
}

/// The families of a system, to which others can be added before the text is made of them.
///
/// ```
/// let snapshot = freeboard_meter::SystemSnapshot { actors_alive: 3, ..Default::default() };
/// let families = freeboard_meter::families(&snapshot);
/// let mut found = families.families().iter();
/// let alive = found.find(|family| family.name == "freeboard_actors_alive").unwrap();
/// assert_eq!(alive.samples[0].value, 3.0);
/// ```
#[must_use]
pub fn families(snapshot: &SystemSnapshot) -> Exposition {
    let mut text = Exposition::new();
    text.metrics(SYSTEM, &[], snapshot);
    let workers = snapshot.workers.iter();
    text.series(
        WORKER,
        workers.map(|it| ([("worker", it.index.to_string())], it)),
    );
    text.metrics(SCHEDULER, &[], &snapshot.scheduler);
    if let Some(poller) = &snapshot.poller {
        add_poller(&mut text, poller);
    }
    let types = by_type(snapshot);
    let of_type = |it: &TypeSnapshot| ("actor_type", it.actor_type.clone());
    text.series(TYPE, types.iter().map(|it| ([of_type(it)], it)));
    let lanes = types.iter().flat_map(|it| {
        let lanes = it.lanes.iter();
        lanes.map(move |lane| ([of_type(it), ("lane", lane.lane.to_string())], lane))
    });
    text.series(TYPE_LANE, lanes);
    add_named_actors(&mut text, &snapshot.actors);
    add_groups(&mut text, &snapshot.groups);
    add_topics(&mut text, &snapshot.topics);
    add_directories(&mut text, &snapshot.directories);
    text
}

fn add_poller(text: &mut Exposition, poller: &PollerSnapshot) {
    text.metrics(POLLER_INFO, &[], poller);
    let workers = poller.workers.iter().enumerate();
    let workers = workers.map(|(index, polls)| (index.to_string(), polls));
    let others = [
        ("monitor".to_owned(), &poller.monitor),
        ("dedicated".to_owned(), &poller.dedicated),
    ];
    let all = workers.chain(others);
    text.series(POLLS, all.map(|(of, polls)| ([("origin", of)], polls)));
    text.metrics(POLLER, &[], poller);
}

/// Actors with a name, the oldest first. A terminated actor may still be present beside its successor of the
/// same name: the later of the two is shown.
fn add_named_actors(text: &mut Exposition, actors: &[ActorSnapshot]) {
    let mut latest: HashMap<&str, &ActorSnapshot> = HashMap::new();
    for actor in actors {
        if let Some(name) = &actor.name {
            let known = latest.entry(name).or_insert(actor);
            if actor.id > known.id {
                *known = actor;
            }
        }
    }
    let mut named: Vec<_> = latest.into_iter().collect();
    named.sort_unstable_by_key(|(name, actor)| (actor.id, *name));
    named.truncate(ACTOR_SERIES_MAX);
    text.series(
        ACTOR,
        named
            .iter()
            .map(|&(name, actor)| ([("actor", name)], actor)),
    );
    let lanes = named.iter().flat_map(|(name, actor)| {
        let lanes = actor.lanes.iter();
        lanes.map(move |lane| {
            let labels = [
                ("actor", (*name).to_owned()),
                ("lane", lane.lane.to_string()),
            ];
            (labels, lane)
        })
    });
    text.series(ACTOR_LANE, lanes);
}

fn add_groups(text: &mut Exposition, groups: &[GroupSnapshot]) {
    metrics! {
        const GROUPS: [GroupSnapshot];
        gauge "freeboard_groups" = |it| it.len(), "Groups of actors.";
    }
    text.metrics(GROUPS, &[], groups);
    // The id distinguishes groups without a name, which are shown under the type of their members.
    let labels = |it: &GroupSnapshot| {
        let name = it.name.as_ref().unwrap_or(&it.actor_type);
        [("group_id", it.id.to_string()), ("group", name.clone())]
    };
    let groups = groups.iter().take(GROUP_SERIES_MAX);
    text.series(GROUP, groups.clone().map(|it| (labels(it), it)));
    let members = groups.flat_map(|it| {
        let members = it.members.iter().enumerate();
        members.map(move |(index, member)| {
            let [id, group] = labels(it);
            ([id, group, ("member", index.to_string())], member)
        })
    });
    text.series(MEMBER, members.take(MEMBER_SERIES_MAX));
}

fn add_topics(text: &mut Exposition, topics: &[TopicSnapshot]) {
    metrics! {
        const TOPICS: [TopicSnapshot];
        gauge "freeboard_topics" = |it| it.len(), "Topics.";
    }
    text.metrics(TOPICS, &[], topics);
    let labels = |it: &TopicSnapshot| {
        let name = it.name.as_ref().unwrap_or(&it.message_type);
        [("topic_id", it.id.to_string()), ("topic", name.clone())]
    };
    let topics = topics.iter().take(TOPIC_SERIES_MAX);
    text.series(TOPIC, topics.map(|it| (labels(it), it)));
}

fn add_directories(text: &mut Exposition, directories: &[DirectorySnapshot]) {
    metrics! {
        const DIRECTORIES: [DirectorySnapshot];
        gauge "freeboard_directories" = |it| it.len(), "Directories of actors by key.";
    }
    text.metrics(DIRECTORIES, &[], directories);
    let labels = |it: &DirectorySnapshot| {
        let name = it.name.as_ref().unwrap_or(&it.actor_type);
        let id = it.id.to_string();
        [("directory_id", id), ("directory", name.clone())]
    };
    let directories = directories.iter().take(DIRECTORY_SERIES_MAX);
    text.series(DIRECTORY, directories.map(|it| (labels(it), it)));
}

fn reasons(counts: &[ReasonCount]) -> impl Iterator<Item = (&String, u64)> {
    counts.iter().map(|it| (&it.reason, it.count))
}
