//! The Prometheus text, read back by a strict checker of the exposition format.

use crate::checker::{Sample, check};
use freeboard_meter::{
    ACTOR_SERIES_MAX, ActorSnapshot, Exposition, FamilyKind, GroupSnapshot, Histogram,
    LaneSnapshot, MemberSnapshot, ReasonCount, SystemSnapshot, WorkerSnapshot, render,
};
use proptest::prelude::*;

fn find<'a>(samples: &'a [Sample], name: &str, labels: &[(&str, &str)]) -> &'a Sample {
    let mut found = samples.iter().filter(|sample| {
        let has = |(label, value): &(&str, &str)| sample.label(label) == Some(*value);
        sample.name == name && labels.iter().all(has)
    });
    let sample = found
        .next()
        .unwrap_or_else(|| panic!("no {name} {labels:?}"));
    assert!(found.next().is_none(), "more than one {name} {labels:?}");
    sample
}

fn two_lane_system() -> SystemSnapshot {
    let histogram = Histogram::new();
    (0..1_000).for_each(|_| histogram.record(2_000_000));
    let shed = |reason: &str, count| ReasonCount {
        reason: reason.to_owned(),
        count,
    };
    let lane = |lane, depth| LaneSnapshot {
        lane,
        bound: 64,
        depth,
        high_water: 60,
        accepted: 100 + depth,
        handled: 90,
        shed: vec![shed("full", 4), shed("expired", 5)],
        time_in_queue: Some(histogram.summary()),
    };
    let group = |id| GroupSnapshot {
        id,
        actor_type: "Shard".to_owned(),
        router: "random".to_owned(),
        members: [id, id + 1]
            .map(|id| MemberSnapshot {
                id,
                routed: 10 * id,
                redirected: 7,
                taken_over: 8,
                refused: 9,
                ..Default::default()
            })
            .to_vec(),
        skew: 1.25,
        ..Default::default()
    };
    SystemSnapshot {
        name: "flood".to_owned(),
        uptime_ns: 1_500_000_000,
        workers: (0..2)
            .map(|index| WorkerSnapshot {
                index,
                runs: 10 + index as u64,
                ..Default::default()
            })
            .collect(),
        actors_alive: 2,
        dead_letters: vec![shed("stopped", 7)],
        actors: vec![
            ActorSnapshot {
                id: 1,
                name: Some("the \"log\"\nserver\\".to_owned()),
                actor_type: "Server".to_owned(),
                state: "idle".to_owned(),
                lanes: vec![lane(0, 1), lane(1, 2)],
                handling: Some(histogram.summary()),
                ..Default::default()
            },
            ActorSnapshot {
                id: 2,
                actor_type: "Sink<u8>".to_owned(),
                ..Default::default()
            },
        ],
        groups: [3, 5].map(group).to_vec(),
        ..Default::default()
    }
}

