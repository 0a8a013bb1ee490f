//! The table of the metrics in the manual, which is made of the families themselves.

use std::{collections::BTreeSet, env, fs, path::Path};

use freeboard::meter::{Exposition, Family, Unit};
use freeboard_logd::{Operations, settings::Settings};

use crate::common::{Rig, stream_of};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
const BEGIN: &str = "<!-- begin of the log server's table, written by `cargo test -p freeboard-logd --test it` -->\n";
const END: &str = "<!-- end of the log server's table -->\n";

/// With this set the page is written anew instead of being compared.
const WRITE: &str = "FREEBOARD_WRITE_DOCS";

fn row(family: &Family) -> String {
    let unit = match family.unit() {
        Unit::Seconds => "seconds",
        Unit::Bytes => "bytes",
        Unit::Ratio => "ratio",
        Unit::Count => "",
    };
    let labels = family.samples.iter().flat_map(|sample| &sample.labels);
    let labels: BTreeSet<_> = labels.map(|(label, _)| label.as_str()).collect();
    let labels: Vec<_> = labels.into_iter().collect();
    format!(
        "| `{}` | {} | {unit} | {} | {} |\n",
        family.name,
        family.kind.as_str(),
        labels.join(", "),
        family.help
    )
}

#[cfg(feature = "tls")]
#[test]
fn the_manual_has_every_metric_of_the_log_server() {
    let directory = tempfile::tempdir().unwrap();
    let [certificate, key] = ["crt", "key"].map(|name| directory.path().join(name));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let text = format!(
        "{}[[tls]]\naddress = \"127.0.0.1:0\"\ncertificate = \"{}\"\nkey = \"{}\"\n",
        stream_of(&directory.path().join("LOG")),
        certificate.display(),
        key.display()
    );
    let settings = Settings::parse(&text, Path::new("logd.toml")).unwrap();
    let rig = Rig::start_as_is(settings.config().unwrap());
    let operations = Operations::new(&rig.system, &rig.poller, rig.server.clone(), settings);
    let mut metrics = Exposition::new();
    operations.render(&mut metrics);
    let own = metrics.families().iter();
    let own = own.filter(|family| family.name.starts_with("freeboard_logd_"));
    let head = "\n| metric | kind | unit | labels | what it says |\n|---|---|---|---|---|\n";
    let wanted = format!("{head}{}\n", own.map(row).collect::<String>());

    let page = fs::read_to_string(PAGE).expect("docs/metrics.md");
    let (before, rest) = page.split_once(BEGIN).expect("a begin of the table");
    let (written, after) = rest.split_once(END).expect("an end of the table");
    if env::var_os(WRITE).is_some() {
        let page = [before, BEGIN, &wanted, END, after].concat();
        fs::write(PAGE, page).expect("it is written");
    } else {
        assert!(
            written == wanted,
            "docs/metrics.md is not what the code says: write it anew by setting {WRITE}=1 for this test"
        );
    }
    assert!(rig.stop().is_clean());
}
