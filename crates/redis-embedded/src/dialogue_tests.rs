//! The dialogue: however input is cut, the replies are the same, and no input breaks it.

use std::sync::Arc;

use proptest::{prelude::*, sample::Index};

use crate::{
    dialogue::Dialogue,
    options::{EmbeddedOptions, Password},
    session::Session,
    store::Common,
};

fn open() -> EmbeddedOptions {
    EmbeddedOptions {
        password: Password::None,
        ..EmbeddedOptions::default()
    }
}

fn dialogue(options: EmbeddedOptions) -> Dialogue {
    let password = options.password.resolve().unwrap();
    let common = Arc::new(Common::new(options, password));
    Dialogue::new(Session::join(1, &common).unwrap())
}

/// The replies to bytes that arrive in `pieces`, and whether the dialogue continues.
fn replies<'a>(
    options: &EmbeddedOptions,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, bool) {
    let mut dialogue = dialogue(options.clone());
    let (mut inbox, mut replies) = (Vec::new(), Vec::new());
    for piece in pieces {
        inbox.extend_from_slice(piece);
        loop {
            let fed = dialogue.feed(&inbox);
            inbox.drain(..fed.bytes);
            let outgoing = &mut dialogue.output.outgoing;
            assert!(outgoing.write_to(&mut replies).unwrap());
            if fed.is_hungry || dialogue.session.is_closing {
                break;
            }
        }
    }
    (replies, !dialogue.session.is_closing)
}

fn request(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        request.extend(format!("${}\r\n", argument.len()).bytes());
        request.extend(argument);
        request.extend(b"\r\n");
    }
    request
}

fn argument() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec!["a", "b", "1", "NX", "GET", "\r\n", "", "'", "3"]);
    prop_oneof![
        30 => word.prop_map(|word| word.as_bytes().to_vec()),
        8 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 9_000..10_000),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "GET",
        "set",
        "DEL",
        "TTL",
        "EVAL",
        "SUBSCRIBE",
        "PUBLISH",
        "UNSUBSCRIBE",
        "HELLO",
        "PING",
        "nothing",
        "PUBSUB",
        "SCRIPT",
    ];
    prop::sample::select(names.to_vec()).prop_map(|name| name.as_bytes().to_vec())
}

fn array() -> impl Strategy<Value = Vec<u8>> {
    let arguments = prop::collection::vec(argument(), 0..4);
    (name(), arguments).prop_map(|(name, arguments)| request(&[vec![name], arguments].concat()))
}

/// Mostly valid requests, and sometimes a malformed one.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let blank = prop::sample::select(vec!["*0\r\n", "*-1\r\n"]);
    let bad = prop::sample::select(vec!["*1\r\n:1\r\n", "*x\r\n", "*1\r\n$-1\r\n", "GET a\n"]);
    let requests = prop_oneof![
        30 => array(),
        2 => blank.prop_map(|text| text.as_bytes().to_vec()),
        1 => bad.prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(requests, 1..8).prop_map(|requests| requests.concat())
}

/// Mostly meaningful bytes.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let known = b"*$0123456789-\r\n \"'GETget\\x".to_vec();
    let byte = prop_oneof![4 => prop::sample::select(known), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..80)
}

fn check(options: &EmbeddedOptions, stream: &[u8], cuts: &[Index]) -> Result<(), TestCaseError> {
    let whole = replies(options, [stream]);
    let bytewise = replies(options, stream.chunks(1));
    prop_assert_eq!(&bytewise, &whole, "byte by byte");
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    ends.sort_unstable();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let pieces = starts.zip(ends.iter().copied().chain([stream.len()]));
    let pieces = pieces.map(|(start, end)| &stream[start..end]);
    prop_assert_eq!(replies(options, pieces), whole);
    Ok(())
}

proptest! {
    #[test]
    fn any_cut_of_requests_gives_the_same_replies(
        stream in stream(),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        check(&open(), &stream, &cuts)?;
    }

    #[test]
    fn noise_is_answered_or_refused_however_it_is_cut(
        noise in noise(),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        check(&open(), &noise, &cuts)?;
    }

    #[test]
    fn a_limit_holds_however_requests_are_cut(
        stream in stream(),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        let options = EmbeddedOptions {
            query_bytes_max: 1 << 10,
            password: Password::Is("secret".to_owned()),
            ..EmbeddedOptions::default()
        };
        check(&options, &stream, &cuts)?;
    }
}

#[test]
fn a_cut_at_each_byte_gives_the_same_replies() {
    let stream =
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n*1\r\n";
    let options = open();
    let whole = replies(&options, [&stream[..]]);
    let wanted = b"+OK\r\n$2\r\n\r\n\r\n+PONG\r\n";
    assert_eq!(whole, (wanted.to_vec(), true));
    for cut in 0..=stream.len() {
        let (first, second) = stream.split_at(cut);
        assert_eq!(replies(&options, [first, second]), whole, "cut at {cut}");
    }
}

#[test]
fn lines_and_requests_have_a_largest_size() {
    let options = EmbeddedOptions {
        query_bytes_max: 1 << 20,
        ..open()
    };
    let check = |stream: &[u8], wanted: &str| {
        let wanted = format!("-ERR Protocol error: {wanted}\r\n").into_bytes();
        assert_eq!(replies(&options, [stream]), (wanted.clone(), false));
        let cut = replies(&options, stream.chunks(1_000));
        assert_eq!(cut, (wanted, false), "in pieces");
    };
    let long = vec![b'1'; 70_000];
    check(&[b"*", &long[..]].concat(), "too big mbulk count string");
    check(
        &[b"*1\r\n$", &long[..]].concat(),
        "too big bulk count string",
    );
    check(b"*1\r\n$1048577\r\n", "invalid bulk length");
    let half = request(&[vec![0; 600_000], vec![0; 600_000]]);
    check(&half, "too big request");
    check(b"*2147483648\r\n", "invalid multibulk length");
}
