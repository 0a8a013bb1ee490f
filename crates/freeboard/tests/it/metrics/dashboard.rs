//! The dashboard in docs/grafana/freeboard.json: that what it asks for is there, and asked for as what it is.

use std::{collections::HashSet, fs};

use freeboard::meter::{Family, FamilyKind, Unit};
use serde_json::Value;

use super::{
    catalogue,
    page::docs,
    query::{Use, grouping, legend_labels, uses},
};

/// Labels that a scraper adds to every series.
const SCRAPED: [&str; 2] = ["job", "instance"];

const ROWS: [&str; 8] = [
    "Overview",
    "Workers by state",
    "Run queues",
    "Mailboxes by type",
    "I/O",
    "Streams",
    "Redis",
    "Cache",
];

fn dashboard() -> Value {
    let text = fs::read_to_string(docs().join("grafana/freeboard.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("it is JSON")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    let text = value[field].as_str();
    text.unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    let list = value[field].as_array();
    list.unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Panels that draw something.
fn charts(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = list(dashboard, "panels").iter();
    panels.filter(|panel| panel["type"] != "row")
}

/// Every query with its panel.
fn targets(dashboard: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    charts(dashboard).flat_map(|panel| {
        let targets = list(panel, "targets").iter();
        targets.map(move |target| (panel, target))
    })
}

/// Our families, with what a query may take each metric for.
struct Known(Vec<Family>);

impl Known {
    /// The family of a metric, and whether the metric only grows.
    fn find(&self, metric: &str) -> Option<(&Family, bool)> {
        self.0.iter().find_map(|family| {
            let is_summary = family.kind == FamilyKind::Summary;
            match metric.strip_prefix(family.name.as_str())? {
                "" => Some((family, family.kind == FamilyKind::Counter)),
                "_sum" | "_count" if is_summary => Some((family, true)),
                _ => None,
            }
        })
    }

    fn labels(&self, metric: &str) -> HashSet<&str> {
        let (family, _) = self.find(metric).expect("it is known");
        let samples = family.samples.iter().flat_map(|sample| &sample.labels);
        samples
            .map(|(label, _)| label.as_str())
            .chain(SCRAPED)
            .collect()
    }
}

/// What is wrong with one use of a metric.
fn objection(known: &Known, it: &Use) -> Option<&'static str> {
    let Some((family, only_grows)) = known.find(&it.metric) else {
        return Some("is no metric of ours");
    };
    if only_grows != it.is_rate {
        return Some("rates are of counters, and counters are read by their rate");
    }
    let quantile = it.matchers.iter().find(|(label, _)| label == "quantile");
    let has_quantile = |value: &String| {
        let mut samples = family.samples.iter();
        samples.any(|sample| sample.label("quantile") == Some(value))
    };
    if family.kind == FamilyKind::Summary && !only_grows {
        match quantile {
            None => return Some("is a summary: of its quantiles one is wanted"),
            Some((_, value)) if !has_quantile(value) => return Some("has no such quantile"),
            Some(_) => {}
        }
    }
    let labels = known.labels(&it.metric);
    if !it
        .matchers
        .iter()
        .all(|(label, _)| labels.contains(label.as_str()))
    {
        return Some("has no such label");
    }
    let is_templated = |label: &str| {
        let wanted = (label.to_owned(), format!("${label}"));
        it.matchers.contains(&wanted)
    };
    if !SCRAPED.into_iter().all(is_templated) {
        return Some("is not chosen by job and instance");
    }
    None
}

/// The unit that a panel needs for a query.
fn units(known: &Known, query: &str) -> &'static [&'static str] {
    let uses = uses(query);
    let (family, _) = known.find(&uses[0].metric).expect("it is known");
    let is_quotient = query.contains(" / ");
    match (family.unit(), uses[0].is_rate) {
        (Unit::Seconds, true) if is_quotient => &["s", "percentunit"],
        (_, _) if is_quotient => &["percentunit"],
        (Unit::Seconds, false) => &["s"],
        (Unit::Seconds, true) => &["percentunit"],
        (Unit::Bytes, false) => &["bytes"],
        (Unit::Bytes, true) => &["Bps"],
        (_, true) => &["ops"],
        (Unit::Ratio | Unit::Count, false) => &["short", "none"],
    }
}

#[test]
fn every_query_asks_for_what_is_there_by_its_kind_and_labels() {
    let known = Known(catalogue::all());
    let dashboard = dashboard();
    let mut count = 0;
    for (_, target) in targets(&dashboard) {
        let query = text(target, "expr");
        let uses = uses(query);
        assert!(!uses.is_empty(), "{query}");
        for it in &uses {
            let objection = objection(&known, it);
            assert_eq!(objection, None, "{} in {query}", it.metric);
        }
        let of_series = |label: &&str| {
            uses.iter()
                .all(|it| known.labels(&it.metric).contains(label))
        };
        let shown = legend_labels(text(target, "legendFormat"));
        match grouping(query) {
            Some(grouped) => {
                assert!(
                    grouped.iter().all(of_series),
                    "grouped by what is not there: {query}"
                );
                assert!(
                    shown.iter().all(|label| grouped.contains(label)),
                    "{query}: {shown:?}"
                );
            }
            None => assert!(shown.iter().all(of_series), "{query}: {shown:?}"),
        }
        count += 1;
    }
    assert!(count > 100, "{count} queries");
}

#[test]
fn what_is_asked_for_wrongly_is_found() {
    let known = Known(catalogue::all());
    let objects = |query: &str| objection(&known, &uses(query)[0]).is_some();
    let chosen = r#"job=~"$job",instance=~"$instance""#;
    assert!(!objects(&format!("freeboard_actors_alive{{{chosen}}}")));
    assert!(!objects(&format!(
        "rate(freeboard_worker_runs_total{{{chosen}}}[1m])"
    )));
    for query in [
        format!("freeboard_actors_dead{{{chosen}}}"),
        format!("rate(freeboard_actors_alive{{{chosen}}}[1m])"),
        format!("freeboard_worker_runs_total{{{chosen}}}"),
        format!("freeboard_actors_alive{{{chosen},lane=\"0\"}}"),
        format!("freeboard_stream_write_seconds{{{chosen}}}"),
        format!("freeboard_stream_write_seconds{{{chosen},quantile=\"0.42\"}}"),
        "freeboard_actors_alive".to_owned(),
    ] {
        assert!(objects(&query), "{query}");
    }
}

#[test]
fn every_panel_has_a_title_a_description_and_the_unit_of_its_queries() {
    let known = Known(catalogue::all());
    let dashboard = dashboard();
    for (panel, target) in targets(&dashboard) {
        let title = text(panel, "title");
        assert!(!title.is_empty() && !text(panel, "description").is_empty());
        let unit = text(&panel["fieldConfig"]["defaults"], "unit");
        let query = text(target, "expr");
        let wanted = units(&known, query);
        assert!(wanted.contains(&unit), "{title}: {unit} for {query}");
    }
}

#[test]
fn rows_are_there_and_panels_lie_side_by_side() {
    let dashboard = dashboard();
    let panels = list(&dashboard, "panels");
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<_> = rows.map(|row| text(row, "title")).collect();
    assert_eq!(rows, ROWS);
    let (mut ids, mut places) = (HashSet::new(), HashSet::new());
    for panel in panels {
        let number = |field: &str| panel["gridPos"][field].as_u64().expect("a place");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        assert!(number("x") + number("w") <= 24, "{panel}");
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(places.insert((x, y)), "two at {x}, {y}: {panel}");
            }
        }
    }
}

#[test]
fn data_come_from_the_source_that_the_reader_chooses() {
    let dashboard = dashboard();
    let source = |value: &Value| text(&value["datasource"], "uid").to_owned();
    for (panel, target) in targets(&dashboard) {
        assert_eq!(source(panel), "${datasource}");
        assert_eq!(source(target), "${datasource}");
    }
    let variables = list(&dashboard["templating"], "list");
    let names: Vec<_> = variables.iter().map(|it| text(it, "name")).collect();
    assert_eq!(names, ["datasource", "job", "instance", "actor_type"]);
    let known = Known(catalogue::all());
    for variable in &variables[1..] {
        assert_eq!(source(variable), "${datasource}");
        for it in uses(text(variable, "definition")) {
            assert!(known.find(&it.metric).is_some(), "{variable}");
        }
    }
}
