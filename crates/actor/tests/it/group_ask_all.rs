//! Asking all members: every member is a reply, an error or unawaited.

use crate::common::*;

fn group_of(system: &System, members: usize) -> Group<Probe> {
    let options = GroupOptions::new(members);
    system
        .spawn_group(options, |_| Probe::default())
        .expect("valid")
}

fn indices<T>(of: &[(usize, T)]) -> Vec<usize> {
    let mut indices: Vec<_> = of.iter().map(|(index, _)| *index).collect();
    indices.sort_unstable();
    indices
}

#[test]
fn all_replies_arrive_in_a_thread_a_future_and_a_handler() {
    let system = system();
    let group = group_of(&system, 5);
    let check = |replies: &Replies<u64, u64>| {
        assert!(replies.is_complete());
        assert_eq!(indices(&replies.replies), [0, 1, 2, 3, 4]);
        assert!(replies.replies.iter().all(|(_, reply)| *reply == 7));
    };
    check(&group.ask_all(7).wait());
    check(&block_on(group.ask_all(7).timeout(LIMIT).into_future()));
    let (asker, _) = probe(&system);
    let asked = group.clone();
    check(&within(&asker, move |_| asked.ask_all(7).wait()));
    assert_eq!(group.snapshot().sum(|it| it.routed), 0);
}

#[test]
fn a_missing_reply_is_an_error_at_the_deadline_and_the_others_arrive() {
    let system = system();
    let group = group_of(&system, 4);
    group.members()[0].stop();
    ended(&group.members()[0]);
    let gate = hold(&group.members()[2]);
    let check = |replies: Replies<u64, u64>| {
        assert_eq!(indices(&replies.replies), [1, 3], "{replies:?}");
        let mut errors = replies.errors;
        errors.sort_unstable_by_key(|(index, _)| *index);
        assert_eq!(errors, [(0, AskError::Closed(7)), (2, AskError::Expired)]);
        assert_eq!(replies.unawaited, 0);
    };
    let ask = || group.ask_all(7).timeout(Duration::from_millis(300));
    check(ask().wait());
    check(block_on(ask().into_future()));
    gate.open();
    // The expired ones are not handled.
    eventually("they were shed", || {
        shed(&group.members()[2], "expired") == 2
    });
    finish(&system);
    let after = group.ask_all(7).wait();
    assert_eq!((after.errors.len(), after.unawaited), (4, 0));
}

#[test]
fn a_quorum_returns_at_once_and_an_impossible_one_does_not_wait() {
    let system = system();
    let group = group_of(&system, 5);
    let gates: Vec<_> = [3, 4].map(|index| hold(&group.members()[index])).into();
    let replies = group.ask_all(7).quorum(3).wait();
    assert_eq!(indices(&replies.replies), [0, 1, 2]);
    assert_eq!((replies.errors.len(), replies.unawaited), (0, 2));
    assert!(!replies.is_complete());
    for index in [0, 1, 2] {
        group.members()[index].stop();
        ended(&group.members()[index]);
    }
    let replies = group.ask_all(7).quorum(3).wait();
    assert_eq!((replies.errors.len(), replies.unawaited), (3, 2));
    // Nobody awaits the replies any more: the messages are not handled.
    gates.iter().for_each(Gate::open);
    eventually("they were shed", || {
        shed(&group.members()[4], "asker_gone") == 2
    });
}

#[test]
fn a_panic_in_one_member_costs_its_reply_alone() {
    let system = system();
    let group = group_of(&system, 3);
    #[derive(Clone)]
    struct Check(usize);
    struct Picky(usize);
    impl Actor for Picky {}
    impl Handler<Check> for Picky {
        type Reply = usize;
        fn handle(&mut self, check: Check, _cx: &mut Context<Self>) -> usize {
            assert_ne!(self.0, check.0, "on purpose");
            self.0
        }
    }
    drop(group);
    let group = system
        .spawn_group(GroupOptions::new(3), Picky)
        .expect("valid");
    let replies = group.ask_all(Check(1)).wait();
    ended(&group.members()[1]);
    assert_eq!(indices(&replies.replies), [0, 2]);
    assert!(matches!(replies.errors[..], [(1, AskError::NoReply)]));
}

/// Asks back the actor that asks its group.
struct AskBack(ActorRef<Probe>);

impl Actor for AskBack {}

impl Handler<u64> for AskBack {
    type Reply = String;
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> String {
        format!("{:?}", self.0.ask(number).wait())
    }
}

#[test]
fn a_handler_that_waits_is_in_a_circle_as_with_any_ask() {
    let system = system();
    let (asker, _) = probe(&system);
    let back = asker.clone();
    let group = system
        .spawn_group(GroupOptions::new(1), move |_| AskBack(back.clone()))
        .expect("valid");
    let replies = within(&asker, move |_| group.ask_all(7).wait());
    // The ask whose edge comes last closes it.
    let text = format!("{replies:?}");
    assert!(text.contains("AskBack"), "{text}");
}

#[test]
fn a_handler_that_waits_does_not_wait_for_its_own_outbox() {
    let system = system();
    let notes = Notes::default();
    let made = notes.clone();
    let options = GroupOptions::new(2).member(bounded(1));
    let group = system.spawn_group(options, move |_| Probe {
        notes: made.clone(),
        ..Probe::default()
    });
    let group = group.expect("valid");
    let (asker, _) = probe(&system);
    let gate = hold(&group.members()[0]);
    let (asked, opened, replies) = (group.clone(), gate.clone(), Notes::default());
    let noted = replies.clone();
    act_async(&asker, move |_| {
        Box::pin(async move {
            let member = &asked.members()[0];
            // The second one goes into the outbox.
            tell_all(member, 1..3);
            opened.open();
            noted.push(asked.ask_all(7).wait());
        })
    });
    assert!(replies.wait_len(1)[0].is_complete());
    finish(&system);
    notes.check_all([1, 2, 7, 7]);
}
