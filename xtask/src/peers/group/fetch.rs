//! The suite of the push-notification fetcher.

use crate::component::{self, Component};

use super::super::figure::Figure;
use super::super::peer::Kind;
use super::{Group, Rivals};

/// Notifications in, keys and devices looked up, replies out: at 20,000/s with everything in the process,
/// and as quickly as RabbitMQ allows, with Redis and MariaDB. `bare-loop` looks nothing up.
#[derive(Clone, Debug)]
pub(crate) struct Fetch;

impl Group for Fetch {
    const NAME: &'static str = "fetch";
    const PEERS: &'static [&'static str] = &["freeboard", "tokio", "bare-loop"];
    const RIVALS: Rivals = Rivals {
        title: "the same on tokio",
        kinds: &[Kind::TaskRuntime],
    };
    const FIGURES: &'static [Figure] = &[
        embedded("wait, p50", "ms", "wait_p50_ms"),
        embedded("wait, p99", "ms", "wait_p99_ms"),
        embedded("lifetime, p50", "ms", "lifetime_p50_ms"),
        embedded("lifetime, p99", "ms", "lifetime_p99_ms"),
        embedded("from due to reply, p50", "ms", "reply_p50_ms"),
        embedded("from due to reply, p99", "ms", "reply_p99_ms"),
        embedded("from due to reply, p99.9", "ms", "reply_p999_ms"),
        embedded("the whole process' CPU", "us/notification", "cpu_us"),
        embedded("the whole process' memory", "MB", "rss_peak_mb"),
        embedded("lost", "notifications", "lost"),
        Figure::higher("on RabbitMQ", "fetch_real", "notifications/s", "qps"),
        Figure::lower(
            "on RabbitMQ, the service's CPU",
            "fetch_real",
            "us/notification",
            "cpu_us",
        ),
    ];
    const COMPONENTS: &'static [&'static Component] =
        &[&component::RABBITMQ, &component::REDIS, &component::MARIADB];
}

const fn embedded(label: &'static str, unit: &'static str, field: &'static str) -> Figure {
    Figure::lower(label, "fetch_embedded", unit, field)
}
