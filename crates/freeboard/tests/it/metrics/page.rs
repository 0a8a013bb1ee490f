//! The table in docs/metrics.md, which is made of the families themselves.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::PathBuf};

use freeboard::meter::{Family, Unit};

use super::catalogue::{self, Section};

const BEGIN: &str = "<!-- begin of the tables, written by `cargo test -p freeboard --features full --test it` -->\n";
const END: &str = "<!-- end of the tables -->\n";

/// With this set the page is written anew instead of being compared.
const WRITE: &str = "FREEBOARD_WRITE_DOCS";

pub(crate) fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

fn tables() -> String {
    let mut tables = String::new();
    for Section { title, families } in catalogue::sections() {
        write!(tables, "\n### {title}\n\n").expect("a string takes it");
        tables += "| metric | kind | unit | labels | what it says |\n|---|---|---|---|---|\n";
        for family in &families {
            tables += &row(family);
        }
    }
    tables + "\n"
}

fn row(family: &Family) -> String {
    let unit = match family.unit() {
        Unit::Seconds => "seconds",
        Unit::Bytes => "bytes",
        Unit::Ratio => "ratio",
        Unit::Count => "",
    };
    let labels = family.samples.iter().flat_map(|sample| &sample.labels);
    let labels: BTreeSet<_> = labels
        .map(|(label, _)| label.as_str())
        .filter(|label| *label != "quantile")
        .collect();
    let labels: Vec<_> = labels.into_iter().collect();
    format!(
        "| `{}` | {} | {unit} | {} | {} |\n",
        family.name,
        family.kind.as_str(),
        labels.join(", "),
        family.help
    )
}

#[test]
fn the_manual_has_every_metric_as_it_is() {
    let path = docs().join("metrics.md");
    let page = fs::read_to_string(&path).expect("docs/metrics.md");
    let (head, rest) = page.split_once(BEGIN).expect("a begin of the tables");
    let (written, tail) = rest.split_once(END).expect("an end of the tables");
    let wanted = tables();
    if env::var_os(WRITE).is_some() {
        fs::write(&path, [head, BEGIN, &wanted, END, tail].concat()).expect("it is written");
        return;
    }
    assert!(
        written == wanted,
        "docs/metrics.md is not what the code says: write it anew by setting {WRITE}=1 for this test"
    );
}
