//! The names that NATS allows, which subjects a pattern means, and the texts that both engines say.

use crate::engine::EngineError;

/// A subject that can be published to: tokens between dots, without wildcards and spaces.
pub(crate) fn check_subject(subject: &str) -> Result<(), EngineError> {
    check_tokens(subject, |token| token != "*" && token != ">")
}

/// A subject that can be subscribed to: `*` stands for one token, `>` at the end for one or more.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), EngineError> {
    let before_last = pattern.rsplit_once('.').map_or("", |(before, _)| before);
    if before_last.split('.').any(|token| token == ">") {
        return Err(invalid_subject(pattern));
    }
    check_tokens(pattern, |_| true)
}

fn check_tokens(subject: &str, is_allowed: impl Fn(&str) -> bool) -> Result<(), EngineError> {
    let is_valid = |token: &str| {
        let has_space = token.chars().any(|it| it.is_whitespace() || it == '\0');
        !token.is_empty() && !has_space && is_allowed(token)
    };
    match subject.split('.').all(is_valid) {
        true => Ok(()),
        false => Err(invalid_subject(subject)),
    }
}

fn invalid_subject(subject: &str) -> EngineError {
    EngineError::Refused(format!("{subject:?} is not a valid subject of NATS"))
}

/// Whether a pattern of [`check_pattern`] means a subject.
#[cfg(feature = "simulated")]
pub(crate) fn matches(pattern: &str, subject: &str) -> bool {
    let (mut wanted, mut tokens) = (pattern.split('.'), subject.split('.'));
    loop {
        match (wanted.next(), tokens.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

/// Letters, digits, `-` and `_`.
pub(crate) fn check_bucket(bucket: &str) -> Result<(), EngineError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match !bucket.is_empty() && bucket.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err(EngineError::Refused(format!(
            "{bucket:?} is not a valid name of a bucket"
        ))),
    }
}

/// Letters, digits and `-_/=.`; no dot at an end, and no two in a row.
pub(crate) fn check_key(key: &str) -> Result<(), EngineError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/=.".contains(&byte);
    match key.bytes().all(is_allowed) && key.split('.').all(|token| !token.is_empty()) {
        true => Ok(()),
        false => Err(EngineError::Refused(format!("{key:?} is not a valid key"))),
    }
}

/// The bucket was there when it was opened.
pub(crate) fn bucket_is_gone(bucket: &str) -> EngineError {
    EngineError::Refused(format!(
        "bucket {bucket} is gone: the NATS server has lost its data, or somebody deleted it"
    ))
}

/// The bucket belongs to somebody else.
pub(crate) fn other_ttl(
    bucket: &str,
    is: Option<std::time::Duration>,
    expected: Option<std::time::Duration>,
) -> EngineError {
    let text = |ttl: Option<std::time::Duration>| match ttl {
        Some(ttl) => format!("a time to live of {ttl:?}"),
        None => "no time to live".to_owned(),
    };
    EngineError::Refused(format!(
        "bucket {bucket} exists with {}, expected {}: another prefix?",
        text(is),
        text(expected)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_patterns_buckets_and_keys_are_checked() {
        for subject in ["a", "a.b", "_INBOX.x-1"] {
            check_subject(subject).expect(subject);
        }
        for subject in ["", ".", "a.", "a..b", "a b", "a.*", ">", "a\n"] {
            check_subject(subject).expect_err(subject);
        }
        for pattern in ["a.*", "*.b", "a.>", ">"] {
            check_pattern(pattern).expect(pattern);
        }
        for pattern in ["", "a.>.b", ">.a", "a..>"] {
            check_pattern(pattern).expect_err(pattern);
        }
        #[cfg(feature = "simulated")]
        for (pattern, subject, is_match) in [
            ("a", "a", true),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("*.b", "a.b", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches(pattern, subject), is_match, "{pattern} {subject}");
        }
        check_bucket("a_b-1").expect("valid");
        check_bucket("a.b").expect_err("a dot");
        check_key("a/b=c.d_e-f").expect("valid");
        for key in ["", ".a", "a.", "a..b", "a*", "a b", "ä"] {
            check_key(key).expect_err(key);
        }
    }
}
