//! Collects users into few directory queries.
//!
//! A user that arrives while a query may start is looked up at once. Users that arrive while all queries are in
//! flight share the next one. So a query is as small as the load allows, and no timer is needed.

use std::sync::Arc;

use super::job::{Interest, JobId, Wanted};

/// The directory queries of one main actor.
#[derive(Debug)]
pub(super) struct Queries {
    users_max: usize,
    under_way_max: usize,
    under_way: Vec<(QueryId, Wanted)>,
    waiting: Vec<(JobId, String)>,
}

/// A query is identified by the last of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryId(JobId);

/// The users of one query and the jobs that need them.
pub(super) struct Query {
    pub(super) id: QueryId,
    pub(super) interest: Interest,
    pub(super) jobs: Vec<JobId>,
    pub(super) users: Vec<String>,
}

impl Queries {
    pub(super) fn new(users_max: usize, under_way_max: usize) -> Self {
        Self {
            users_max,
            under_way_max,
            under_way: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Adds a user.
    pub(super) fn add(&mut self, job: JobId, user: String) {
        self.waiting.push((job, user));
    }

    /// The next query, if one may start.
    pub(super) fn next(&mut self) -> Option<Query> {
        if self.under_way.len() == self.under_way_max {
            return None;
        }
        let count = self.waiting.len().min(self.users_max);
        let (jobs, users): (Vec<_>, Vec<_>) = self.waiting.drain(..count).unzip();
        let id = QueryId(*jobs.last()?);
        let answer = Wanted::default();
        let interest = Arc::downgrade(&answer);
        self.under_way.push((id, answer));
        Some(Query {
            id,
            interest,
            jobs,
            users,
        })
    }

    /// Records the result of a query. Whether it was in flight: it may have expired, or belong to a previous
    /// incarnation of the actor.
    pub(super) fn answered(&mut self, id: QueryId) -> bool {
        let found = self.under_way.iter().position(|(other, _)| *other == id);
        found
            .map(|index| self.under_way.swap_remove(index))
            .is_some()
    }

    /// Expires a job and all older ones. Queries that only they need are abandoned.
    pub(super) fn expire(&mut self, job: JobId) {
        self.under_way.retain(|(QueryId(last), _)| *last > job);
        self.waiting.retain(|(other, _)| *other > job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_arrive_during_a_query_share_the_next() {
        let mut queries = Queries::new(2, 1);
        queries.add(1, "a".to_owned());
        let first = queries.next().unwrap();
        assert_eq!(first.jobs, [1]);
        for (number, user) in [(2, "b"), (3, "c"), (4, "d")] {
            queries.add(number, user.to_owned());
        }
        assert!(queries.next().is_none());
        assert!(queries.answered(first.id));
        let second = queries.next().unwrap();
        assert_eq!(second.jobs, [2, 3]);
        assert_eq!(second.users, ["b", "c"]);
        assert!(queries.next().is_none());
        assert!(queries.answered(second.id));
        let third = queries.next().unwrap();
        assert_eq!(third.users, ["d"]);
        assert!(queries.answered(third.id));
        assert!(queries.next().is_none());
    }

    #[test]
    fn a_query_is_given_up_with_the_last_of_its_jobs() {
        let mut queries = Queries::new(2, 1);
        for (number, user) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            queries.add(number, user.to_owned());
        }
        let first = queries.next().unwrap();
        queries.expire(1);
        assert!(queries.next().is_none());
        queries.expire(3);
        let second = queries.next().unwrap();
        assert_eq!(second.users, ["d"]);
        assert!(first.interest.strong_count() == 0 && second.interest.strong_count() > 0);
        assert!(!queries.answered(first.id), "its answer is too late");
        assert!(queries.next().is_none());
        assert!(queries.answered(second.id));
    }
}
