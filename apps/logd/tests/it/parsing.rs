//! Priority, format and host of lines, from the RFCs and from daemons and routers.

use freeboard_logd::{Format, Marks, parse};
use proptest::prelude::*;
use serde::de::IgnoredAny;

/// Format, priority and host of each line.
fn check(cases: &[(Format, u8, &str, &str)]) {
    for (format, priority, host, line) in cases {
        let parsed = parse::line(line.as_bytes());
        let found = String::from_utf8_lossy(parsed.host(line.as_bytes()));
        let result = (parsed.format, parsed.priority.number(), &*found);
        assert_eq!(result, (*format, *priority, *host), "{line}");
        assert_eq!(parsed.marks, Marks::none(), "{line}");
    }
}

#[test]
fn rfc_5424() {
    use Format::Rfc5424 as F;
    check(&[
        // Section 6.5 of the RFC.
        (
            F,
            34,
            "mymachine.example.com",
            "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed for lonvick on /dev/pts/8",
        ),
        (
            F,
            165,
            "192.0.2.1",
            "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
        ),
        (
            F,
            165,
            "mymachine.example.com",
            "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\" eventID=\"1011\"] \u{feff}An application event log entry...",
        ),
        (
            F,
            165,
            "mymachine.example.com",
            "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\" eventID=\"1011\"][examplePriority@32473 class=\"high\"]",
        ),
        // Section 6.2.3.1: the last has too many digits for the RFC; Go's programs send them.
        (F, 0, "h", "<0>1 1985-04-12T23:20:50.52Z h - - - -"),
        (
            F,
            0,
            "h",
            "<0>1 2003-08-24T05:14:15.000000003-07:00 h - - - -",
        ),
        // NILVALUEs, escapes, a message with only a space.
        (F, 13, "", "<13>1 - - - - - -"),
        (F, 13, "", "<13>1 - - a b c [x] "),
        (
            F,
            13,
            "::1",
            r#"<13>1 - ::1 a b c [x@1 k="a\"b\\c\]d] e"] text"#,
        ),
        // logger --rfc5424, rsyslog, syslog-ng.
        (
            F,
            13,
            "vm",
            "<13>1 2026-11-23T10:00:00.123456+00:00 vm root - - [timeQuality tzKnown=\"1\" isSynced=\"1\" syncAccuracy=\"95500\"] hello",
        ),
        (
            F,
            46,
            "vm",
            "<46>1 2026-11-23T10:00:00.123456+00:00 vm rsyslogd - - -  [origin software=\"rsyslogd\" swVersion=\"8.2302.0\" x-pid=\"1\" x-info=\"https://www.rsyslog.com\"] start",
        ),
        (
            F,
            45,
            "vm",
            "<45>1 2026-11-23T10:00:00+00:00 vm syslog-ng 12 - [meta sequenceId=\"1\"] syslog-ng starting up; version='3.38.1'",
        ),
    ]);
}