#[test]
fn a_system_reads_back_with_its_values() {
    let samples = check(&render(&two_lane_system()));
    let value = |name: &str, labels: &[(&str, &str)]| find(&samples, name, labels).value;
    assert_eq!(value("freeboard_system_info", &[("system", "flood")]), 1.0);
    assert_eq!(value("freeboard_uptime_seconds", &[]), 1.5);
    assert_eq!(value("freeboard_actors_alive", &[]), 2.0);
    assert_eq!(
        value("freeboard_dead_letters_total", &[("reason", "stopped")]),
        7.0
    );
    assert_eq!(
        value("freeboard_worker_runs_total", &[("worker", "1")]),
        11.0
    );
    let actor = ("actor", "the \"log\"\nserver\\");
    let lane = [actor, ("lane", "1")];
    assert_eq!(value("freeboard_actor_mailbox_depth", &lane), 2.0);
    assert_eq!(value("freeboard_actor_mailbox_high_water", &lane), 60.0);
    assert_eq!(
        value("freeboard_actor_messages_accepted_total", &lane),
        102.0
    );
    assert_eq!(value("freeboard_actor_messages_handled_total", &lane), 90.0);
    let shed = [actor, ("lane", "0"), ("reason", "expired")];
    assert_eq!(value("freeboard_actor_messages_shed_total", &shed), 5.0);
    let median = [actor, ("lane", "1"), ("quantile", "0.5")];
    assert_eq!(
        value("freeboard_actor_time_in_queue_seconds", &median),
        0.002
    );
    assert_eq!(
        value("freeboard_actor_time_in_queue_seconds_count", &lane),
        1_000.0
    );
    assert_eq!(
        value("freeboard_actor_time_in_queue_seconds_sum", &lane),
        2.0
    );
    let sum = value("freeboard_actor_handling_seconds_sum", &[actor]);
    assert_eq!(sum, 2.0);
    let info = [actor, ("actor_type", "Server")];
    assert_eq!(value("freeboard_actor_info", &info), 1.0);
    let group = [("group_id", "5"), ("group", "Shard")];
    assert_eq!(value("freeboard_groups", &[]), 2.0);
    assert_eq!(value("freeboard_group_skew_ratio", &group), 1.25);
    let info = [("group_id", "5"), ("router", "random")];
    assert_eq!(value("freeboard_group_info", &info), 1.0);
    let member = [("group_id", "5"), ("group", "Shard"), ("member", "1")];
    for (what, of_member, of_group) in [
        ("routed", 60.0, 110.0),
        ("redirected", 7.0, 14.0),
        ("taken_over", 8.0, 16.0),
        ("refused", 9.0, 18.0),
    ] {
        let name = format!("freeboard_group_member_messages_{what}_total");
        assert_eq!(value(&name, &member), of_member);
        let name = format!("freeboard_group_messages_{what}_total");
        assert_eq!(value(&name, &group), of_group);
    }
}

