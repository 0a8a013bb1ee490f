//! As much of PromQL as the dashboard has: which metrics a query reads, and how.

/// One metric in a query.
#[derive(Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) metric: String,
    /// Whether its rate is taken.
    pub(crate) is_rate: bool,
    /// Labels and values of its selector.
    pub(crate) matchers: Vec<(String, String)>,
}

/// All metrics of ours in a query.
pub(crate) fn uses(query: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    for (begin, _) in query.match_indices("freeboard_") {
        let (before, rest) = query.split_at(begin);
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (metric, after) = rest.split_at(end);
        let selector = after.strip_prefix('{').and_then(|it| it.split_once('}'));
        uses.push(Use {
            metric: metric.to_owned(),
            is_rate: ["rate(", "increase("].iter().any(|it| before.ends_with(it)),
            matchers: selector.map_or_else(Vec::new, |(inside, _)| matchers(inside)),
        });
    }
    uses
}

fn matchers(selector: &str) -> Vec<(String, String)> {
    let matchers = selector.split(',').map(|matcher| {
        let (label, rest) = matcher.split_once(['=', '!']).expect("a matcher");
        let value = rest.trim_start_matches(['=', '~']).trim_matches('"');
        (label.to_owned(), value.to_owned())
    });
    matchers.collect()
}

/// The labels that a query groups by, if it does.
pub(crate) fn grouping(query: &str) -> Option<Vec<&str>> {
    let (_, rest) = query.split_once(" by (")?;
    let (labels, _) = rest.split_once(')')?;
    Some(labels.split(", ").collect())
}

/// The labels in a legend.
pub(crate) fn legend_labels(legend: &str) -> Vec<&str> {
    let pieces = legend.split("{{").skip(1);
    pieces
        .filter_map(|piece| piece.split_once("}}"))
        .map(|(label, _)| label)
        .collect()
}

#[test]
fn queries_are_taken_apart() {
    let query =
        r#"sum by (a, b) (rate(freeboard_x_total{job=~"$job",state!="off"}[1m])) / freeboard_y"#;
    let matcher = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let wanted = [
        Use {
            metric: "freeboard_x_total".to_owned(),
            is_rate: true,
            matchers: vec![matcher("job", "$job"), matcher("state", "off")],
        },
        Use {
            metric: "freeboard_y".to_owned(),
            is_rate: false,
            matchers: Vec::new(),
        },
    ];
    assert_eq!(uses(query), wanted);
    assert_eq!(grouping(query), Some(vec!["a", "b"]));
    assert_eq!(grouping("freeboard_y"), None);
    assert_eq!(legend_labels("{{a}} and {{b}}"), ["a", "b"]);
}
