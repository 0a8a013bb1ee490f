//! A leased cache on Redis: one fetch for many misses, and no value that was invalidated during its fetch.
//!
//! After Nishtala et al., "Scaling Memcache at Facebook" (NSDI 2013), section 3.2.1. On a miss, one caller of all
//! processes gets a lease and fetches; the others use a stale value, or wait. A fill needs the lease's token, and an
//! invalidation voids that token.
//!
//! ```text
//!   get_or_lease(key) ──▶ the local layer ───────▶ GET ──fresh──▶ value         one command, no script
//!      callers of one       (if there is one)      │ missing, stale, or early by chance
//!      process share                               ▼
//!      each request                              LEASE ──▶ a lease | wait | value
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
//! An entry is one string in Redis; [`entry`] documents its bytes. [`model`] contains the protocol's decisions as
//! plain functions; Lua scripts make the same decisions inside Redis, and a property test compares both. [`native`]
//! is for a server without Lua. All times are the server's, so the clients' clocks do not matter.
//!
//! # Races
//!
//! Each row has a test of the given name in `tests/it/races.rs`, `losses.rs` or `cluster.rs`, against a real Redis, and
//! most also against the embedded one.
//!
//! | event | result | test |
//! |---|---|---|
//! | two concurrent misses in two processes | one lease, one fetch; the other caller is notified | `two_misses_at_once_make_one_fetch` |
//! | many concurrent misses in one process | one lease, one fetch; the others get the value | `callers_of_one_process_share_one_lease_and_one_fetch` |
//! | a fill after an invalidation | refused, because the token is void | `a_fill_after_an_invalidation_is_refused` |
//! | a call after an invalidation, while this process still fetches the old value | it does not get that value, but asks again | `a_call_after_an_invalidation_never_gets_a_value_fetched_before` |
//! | an invalidation right after a fetch | the next lease is granted at the end of the rate limit | `an_invalidation_keeps_the_rate_limit` |
//! | a miss right after an invalidation, with the default options | it waits until the end of the rate limit, and fetches | `a_miss_right_after_an_invalidation_fetches_once_the_rate_limit_is_over` |
//! | an invalidation overtakes the answer with the voided value | the caller asked before and gets it; the local layer does not keep it | `the_layer_of_the_process_does_not_bring_back_what_was_invalidated` |
//! | an invalidation that leaves a stale value | it is used until a caller has fetched | `an_invalidation_may_leave_a_stale_value` |
//! | a value becomes stale under load | one caller refreshes; the GET tells the others, which use the stale value | `a_stale_value_serves_while_one_refreshes` |
//! | two callers decide on an early refresh | only one gets the lease | `a_costly_value_is_refreshed_early_by_one` |
//! | an invalidation between GET and LEASE | the script checks again: a lease without a stale value | `an_invalidation_between_get_and_lease_leaves_nothing_to_use` |
//! | the holder crashes | the lease expires, and the next caller takes it over | `a_dead_holders_lease_ends_by_itself` |
//! | the holder is slower than its lease | its fill is refused even without another holder, because invalidations since then are unknown | `a_fill_after_the_end_of_its_lease_is_refused` |
//! | a fetch hangs while others of its process wait | they request a lease once it has expired | `a_fetch_that_hangs_holds_its_own_process_up_no_longer_than_its_lease` |
//! | its fill arrives after another holder's | refused; the other's value stays | `a_fill_after_another_holders_fill_changes_nothing` |
//! | a release arrives after the lease has expired | it does not release another holder's lease | `a_release_after_its_lease_keeps_the_next_holders` |
//! | the holder fails | it releases, and a waiting caller of another process gets the lease at once | `a_release_gives_the_next_waiter_the_lease_at_once` |
//! | the holder fails while others of its process wait | the next of them gets the lease at once | `a_release_gives_the_next_caller_of_the_process_the_lease_at_once` |
//! | the notification is lost | a poll finds the value | `a_lost_notification_costs_a_poll` |
//! | the notification arrives before the answer to wait | it is remembered, and the caller asks again at once | `a_notification_before_the_wait_began_is_not_lost` |
//! | the answer that granted a lease is lost | the caller fetches without Redis, and its fill is still stored | `a_lease_whose_answer_was_lost_can_be_filled` |
//! | the answer that granted a lease is late, and callers may not fetch without Redis | an error, and the lease is given back | `an_unused_lease_is_given_back` |
//! | the lease script runs after its client gave up, or its answer is lost | too late, it grants none; in time, the lease is given back, with retries | `a_script_that_runs_after_its_client_gave_up_leaves_no_lease` |
//! | a fill is not sent | the lease is given back | `a_fill_that_is_not_sent_gives_the_lease_back` |
//! | there is no value, then there is | the absence is cached for its own time, then fetched again | `that_there_is_no_value_is_known_for_a_while` |
//! | a client's clock is wrong | no effect | `the_clocks_of_clients_do_not_matter` |
//! | the script cache is flushed | the scripts are sent again | `flushed_scripts_are_sent_again` |
//! | a foreign value is stored under the key | a miss, counted, and overwritten | `a_foreign_value_is_a_miss_and_is_counted` |
//! | a waiting caller goes away | it is skipped | `a_caller_that_goes_away_leaves_its_turn_to_others` |
//! | no caller fills in time | an error, after one more request | `the_end_of_the_wait_is_an_outcome` |
//! | a slot moves to another node of a cluster | no effect: an entry moves as a whole, and scripts follow it | `slots_that_move_make_no_difference` |
//! | a node of a cluster is killed | its keys are fetched without Redis; the notifications come from another node | `a_killed_node_stops_no_caller` |
//!
//! # Limits
//!
//! - A fetch that reads the store before a change, but gets its lease after the invalidation, caches the old value.
//!   Invalidate after the store has committed, and read the store, not a lagging replica.
//! - After a failed invalidation (see its error) the value stays until it expires. The local layer
//!   ([`CacheOptions::local`]) does not receive invalidations of other processes.
//! - If the server's clock is set back, entries live and leases hold longer by that time. If it is set forward,
//!   misses wait until the new time is known, for at most a second.
//! - If Redis does not answer for [`CacheOptions::lease_time`], a lease cannot be given back, and expires.
//! - A failover to a lagging replica restores values that were invalidated since, and leases that were over.
//! - On a cluster, the clocks of the nodes should agree as those of a failover group: their difference is as if the
//!   server's clock were set. Each notification goes to all nodes; there is one only if callers of another process wait.

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
