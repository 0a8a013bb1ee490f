//! The Rust code in the documents of the repository, as tests. Documents without Rust code are not listed. The
//! documents are outside this package; only rustdoc's tests read them.

macro_rules! documents {
    ($($(#[$attribute:meta])* $name:ident: $file:literal;)*) => {
        $(
            $(#[$attribute])*
            #[doc = include_str!(concat!("../../../", $file))]
            mod $name {}
        )*
    };
}

documents! {
    readme: "README.md";
    first_actor: "docs/guide/01-first-actor.md";
    messages: "docs/guide/02-messages.md";
    mailboxes: "docs/guide/03-mailboxes.md";
    overload: "docs/guide/04-overload.md";
    supervision: "docs/guide/05-supervision.md";
    #[cfg(feature = "tokio")]
    asynchronous: "docs/guide/06-async.md";
    blocking: "docs/guide/07-blocking.md";
    groups: "docs/guide/08-groups.md";
    dams: "docs/guide/09-dams.md";
    pinned: "docs/guide/10-pinned.md";
    #[cfg(feature = "stream")]
    streams: "docs/guide/11-streams.md";
    #[cfg(feature = "redis-embedded")]
    redis_and_cache: "docs/guide/12-redis-and-cache.md";
    #[cfg(feature = "net")]
    network: "docs/guide/13-network.md";
    #[cfg(feature = "board")]
    observability: "docs/guide/14-observability.md";
    #[cfg(feature = "testing")]
    testing: "docs/guide/15-testing.md";
    tuning: "docs/guide/16-tuning.md";
    from_erlang: "docs/guide/17-from-erlang.md";
    from_akka: "docs/guide/18-from-akka.md";
    from_rust_libraries: "docs/guide/19-from-rust-libraries.md";
    topics: "docs/guide/20-topics.md";
    directory: "docs/guide/21-directory.md";
    #[cfg(all(feature = "futures", feature = "tokio", feature = "tower"))]
    tokio_axum_tonic: "docs/guide/22-tokio-axum-tonic.md";
    #[cfg(feature = "archive")]
    archives: "docs/guide/24-archives.md";
    #[cfg(feature = "sim")]
    simulation: "docs/guide/25-simulation.md";
    #[cfg(feature = "remote")]
    remote: "docs/guide/26-remote.md";
    #[cfg(all(feature = "cache", feature = "stream"))]
    metrics: "docs/metrics.md";
}
