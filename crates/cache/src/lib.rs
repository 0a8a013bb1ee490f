//! A leased cache on Redis: one fetch for many misses, and no value that was invalidated while it was
//! fetched.
//!
//! After Nishtala et al., "Scaling Memcache at Facebook" (NSDI 2013), section 3.2.1. On a miss one caller
//! of all processes gets a lease and fetches; the others use a stale value, or wait. A fill needs the lease's
//! token, which an invalidation voids.
//!
//! ```text
//!   get_or_lease(key) ──▶ this process' layer ──▶ GET ──fresh──▶ value         one command, no script
//!      callers of one       (if there is one)      │ missing, stale, or early by chance
//!      process share                               ▼
//!      each question                             LEASE ──▶ a lease | wait | value
//!                                                  │ lease        │ wait
//!                                                  ▼              ▼
//!                                                fetch          the stale value; or until notified (a push
//!                                                  │            message), or a poll, or `wait_max`
//!                                                  ▼
//!                                                FILL(token) ──▶ stored | refused;  RELEASE on failure
//! ```
//!
//! ```no_run
//! # use std::convert::Infallible;
//! use freeboard_actor::System;
//! use freeboard_cache::{Cache, CacheOptions};
//! use freeboard_redis::Redis;
//!
//! # async fn look_up_in_the_slow_store() -> Result<Option<bytes::Bytes>, Infallible> { Ok(None) }
//! # async fn run(system: &System, redis: &Redis) -> Result<(), Box<dyn std::error::Error>> {
//! let options = CacheOptions { prefix: "user:".to_owned(), ..CacheOptions::default() };
//! let users = Cache::new(system, redis, options)?;
//! let user = users.get_or_fetch("7", || look_up_in_the_slow_store()).await?;
//! users.invalidate("7").await?; // after the store was changed
//! # drop(user); Ok(())
//! # }
//! ```
//!
//! An entry is one string in Redis; [`entry`] draws it byte by byte. What is decided, and when, stands in
//! [`model`] as plain functions; scripts in Lua do the same inside of Redis, and a property test compares the
//! two. [`native`] is for a server that runs no Lua. Times are the server's: no client's clock matters.
//!
//! # What can happen at the same time
//!
//! Each row has a test of the given name in `tests/races.rs` or `tests/losses.rs`, against a real Redis, and most
//! against the embedded one.
//!
//! | what happens | what comes of it | test |
//! |---|---|---|
//! | two misses at once, in two processes | one lease, one fetch; the other is notified | `two_misses_at_once_make_one_fetch` |
//! | many misses at once, in one process | one lease, one fetch; the others are handed the value | `callers_of_one_process_share_one_lease_and_one_fetch` |
//! | a fill after an invalidation | the token is void: refused | `a_fill_after_an_invalidation_is_refused` |
//! | a call after an invalidation, while a process of ours still fetches the old value | it is not handed what was fetched, it asks anew | `who_comes_after_an_invalidation_never_gets_what_was_fetched_before` |
//! | an invalidation of what was fetched a moment ago | the next lease is given when the rate limit is over | `an_invalidation_keeps_the_rate_limit` |
//! | a miss right after an invalidation, with the default options | it waits until the rate limit is over, and no longer, and fetches | `a_miss_right_after_an_invalidation_fetches_once_the_rate_limit_is_over` |
//! | an invalidation overtakes an answer with what it made void | its caller asked before and gets it; the layer of the process does not | `the_layer_of_the_process_does_not_bring_back_what_was_invalidated` |
//! | an invalidation that leaves a stale value | it is used until somebody has fetched | `an_invalidation_may_leave_a_stale_value` |
//! | a value becomes stale under load | one refreshes, the others use it and see by the GET that somebody does | `a_stale_value_serves_while_one_refreshes` |
//! | two see at once that it is time for an early refresh | the one lease decides | `a_costly_value_is_refreshed_early_by_one` |
//! | an invalidation between GET and LEASE | the script looks again: a lease, with nothing to use | `an_invalidation_between_get_and_lease_leaves_nothing_to_use` |
//! | the holder dies | the lease ends in its time, and the next one's takes it over | `a_dead_holders_lease_ends_by_itself` |
//! | the holder is slower than its lease | refused, even if nobody else came: who has invalidated since is not known any more | `a_holder_slower_than_its_lease_fills_in_vain` |
//! | a fetch hangs, and others of its process wait | once its lease is over they ask for one | `a_fetch_that_hangs_holds_its_own_process_up_no_longer_than_its_lease` |
//! | its fill comes after another holder's | refused, the other's value stays | `a_fill_after_another_holders_fill_changes_nothing` |
//! | a release comes after the lease was over | it frees nobody else's | `a_release_after_the_lease_was_over_frees_nobody_elses` |
//! | the holder fails | it releases, and a waiter of another process has the lease at once | `a_release_gives_the_next_waiter_the_lease_at_once` |
//! | the holder fails, and others of its process wait | so has the next one of them | `a_release_gives_the_next_caller_of_the_process_the_lease_at_once` |
//! | the notification is lost | a poll finds the value | `a_lost_notification_costs_a_poll` |
//! | the notification comes before the answer that one must wait | it is remembered: asked again at once | `a_notification_before_the_wait_began_is_not_lost` |
//! | the answer that gave a lease is lost | the caller fetches without, and its fill is stored all the same | `a_lease_whose_answer_was_lost_can_be_filled` |
//! | the answer that gave a lease is late, and nobody may fetch without | an error, and the lease is given back | `a_lease_that_nobody_uses_is_given_back` |
//! | the script that asks for a lease runs after its client gave up, or its answer is lost | too late, it gives none; in time, the lease is given back, as often as it takes | `a_script_that_runs_after_its_client_gave_up_leaves_no_lease` |
//! | a fill is not sent | the lease is given back | `a_fill_that_is_not_sent_gives_the_lease_back` |
//! | there is no value, then there is | that there is none is known for its own time, then fetched again | `that_there_is_no_value_is_known_for_a_while` |
//! | the clock of a client is wrong | nothing | `the_clocks_of_clients_do_not_matter` |
//! | the script cache is flushed | scripts are sent again | `flushed_scripts_are_sent_again` |
//! | somebody else's value stands under the key | a miss, counted, and overwritten | `a_foreign_value_is_a_miss_and_is_counted` |
//! | a waiter goes away | it is passed over | `a_caller_that_goes_away_leaves_its_turn_to_others` |
//! | nobody fills in time | an error, after one more question | `the_end_of_the_wait_is_an_outcome` |
//!
//! What no lease can help: a fetch that reads the store before a change and whose lease is given after the
//! invalidation. Invalidate after the store has committed, and read the store, not a replica that lags.
//! An invalidation that fails (see its error) leaves the value until the end of its time, and the layer of
//! this process ([`CacheOptions::local`]) does not hear of other processes' at all. If the server's clock is
//! set back, entries live so much longer, and leases hold so much longer; if it is set forward, misses wait until
//! the new time is known, for a second at most. A lease that cannot be given back, since Redis does not answer for
//! as long as [`CacheOptions::lease_time`], ends in its own time. A failover to a replica that lags
//! brings back what it had: values that were invalidated since, and leases that were over.
//!
//! A cluster has no subscriptions, so there is no cache on one ([`Cache::new`]); on any server or
//! failover group there is.

#![forbid(unsafe_code)]

mod bulkhead;
mod cache;
mod call;
mod chance;
mod clock;
pub mod entry;
mod error;
mod flight;
mod flights;
#[cfg(test)]
mod flights_tests;
mod held;
mod lease;
mod local;
mod lookup;
mod metrics;
pub mod model;
pub mod native;
mod options;
mod releases;
mod scripts;
#[cfg(test)]
mod scripts_tests;
mod shared;
mod sync;
mod watch;

pub use cache::Cache;
pub use call::{Call, CallFuture};
#[cfg(feature = "test-util")]
pub use clock::SimulatedClock;
pub use error::{CacheError, CacheOptionsError, CacheStartError, FetchError};
pub use lease::{Cached, Filled, Found, Lease};
pub use metrics::{CacheSnapshot, ShedSnapshot};
pub use options::{CacheOptions, Fallback, LocalOptions};
