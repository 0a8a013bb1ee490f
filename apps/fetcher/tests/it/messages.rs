//! Valid and malformed bodies.

use freeboard_fetcher::message::{
    BODY_BYTES_MAX, Malformed, MessageId, NAME_BYTES_MAX, Notification, Reply,
};

fn check(body: &[u8], said: &str) {
    let error = Notification::parse(body)
        .expect_err("malformed")
        .to_string();
    assert!(error.contains(said), "{error}");
}

#[test]
fn a_notification_comes_back_as_it_went() {
    for id in [
        MessageId::Number(u64::MAX),
        MessageId::Text("a-7".to_owned()),
    ] {
        let notification = Notification {
            id,
            user: "ada".to_owned(),
            app: "chess".to_owned(),
            due_us: Some(7),
            payload: "\u{0}\"\u{1f600}".to_owned(),
        };
        let again = Notification::parse(&notification.to_body()).expect("its own body");
        assert_eq!(again, notification);
    }
}

#[test]
fn a_reply_comes_back_as_it_went() {
    let reply = Reply {
        id: MessageId::Number(7),
        user: "ada".to_owned(),
        app: "chess".to_owned(),
        user_key: "u".to_owned(),
        app_key: "a".to_owned(),
        device: Some("d".to_owned()),
        payload: String::new(),
        redeliveries: 0,
    };
    assert_eq!(Reply::parse(&reply.to_body()).expect("its own body"), reply);
}

#[test]
fn malformed_notifications_give_a_reason() {
    check(b"", "EOF");
    check(b"\xff\xfe", "expected value");
    check(b"{}", "missing field `id`");
    check(br#"{"id": -1, "user": "a", "app": "b"}"#, "MessageId");
    check(br#"{"id": 1, "user": 2, "app": "b"}"#, "expected a string");
    check(br#"{"id": 1, "user": "a", "app": ""}"#, "`app` is empty");
    check(br#"{"id": 1, "user": "a", "app": "b"} more"#, "trailing");
    check(&b"[".repeat(100_000), "recursion");
    let long = "u".repeat(NAME_BYTES_MAX + 1);
    check(
        format!(r#"{{"id":1,"user":"{long}","app":"b"}}"#).as_bytes(),
        "`user` has 513 bytes",
    );
    let huge = vec![b' '; BODY_BYTES_MAX + 1];
    let error = Notification::parse(&huge).expect_err("malformed");
    assert!(matches!(error, Malformed::TooLong { bytes } if bytes == huge.len()));
}
