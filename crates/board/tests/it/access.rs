//! Access: local clients, or clients with the token.

use crate::common::http::{Viewer, ask, get, serve};
use freeboard_board::{BoardError, BoardOptions, TOKEN_CHARACTERS_MIN};

const TOKEN: &str = "Kxq4-81_vYpLwm0Z";
const PATHS: [&str; 7] = [
    "/",
    "/board.js",
    "/events",
    "/api/frame",
    "/metrics",
    "/healthz",
    "/no",
];

#[test]
fn a_remote_address_needs_a_token() {
    for address in [
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:7700",
        "[2001:db8::1]:7700",
    ] {
        let error = BoardOptions::new().serve(address.parse().unwrap());
        let error = error.unwrap_err();
        assert!(matches!(error, BoardError::TokenMissing(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with(address) && text.contains("needs a token"),
            "{text}"
        );
    }
}

#[test]
fn short_tokens_and_invalid_characters_are_refused() {
    let short = "x".repeat(TOKEN_CHARACTERS_MIN - 1);
    for token in [
        "",
        &short,
        "sixteen letters;",
        "sixteen letters ",
        "sechzehn-Größen-",
    ] {
        let options = BoardOptions::new().token(token);
        let error = options.serve("127.0.0.1:0".parse().unwrap()).unwrap_err();
        assert!(matches!(error, BoardError::Token), "{token}: {error}");
        assert!(error.to_string().contains("at least 16"), "{error}");
    }
}

#[test]
fn without_the_token_every_path_is_refused() {
    let (_board, address) = serve(BoardOptions::new().token(TOKEN));
    let shorter = format!("Authorization: Bearer {}", &TOKEN[1..]);
    let longer = format!("Authorization: Bearer {TOKEN}x");
    let bare = format!("Authorization: {TOKEN}");
    let cookie = format!("Cookie: freeboard_token={}", TOKEN.to_lowercase());
    let other = format!("Cookie: token={TOKEN}");
    for path in PATHS {
        for header in [
            "Authorization: Bearer ",
            "Accept: */*",
            "Cookie: freeboard_token",
            "Cookie: freeboard_token=",
            &shorter,
            &longer,
            &bare,
            &cookie,
            &other,
        ] {
            let answer = ask(address, &format!("GET {path}"), &[header]);
            assert_eq!(answer.head.status, 401, "{path} {header}");
            assert!(answer.line().contains("needs its token"));
            assert_eq!(answer.head.field("set-cookie"), None);
        }
        for query in [
            "token",
            "token=",
            "token=Kxq4-81_vYpLwm0",
            "Token=Kxq4-81_vYpLwm0Z",
        ] {
            assert_eq!(get(address, &format!("{path}?{query}")).head.status, 401);
        }
    }
}

#[test]
fn the_token_opens_as_a_header_in_an_address_and_as_a_cookie() {
    let (_board, address) = serve(BoardOptions::new().token(TOKEN));
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let status = |path: &str, header: &str| {
        let answer = ask(address, &format!("GET {path}"), &[header]);
        answer.head.status
    };
    for path in ["/", "/board.js", "/api/frame", "/metrics", "/healthz"] {
        assert_eq!(status(path, &bearer), 200, "{path}");
    }
    let listening = Viewer::open(address, &format!("token={TOKEN}&limit=1"));
    listening.unwrap().next().unwrap();

    let visit = format!("GET /?a=b&token={TOKEN}");
    let first = ask(address, &visit, &[]);
    assert_eq!(first.head.status, 303);
    assert_eq!(first.head.field("location"), Some("/"));
    let cookie = first.head.field("set-cookie").unwrap();
    let (cookie, rules) = cookie.split_once("; ").unwrap();
    assert_eq!(rules, "HttpOnly; SameSite=Strict; Path=/");
    let cookie = format!("Cookie: theme=dark; {cookie}");
    for path in ["/", "/board.js", "/api/frame", "/metrics", "/healthz"] {
        assert_eq!(status(path, &cookie), 200, "{path}");
    }
    // A second visit removes it from the address bar as well.
    assert_eq!(ask(address, &visit, &[&cookie]).head.status, 303);
}

/// The names are in the table of attacks.
#[test]
fn a_foreign_host_name_is_refused_on_every_path() {
    let (_board, address) = serve(BoardOptions::new());
    for path in PATHS {
        let answer = ask(address, &format!("GET {path}"), &["Host: evil.example"]);
        assert_eq!(answer.head.status, 403, "{path}");
        assert!(answer.line().contains("localhost"));
        // Its scripts may not read the answer either.
        assert_eq!(answer.head.field("access-control-allow-origin"), None);
    }
}