#[test]
fn rfc_3164() {
    use Format::Rfc3164 as F;
    check(&[
        // Section 5.4 of the RFC.
        (
            F,
            34,
            "mymachine",
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
        ),
        (F, 13, "", "<13>Use the BFG!"),
        (
            F,
            165,
            "mymachine",
            "<165>Aug 24 05:34:00 CST 1987 mymachine myproc[10]: %% It's time to make the do-nuts.",
        ),
        (
            F,
            0,
            "",
            "<0>1990 Oct 22 10:52:01 TZ-6 scapegoat.dmz.example.org 10.1.2.3 sched[0]: That's All Folks!",
        ),
        // Days of one digit; addresses.
        (
            F,
            13,
            "10.0.0.7",
            "<13>Feb  5 17:32:18 10.0.0.7 Use the BFG!",
        ),
        (F, 13, "fe80::1", "<13>Feb 5 17:32:18 fe80::1 app: x"),
        // Local sockets name no host: glibc's syslog, logger, systemd.
        (F, 13, "", "<13>Nov 23 10:00:00 root: hello"),
        (
            F,
            30,
            "",
            "<30>Nov 23 10:00:00 systemd[1]: Started Session 3 of User root.",
        ),
        (F, 78, "", "<78>Nov 23 10:00:00 CRON[123]: (root) CMD (x)"),
        // logger -n HOST --rfc3164, rsyslog's and syslog-ng's forwarding formats.
        (F, 13, "vm", "<13>Nov 23 10:00:00 vm root: hello"),
        (
            F,
            13,
            "vm",
            "<13>2026-11-23T10:00:00.123456+00:00 vm root: hello",
        ),
        (F, 13, "", "<13>2026-11-23T10:00:00+00:00 root[12]: hello"),
        (F, 13, "vm", "<13>2026-11-23 10:00:00 vm root: hello"),
        // A year, a fraction, AIX.
        (
            F,
            166,
            "fw01",
            "<166>Nov 23 2026 10:00:00 fw01 : %ASA-6-302013: Built inbound TCP",
        ),
        (
            F,
            166,
            "",
            "<166>Nov 23 2026 10:00:00: %ASA-6-302013: Built inbound TCP",
        ),
        (F, 13, "vm", "<13>Nov 23 10:00:00 2026 vm app: x"),
        (F, 13, "vm", "<13>Nov 23 10:00:00.123 vm app: x"),
        (
            F,
            13,
            "aix1",
            "<13>Nov 23 10:00:00 Message forwarded from aix1: su: x",
        ),
        // Cisco IOS: with a number, a host, a star, a zone, or without.
        (
            F,
            189,
            "",
            "<189>29: *Nov 23 10:00:00.123: %SYS-5-CONFIG_I: Configured from console",
        ),
        (
            F,
            189,
            "router1",
            "<189>29: router1: *Mar  1 18:46:11.123 UTC: %SYS-5-CONFIG_I: Configured",
        ),
        (
            F,
            189,
            "router1",
            "<189>router1: Mar  1 18:46:11: %SYS-5-CONFIG_I: Configured",
        ),
        // No time, nothing at all, and a version that is none.
        (F, 13, "", "<13>hello world"),
        (F, 13, "", "<13>"),
        (F, 13, "", "<13>1"),
        (F, 13, "", "<13>{\"level\":\"error\"}"),
        // No priority, as in files.
        (F, 13, "vm", "Nov 23 10:00:00 vm kernel: [    0.0] Linux"),
    ]);
}

