//! The tests of the behaviour, in one binary. A test that needs a process of its own (an allocator, a global
//! subscriber, a panic hook, most of the memory) is a file beside this folder, which says why.
#![cfg(not(loom))]

mod abandoned;
mod accounting;
mod actor_stats;
mod aging;
mod ask;
#[cfg(feature = "tokio")]
mod async_handlers;
#[cfg(feature = "futures")]
mod attached;
mod blocking;
mod by_type;
mod circles;
mod collapse;
mod common;
mod dam;
mod dam_reservoir;
mod deadlines;
mod deferred;
mod delivery;
mod directory;
mod drops;
mod failing;
mod fairness;
mod goodput;
mod group_any;
mod group_ask_all;
mod group_faults;
mod group_limit;
mod group_resize;
mod groups;
mod lanes;
mod lifecycle;
mod linking;
mod long_runs;
mod muting;
mod names;
mod notices;
mod online;
mod outcomes;
mod overload;
mod panics;
mod pausing;
mod pending_asks;
mod pinned;
mod producer;
mod send_all;
#[cfg(feature = "tower")]
mod service;
mod shutdown;
mod snapshot;
mod starting;
mod supervision;
mod supervisor_requests;
mod supervisors;
mod tell;
mod testing;
mod testing_faults;
mod timers;
mod topic;
mod waiting;
mod watching;
