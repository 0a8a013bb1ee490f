//! Families as data, and their JSON.

use freeboard_meter::{
    Exposition, Family, FamilyKind, Histogram, Sample, SystemSnapshot, families, render,
};

fn sample(name: &str, labels: &[(&str, &str)], value: f64) -> Sample {
    let labels = labels.iter().map(|&(a, b)| (a.to_owned(), b.to_owned()));
    Sample {
        name: name.to_owned(),
        labels: labels.collect(),
        value,
    }
}

#[test]
fn samples_are_kept_as_they_were_added() {
    let mut text = Exposition::new();
    text.family("open", FamilyKind::Gauge, "Open \"doors\".")
        .sample("open", &[("house", "a\nb"), ("floor", "2")], 1.5)
        .family("unused_total", FamilyKind::Counter, "Nothing.");
    let wanted = [
        Family {
            name: "open".to_owned(),
            kind: FamilyKind::Gauge,
            help: "Open \"doors\".".to_owned(),
            samples: vec![sample("open", &[("house", "a\nb"), ("floor", "2")], 1.5)],
        },
        Family {
            name: "unused_total".to_owned(),
            kind: FamilyKind::Counter,
            help: "Nothing.".to_owned(),
            samples: Vec::new(),
        },
    ];
    assert_eq!(text.families(), wanted);
}

#[test]
fn a_summary_has_quantiles_a_sum_and_a_count_in_its_unit() {
    let histogram = Histogram::new();
    histogram.record(2_000_000_000);
    let summary = histogram.summary();
    let mut text = Exposition::new();
    text.family("waited_seconds", FamilyKind::Summary, "Waited.")
        .summary("waited_seconds", &[("queue", "a")], &summary)
        .family("written_bytes", FamilyKind::Summary, "Written.")
        .summary("written_bytes", &[("queue", "a")], &summary);
    for (family, value) in text.families().iter().zip([2.0, 2e9]) {
        let median = family
            .samples
            .iter()
            .find(|it| it.label("quantile") == Some("0.5"));
        assert_eq!(median.map(|it| it.value), Some(value), "{family:?}");
        let (name, labels) = (&family.name, [("queue", "a")]);
        let [.., sum, count] = &family.samples[..] else {
            panic!("{family:?}");
        };
        assert_eq!(*sum, sample(&format!("{name}_sum"), &labels, value));
        assert_eq!(*count, sample(&format!("{name}_count"), &labels, 1.0));
    }
}

#[test]
fn families_survive_json_but_for_infinity() {
    let mut text = Exposition::new();
    text.family("a_total", FamilyKind::Counter, "A.")
        .sample("a_total", &[("b", "c")], 3.0);
    let json = serde_json::to_string(text.families()).unwrap();
    assert!(json.contains(r#""kind":"counter""#), "{json}");
    let back: Vec<Family> = serde_json::from_str(&json).unwrap();
    assert_eq!(back, text.families());
    text.sample("a_total", &[], f64::INFINITY);
    let json = serde_json::to_string(text.families()).unwrap();
    let back: Vec<Family> = serde_json::from_str(&json).unwrap();
    assert!(back[0].samples[1].value.is_nan());
}

#[test]
fn the_text_of_a_system_is_that_of_its_families_and_takes_more() {
    let snapshot = SystemSnapshot {
        actors_alive: 3,
        ..Default::default()
    };
    let mut text = families(&snapshot);
    text.family("mine_total", FamilyKind::Counter, "Mine.")
        .sample("mine_total", &[], 1.0);
    let wanted =
        render(&snapshot) + "# HELP mine_total Mine.\n# TYPE mine_total counter\nmine_total 1\n";
    assert_eq!(text.finish(), wanted);
}

#[test]
fn metrics_are_declared_before_there_is_anything_to_read() {
    let text = families(&SystemSnapshot::default());
    for name in [
        "freeboard_worker_runs_total",
        "freeboard_rescue_delay_seconds",
        "freeboard_type_actors",
        "freeboard_actor_mailbox_depth",
        "freeboard_group_member_messages_routed_total",
    ] {
        let family = text.families().iter().find(|family| family.name == name);
        let family = family.unwrap_or_else(|| panic!("{name} is not declared"));
        assert_eq!(family.samples, [], "{name}");
    }
}