#[test]
fn actors_without_a_name_are_shown_by_type_only() {
    let text = render(&two_lane_system());
    let samples = check(&text);
    let sink = ("actor_type", "Sink<u8>");
    assert_eq!(find(&samples, "freeboard_type_actors", &[sink]).value, 1.0);
    assert!(!text.contains(r#"actor="Sink"#), "{text}");
}

#[test]
fn of_two_actors_with_a_name_the_later_is_shown() {
    let named = |id, restarts| ActorSnapshot {
        id,
        name: Some("twin".to_owned()),
        restarts,
        ..Default::default()
    };
    let samples = check(&render(&SystemSnapshot {
        actors: vec![named(7, 70), named(9, 90), named(8, 80)],
        ..Default::default()
    }));
    let twin = [("actor", "twin")];
    let restarts = find(&samples, "freeboard_actor_restarts_total", &twin);
    assert_eq!(restarts.value, 90.0);
}

#[test]
fn the_text_does_not_grow_with_actors_groups_or_members() {
    let system = |count: u64| {
        let model = two_lane_system();
        let (actor, group) = (&model.actors[0], &model.groups[0]);
        let numbers = || 1..=count;
        SystemSnapshot {
            actors: numbers()
                .map(|id| ActorSnapshot {
                    id,
                    name: (id % 2 == 0).then(|| format!("{id:06}")),
                    ..actor.clone()
                })
                .collect(),
            groups: numbers()
                .map(|id| GroupSnapshot {
                    id,
                    ..group.clone()
                })
                .collect(),
            ..Default::default()
        }
    };
    let of_actor = |sample: &&Sample| sample.name == "freeboard_actor_restarts_total";
    let many = check(&render(&system(100_000)));
    let shown: Vec<_> = many.iter().filter(of_actor).collect();
    assert_eq!(shown.len(), ACTOR_SERIES_MAX);
    assert_eq!(shown[0].label("actor"), Some("000002"), "the oldest");
    let of_type = [("actor_type", "Server")];
    let all = find(&many, "freeboard_type_actors", &of_type);
    assert_eq!(all.value, 100_000.0);
    assert_eq!(many.len(), check(&render(&system(2_000))).len());
}

#[test]
fn the_checker_itself_finds_what_is_wrong() {
    let is_refused = |text: &'static str| std::panic::catch_unwind(|| check(text)).is_err();
    assert!(!is_refused("# HELP a A.\n# TYPE a gauge\na 1\n"));
    for text in [
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE b gauge\nb 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a gauge\na 1 2\n",
        "# HELP a A.\n# TYPE a gauge\na{b=\"\"\"} 1\n",
        "# HELP a A.\n# TYPE a gauge\na_sum 1\n",
    ] {
        assert!(is_refused(text), "{text}");
    }
}

#[test]
fn an_empty_system_is_valid_text() {
    let samples = check(&render(&SystemSnapshot::default()));
    assert_eq!(find(&samples, "freeboard_actors_alive", &[]).value, 0.0);
}

#[test]
fn samples_of_a_family_stay_together_whatever_the_order() {
    let mut text = Exposition::new();
    text.family("a", FamilyKind::Gauge, "A.")
        .family("a_total", FamilyKind::Counter, "Another.")
        .family("unused", FamilyKind::Untyped, "No samples.");
    text.sample("a", &[("n", "1")], 1.0)
        .sample("a_total", &[], f64::INFINITY)
        .sample("a", &[("n", "2")], f64::NAN)
        .family("a", FamilyKind::Gauge, "A.")
        .sample("a", &[("n", "3")], 1e-9);
    let text = text.finish();
    let samples = check(&text);
    assert_eq!(samples.len(), 4);
    assert!(find(&samples, "a", &[("n", "2")]).value.is_nan());
    assert_eq!(find(&samples, "a", &[("n", "3")]).value, 1e-9);
    assert_eq!(find(&samples, "a_total", &[]).value, f64::INFINITY);
    assert!(!text.contains("unused"));
}

fn is_refused(write: impl FnOnce(&mut Exposition) + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(|| {
        let mut text = Exposition::new();
        text.family("known", FamilyKind::Gauge, "Known.");
        write(&mut text);
    })
    .is_err()
}

fn family_is_refused(name: &str, kind: FamilyKind) -> bool {
    is_refused(|text| _ = text.family(name, kind, "Help."))
}

fn sample_is_refused(name: &str, label: &str) -> bool {
    is_refused(|text| _ = text.sample(name, &[(label, "")], 0.0))
}

#[test]
fn invalid_names_and_kinds_are_refused() {
    assert!(!family_is_refused("known", FamilyKind::Gauge));
    assert!(family_is_refused("known", FamilyKind::Counter));
    assert!(family_is_refused("9", FamilyKind::Gauge));
    assert!(family_is_refused("", FamilyKind::Gauge));
    assert!(!sample_is_refused("known", "label"));
    assert!(sample_is_refused("known", "a:b"));
    assert!(sample_is_refused("known_sum", "label"));
    assert!(sample_is_refused("unknown", "label"));
}

proptest! {
    #[test]
    fn any_text_survives_in_labels_and_help(
        help in any::<String>(),
        labels in prop::collection::vec(any::<String>(), 0..4),
        value in any::<f64>(),
    ) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let pairs: Vec<_> = NAMES.into_iter().zip(labels.iter().map(String::as_str)).collect();
        let mut text = Exposition::new();
        text.family("metric", FamilyKind::Untyped, &help).sample("metric", &pairs, value);
        let samples = check(&text.finish());
        prop_assert_eq!(samples.len(), 1);
        prop_assert_eq!(&samples[0].help, &help);
        prop_assert_eq!(samples[0].labels.len(), pairs.len());
        for (label, text) in pairs {
            prop_assert_eq!(samples[0].label(label), Some(text));
        }
        prop_assert!(samples[0].value == value || (samples[0].value.is_nan() && value.is_nan()));
    }

    #[test]
    fn any_actor_names_make_valid_text(
        names in prop::collection::vec(any::<Option<String>>(), 0..5),
        actor_type in any::<String>(),
    ) {
        let mut snapshot = two_lane_system();
        let model = snapshot.actors[0].clone();
        snapshot.actors = names
            .iter()
            .zip(0..)
            .map(|(name, id)| ActorSnapshot {
                id,
                name: name.clone(),
                actor_type: actor_type.clone(),
                ..model.clone()
            })
            .collect();
        let samples = check(&render(&snapshot));
        for name in names.iter().flatten() {
            let named = [("actor", name.as_str())];
            let _ = find(&samples, "freeboard_actor_restarts_total", &named);
        }
        if !names.is_empty() {
            let of_type = [("actor_type", actor_type.as_str())];
            let alive = find(&samples, "freeboard_type_actors", &of_type);
            prop_assert_eq!(alive.value, names.len() as f64);
        }
    }
}