#[test]
fn json_lines() {
    use Format::Json as F;
    check(&[
        (F, 11, "", r#"{"level":"error","msg":"x"}"#),
        (
            F,
            12,
            "web-1",
            r#"{"host":"web-1","a":{"level":"debug"},"b":[1,{"c":"]}"}],"severity":"WARNING"}"#,
        ),
        (F, 10, "", r#"{"ts":1.5e9,"level":"fatal"}"#),
        (F, 8, "", r#"{"priority":"emerg"}"#),
        (F, 15, "", r#"{"lvl": "Trace" , "x" : null}"#),
        // journald's export, pino, GELF.
        (
            F,
            14,
            "vm",
            r#"{"_HOSTNAME":"vm","PRIORITY":"6","MESSAGE":"x"}"#,
        ),
        (F, 12, "", r#"{"level":40,"time":1531171074631,"msg":"x"}"#),
        (F, 9, "h", r#"{"version":"1.1","host":"h","level":1}"#),
        // Unknown or missing severities.
        (F, 13, "", r#"{"level":"loud"}"#),
        (F, 13, "", r#"{"level":9,"priority":{"a":1}}"#),
        (F, 13, "", "{}"),
        (F, 13, "", "{ \"\\u00e9\\\"\" : [ ] } "),
    ]);
}

#[test]
fn plain_text_and_what_is_malformed() {
    for line in [
        "",
        "hello",
        "<html>",
        "<>",
        "2026-11-23T10:00:00Z INFO x",
        "Novel 1",
        "Nov 23",
        "[1]",
    ] {
        assert_eq!(parse::line(line.as_bytes()), parse::Parsed::PLAIN, "{line}");
    }
    let malformed = [
        // The priority cannot be read.
        (13, "<999>x"),
        (13, "<192>x"),
        (13, "<034>x"),
        (13, "<1234>x"),
        (13, "<13"),
        (13, "<1x>y"),
        // The rest is not of RFC 5424; the priority is kept.
        (34, "<34>1 "),
        (34, "<34>1 2003-10-11T22:14:15.003Z host su"),
        (34, "<34>1 2003-10-11 22:14:15 host su - - - x"),
        (34, "<34>1 2003-10-11T22:14:15.Z host su - - - x"),
        (34, "<34>1 -  host su - - - x"),
        (34, "<34>1 - host su - - [x"),
        (34, "<34>1 - host su - - [x a=1] y"),
        (34, "<34>1 - host su - - [x a=\"1] y"),
        (34, "<34>1 - host su - - [x a=\"1\"]y"),
        (34, "<34>1 - host su - - [x a=\"1\""),
        (34, "<34>1 - host su - - [] y"),
        (13, "{"),
        (13, "{\"a\":1"),
        (13, "{\"a\":1}}"),
        (13, "{\"a\":01}"),
        (13, "{\"a\":1,}"),
        (13, "{'a':1}"),
        (13, "{not json}"),
    ];
    for (priority, line) in malformed {
        let parsed = parse::line(line.as_bytes());
        let found = (parsed.format, parsed.marks, parsed.priority.number());
        assert_eq!(found, (Format::Plain, Marks::MALFORMED, priority), "{line}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(parse::line(deep.as_bytes()).marks, Marks::MALFORMED);
}

#[test]
fn the_shown_parts_of_lines() {
    // Time, application, process, structured data, text.
    let cases = [
        (
            "<34>1 2003-10-11T22:14:15.003Z vm su 12 ID47 [a b=\"c\"] \u{feff}'su root' failed",
            "2003-10-11T22:14:15.003Z|su|12|[a b=\"c\"]|'su root' failed",
        ),
        ("<34>1 - - - - - -", "||||"),
        (
            "<34>Oct 11 22:14:15 vm su[12]: failed",
            "Oct 11 22:14:15||||su[12]: failed",
        ),
        (
            "<34>Oct 11 22:14:15 su: failed",
            "Oct 11 22:14:15||||su: failed",
        ),
        (
            "<189>29: router1: *Mar  1 18:46:11.123: %SYS-5: x",
            "Mar  1 18:46:11.123||||%SYS-5: x",
        ),
        (
            "<34>2003-10-11T22:14:15+02:00 vm su: failed",
            "2003-10-11T22:14:15+02:00||||su: failed",
        ),
        ("<34>hello", "||||hello"),
        ("hello", "||||hello"),
        ("{\"a\":1}", "||||{\"a\":1}"),
        ("<34>1 broken", "||||<34>1 broken"),
    ];
    for (line, expected) in cases {
        let message = parse::message(parse::line(line.as_bytes()).format, line.as_bytes());
        let parts = [
            message.time,
            message.application,
            message.process,
            message.data,
            message.text,
        ];
        assert_eq!(
            String::from_utf8_lossy(&parts.join(&b'|')),
            expected,
            "{line}"
        );
    }
    let line = b"2026-11-23T10:00:00Z vm su: failed";
    assert_eq!(parse::line_of_file(line).host(line), b"vm");
}

/// Any JSON, with a little of everything that may be inside.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,2})?([eE][+-]?[0-9])?",
        "\"([a-z{}\\[\\],: ]|\\\\[\"\\\\/bfnrt]|\\\\u00[0-9a-f]{2}){0,6}\"",
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let member =
            ("\"[a-z]{0,5}\"", inner.clone()).prop_map(|(key, value)| format!("{key}: {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|all| format!("{{{}}}", all.join(" ,"))),
        ]
    })
}

proptest! {
    #[test]
    fn an_object_is_json_if_serde_json_says_so(
        value in json(),
        change in prop::option::of((any::<prop::sample::Index>(), "[{}\\[\\]\",:0-9.e\\\\ ]")),
    ) {
        let mut line = format!("{{\"key\":{value}}}");
        if let Some((at, with)) = change {
            let at = at.index(line.len() - 1) + 1;
            line.replace_range(at..=at, &with);
        }
        let expected = serde_json::from_str::<IgnoredAny>(&line).is_ok();
        let parsed = parse::line(line.as_bytes());
        prop_assert_eq!(parsed.format == Format::Json, expected, "{}", line);
    }

    #[test]
    fn structured_data_of_any_values_is_well_formed(
        values in prop::collection::vec("[ -~]{0,12}", 1..5),
        text in "[ -~]{0,12}",
    ) {
        let escaped = |value: &String| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace(']', "\\]");
            format!("[id@1 a=\"\" name=\"{value}\"]")
        };
        let data: String = values.iter().map(escaped).collect();
        let line = format!("<14>1 2026-11-23T10:00:00Z host app 1 - {data} {text}");
        let parsed = parse::line(line.as_bytes());
        prop_assert_eq!((parsed.format, parsed.host(line.as_bytes())), (Format::Rfc5424, &b"host"[..]));
    }
}
