//! The guide in `docs/guide`. Its code blocks are tests of this crate.

macro_rules! chapters {
    ($($(#[$attribute:meta])* $chapter:ident: $file:literal;)*) => {
        $(
            $(#[$attribute])*
            #[doc = include_str!(concat!("../../../docs/guide/", $file))]
            mod $chapter {}
        )*
    };
}

chapters! {
    first_actor: "01-first-actor.md";
    messages: "02-messages.md";
    mailboxes: "03-mailboxes.md";
    overload: "04-overload.md";
    supervision: "05-supervision.md";
    asynchronous: "06-async.md";
    blocking: "07-blocking.md";
    groups: "08-groups.md";
    dams: "09-dams.md";
    pinned: "10-pinned.md";
    streams: "11-streams.md";
    redis_and_cache: "12-redis-and-cache.md";
    network: "13-network.md";
    observability: "14-observability.md";
    testing: "15-testing.md";
}
