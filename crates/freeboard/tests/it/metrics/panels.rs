//! The metrics that the page and the terminal of the board show by name.

use std::{collections::HashSet, fs};

use super::{catalogue, page::docs};

/// The files, the start of the names in them, and the words before a name without that start.
const FILES: [(&str, &str, &[&str]); 3] = [
    ("page/assets/streams.js", "freeboard_stream_", &[]),
    (
        "page/assets/redis.js",
        "freeboard_redis_",
        &["named(", "total("],
    ),
    ("page/assets/cache.js", "freeboard_cache_", &["named("]),
];

fn read(path: &str) -> String {
    let path = docs().join("../crates/board").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts in quotes, each with the text before it.
fn quoted(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = text.split('"').collect();
    parts.chunks_exact(2).map(|it| (it[0], it[1])).collect()
}

#[test]
fn the_page_and_the_terminal_show_metrics_that_are_declared() {
    let declared: HashSet<_> = catalogue::all().into_iter().map(|it| it.name).collect();
    let mut shown = Vec::new();
    for (path, start, words) in FILES {
        for (before, text) in quoted(&read(path)) {
            if text.starts_with(start) {
                shown.push((path, text.to_owned()));
            } else if words.iter().any(|word| before.ends_with(word)) {
                shown.push((path, format!("{start}{text}")));
            }
        }
    }
    let path = "src/terminal/draw/sources.rs";
    let rows = read(path);
    for (table, start) in [("STREAM", "stream"), ("REDIS", "redis"), ("CACHE", "cache")] {
        let (_, table) = rows
            .split_once(&format!("const {table}:"))
            .expect("a table");
        let (table, _) = table.split_once("];").expect("its end");
        let names = quoted(table).into_iter().skip(1).step_by(2);
        shown.extend(names.map(|(_, name)| (path, format!("freeboard_{start}_{name}"))));
    }
    assert!(shown.len() > 60, "{} names", shown.len());
    let unknown = shown.iter().filter(|(_, name)| !declared.contains(name));
    assert_eq!(unknown.collect::<Vec<_>>(), [] as [&(&str, String); 0]);
}
