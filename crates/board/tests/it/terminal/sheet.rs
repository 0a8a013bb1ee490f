//! One frame without a screen.

use std::time::Duration;

use super::support::{check, check_not, frame};
use freeboard_board::terminal::{Feed, FeedError, json, text};
use freeboard_board::{Frame, Query};

/// Returns one frame after the other.
struct Frames(u64);

impl Feed for Frames {
    fn frame(&mut self, _query: &Query) -> Result<Frame, FeedError> {
        self.0 += 1;
        Ok(frame(self.0))
    }

    fn origin(&self) -> String {
        "the test".to_owned()
    }
}

struct Nothing;

impl Feed for Nothing {
    fn frame(&mut self, _query: &Query) -> Result<Frame, FeedError> {
        Err(FeedError::TooSlow { seconds: 5 })
    }

    fn origin(&self) -> String {
        "nowhere".to_owned()
    }
}

#[test]
fn a_text_has_every_row_and_no_keys() {
    let text = text(&mut Frames(0), &Query::default(), 100, Duration::ZERO).unwrap();
    check(
        &text,
        &["flood (1/2)", "Workers 2/2", "DEPTH▼", "Sender 199"],
    );
    check_not(&text, &["quit", "1 Actors", "\x1b"]);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?}\n{text}");
}

#[test]
fn a_json_reads_back() {
    let json = json(&mut Frames(0), &Query::default()).unwrap();
    assert_eq!(json.lines().count(), 1);
    assert_eq!(serde_json::from_str::<Frame>(&json).unwrap(), frame(1));
}

#[test]
fn no_frame_is_an_error() {
    let error = FeedError::TooSlow { seconds: 5 };
    let query = Query::default();
    assert_eq!(json(&mut Nothing, &query).unwrap_err(), error);
    let text = text(&mut Nothing, &query, 80, Duration::ZERO);
    assert_eq!(text.unwrap_err(), error);
}
