//! Users that are to be looked up, put together to few questions.
//!
//! One that comes while there is room goes at once; those that come while all questions are under way wait for
//! each other. So a question is as small as the load allows, and no timer is needed.

use super::job::JobId;

/// Users of one main actor.
#[derive(Debug)]
pub(super) struct Questions {
    users_max: usize,
    under_way_max: usize,
    under_way: usize,
    waiting: Vec<(JobId, String)>,
}

/// Users for one question, and whose they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) jobs: Vec<JobId>,
    pub(super) users: Vec<String>,
}

impl Questions {
    pub(super) fn new(users_max: usize, under_way_max: usize) -> Self {
        Self {
            users_max,
            under_way_max,
            under_way: 0,
            waiting: Vec::new(),
        }
    }

    /// One more user.
    pub(super) fn add(&mut self, job: JobId, user: String) {
        self.waiting.push((job, user));
    }

    /// The next question, if it is time.
    pub(super) fn next(&mut self) -> Option<Question> {
        if self.waiting.is_empty() || self.under_way == self.under_way_max {
            return None;
        }
        self.under_way += 1;
        let count = self.waiting.len().min(self.users_max);
        let (jobs, users) = self.waiting.drain(..count).unzip();
        Some(Question { jobs, users })
    }

    /// A question was answered, in whatever way.
    pub(super) fn answered(&mut self) {
        self.under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_while_a_question_is_under_way_go_together() {
        let mut questions = Questions::new(2, 1);
        let id = JobId::of_test;
        questions.add(id(1), "a".to_owned());
        let first = questions.next().unwrap();
        assert_eq!(first.jobs, [id(1)]);
        for (number, user) in [(2, "b"), (3, "c"), (4, "d")] {
            questions.add(id(number), user.to_owned());
        }
        assert_eq!(questions.next(), None);
        questions.answered();
        let second = questions.next().unwrap();
        assert_eq!(second.jobs, [id(2), id(3)]);
        assert_eq!(second.users, ["b", "c"]);
        assert_eq!(questions.next(), None);
        questions.answered();
        assert_eq!(questions.next().unwrap().users, ["d"]);
        questions.answered();
        assert_eq!(questions.next(), None);
    }
}
