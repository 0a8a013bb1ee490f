//! The thresholds of the project's goals, by the label of their figure.

use std::fmt;

use serde_json::Value;

use super::figure::{Better, Figure};
use super::peer::{Kind, OURS};
use super::results::Results;

/// One demand on a figure of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtMost(f64),
    /// The same of this peer, which is ours with another setting.
    PeerAtMost {
        peer: &'static str,
        limit: f64,
    },
    AtLeast(f64),
    /// This many times better than the best Rust actor crate of the same run.
    TimesBestCrate(f64),
    /// This many times better than this peer in the same run.
    TimesPeer {
        peer: &'static str,
        factor: f64,
    },
    /// No worse than this peer in the same run.
    NoWorseThan(&'static str),
    /// At most this many times the figure of this peer in the same run.
    AtMostTimesPeer {
        peer: &'static str,
        factor: f64,
    },
    /// At most this many times our figure with this label.
    AtMostTimes {
        label: &'static str,
        factor: f64,
    },
    /// At most this many percent worse than this peer in the same run.
    Within {
        percent: f64,
        peer: &'static str,
    },
    /// A rate of at least this share of what the figure with this label reaches.
    ShareOfRate {
        label: &'static str,
        share: f64,
    },
    /// A field of each of our runs stays within another: a limit was never passed.
    FieldWithin {
        field: &'static str,
        limit_field: &'static str,
    },
}

/// All goals; goals that say more than one thing have more than one line.
const GOALS: &[(&str, Goal)] = &[
    ("fan-in 2 x 2 M", Goal::AtMost(20.0)),
    ("fan-in 2 x 2 M", Goal::TimesBestCrate(8.0)),
    ("fan-in 2 x 2 M", Goal::NoWorseThan("crossbeam")),
    ("fan-in 2 x 2 M", Goal::NoWorseThan("kanal")),
    ("fan-in 100 x 10 k", Goal::AtMost(20.0)),
    ("fan-in 100 x 10 k", Goal::NoWorseThan("crossbeam")),
    ("fan-in 100 x 10 k", Goal::NoWorseThan("kanal")),
    ("fan-in 2 x 2 M", PRODUCERS_FAN_IN),
    ("fan-in 100 x 10 k", PRODUCERS_FAN_IN),
    (
        "fan-in 4 x 500 k, 1,000 places",
        Goal::NoWorseThan("crossbeam"),
    ),
    ("fan-in 4 x 500 k, 1,000 places", Goal::NoWorseThan("kanal")),
    ("ping-pong", Goal::AtMost(80.0)),
    ("ask", Goal::AtMost(150.0)),
    (
        "ask with a deadline",
        Goal::AtMostTimes {
            label: "ask",
            factor: 1.2,
        },
    ),
    ("bank transaction", Goal::NoWorseThan("kameo")),
    ("bank transaction", Goal::NoWorseThan("ractor")),
    ("1 k senders wait", Goal::AtMost(1_000.0)),
    ("10 k senders wait", Goal::AtMost(1_000.0)),
    ("100 k senders wait", Goal::AtMost(1_000.0)),
    ("1 M senders wait", Goal::AtMost(1_000.0)),
    ("ring of 1,000", Goal::AtMost(80.0)),
    ("spawn, run, end 1 M", Goal::AtMost(250.0)),
    ("spawn, run, end 1 M", Goal::NoWorseThan("tokio-mpsc")),
    ("spawn, run, end 1 M", Goal::NoWorseThan("beam")),
    ("idle 1 M, memory", Goal::AtMost(512.0)),
    ("backlog 1 M, drain", share_of("backlog 1 k, drain")),
    ("backlog 8 M, drain", share_of("backlog 1 k, drain")),
    ("backlog 1 k, fill", Goal::AtMost(FILL_NS_MAX)),
    ("backlog 64 k, fill", Goal::AtMost(FILL_NS_MAX)),
    ("backlog 1 M, fill", Goal::AtMost(FILL_NS_MAX)),
    ("backlog 8 M, fill", Goal::AtMost(FILL_NS_MAX)),
    ("direct, raw, deep / shallow", Goal::AtLeast(0.8)),
    ("direct, buffered, deep / shallow", Goal::AtLeast(0.8)),
    ("direct, buffered", Goal::AtMost(0.25)),
    ("dam, poll", QUEUE_WITHIN_LIMIT),
    ("dam, credit", QUEUE_WITHIN_LIMIT),
    ("longest / shortest", Goal::AtMost(1.1)),
    ("makespan / ideal", Goal::AtMost(1.05)),
    ("blocking", NO_SLOWER_THAN_LMAX),
    ("blocking", ONE_AND_A_HALF_LMAX),
    ("sleeping", NO_SLOWER_THAN_LMAX),
    ("sleeping", ONE_AND_A_HALF_LMAX),
    ("yielding", NO_SLOWER_THAN_LMAX),
    ("yielding", ONE_AND_A_HALF_LMAX),
    ("busy spin", NO_SLOWER_THAN_LMAX),
    ("busy spin", ONE_AND_A_HALF_LMAX),
    ("sleeping, multi-producer type", ONE_AND_A_HALF_LMAX),
    ("blocking, two priorities", NEAR_ONE_PRIORITY),
    ("sleeping, two priorities", NEAR_ONE_PRIORITY),
    ("yielding, two priorities", NEAR_ONE_PRIORITY),
    ("busy spin, two priorities", NEAR_ONE_PRIORITY),
    ("plain call, p99", Goal::AtMost(5_000.0)),
    ("plain call, just woken, p99", Goal::AtMost(500.0)),
    ("declared call, p99", Goal::AtMost(5_000.0)),
    ("declared call, just woken, p99", Goal::AtMost(5_000.0)),
    ("128 B, fresh", share_of_fio(0.9)),
    ("128 B, recycled", share_of_fio(0.9)),
    ("128 B, 100 a call, fresh", share_of_fio(0.9)),
    ("128 B, 100 a call, recycled", share_of_fio(0.9)),
    ("4 KiB, fresh", share_of_fio(0.9)),
    ("4 KiB, recycled", share_of_fio(0.9)),
    ("BLAKE3 by batch, fresh", share_of_fio(0.8)),
    ("BLAKE3 by batch, recycled", share_of_fio(0.8)),
    ("128 B durable, one stream", Goal::AtLeast(2e6)),
    ("sealing alone, HMAC-SHA256 by record", Goal::AtLeast(4e6)),
    ("ab, short connections", Goal::NoWorseThan("nginx")),
    ("wrk, kept connections", Goal::NoWorseThan("nginx")),
    (
        "ab, server's CPU",
        Goal::AtMostTimesPeer {
            peer: "nginx",
            factor: 0.9,
        },
    ),
    ("wrk, server's CPU", Goal::NoWorseThan("nginx")),
    ("1 task a worker, p99", Goal::AtMost(READY_US_MAX)),
    ("1 task a worker, p99", DEDICATED_IS_READY),
    ("8 tasks a worker, p99", Goal::AtMost(READY_US_MAX)),
    ("8 tasks a worker, p99", DEDICATED_IS_READY),
    ("echo", NEAR_HAPROXY),
    ("MariaDB", NEAR_HAPROXY),
    ("echo, proxy's CPU", NEAR_HAPROXY),
    ("MariaDB, proxy's CPU", NEAR_HAPROXY),
    ("GET, depth 1", NEAR_REDIS_BENCHMARK),
    ("GET, depth 16", NEAR_REDIS_BENCHMARK),
    ("GET, depth 128", NEAR_REDIS_BENCHMARK),
    ("GET of 64 B, depth 128", NEAR_REDIS_BENCHMARK),
    ("SET, depth 1", NEAR_REDIS_BENCHMARK),
    ("SET, depth 16", NEAR_REDIS_BENCHMARK),
    ("SET, depth 128", NEAR_REDIS_BENCHMARK),
    ("SET of 64 B, depth 128", NEAR_REDIS_BENCHMARK),
    ("GET, depth 128, client's CPU", CPU_OF_REDIS_BENCHMARK),
    (
        "GET of 64 B, depth 128, client's CPU",
        CPU_OF_REDIS_BENCHMARK,
    ),
    ("SET, depth 128, client's CPU", CPU_OF_REDIS_BENCHMARK),
    (
        "SET of 64 B, depth 128, client's CPU",
        CPU_OF_REDIS_BENCHMARK,
    ),
    ("stalled, memory grown", Goal::AtMost(STALLED_MIB_MAX)),
    ("wait, p99", Goal::AtMost(50.0)),
    ("lifetime, p99", Goal::AtMost(10.0)),
    ("the whole process' CPU", Goal::AtMost(50.0)),
    ("the whole process' memory", Goal::AtMost(200.0)),
    ("lost", Goal::AtMost(0.0)),
    (
        "on RabbitMQ",
        Goal::TimesPeer {
            peer: "bare-loop",
            factor: 0.85,
        },
    ),
    (
        "overload, from due to reply of those delivered once, p99",
        Goal::AtMost(100.0),
    ),
    ("overload, done / capacity", Goal::AtLeast(0.8)),
    ("overload, lost notifications", Goal::AtMost(0.0)),
    ("10 x, goodput / capacity", Goal::AtLeast(0.9)),
    ("TCP, cached", TWICE_RSYSLOG),
    ("TCP, cached", TWICE_SYSLOG_NG),
    ("TCP, durable", TWICE_RSYSLOG),
    ("TCP, durable", TWICE_SYSLOG_NG),
    ("Unix, cached", TWICE_RSYSLOG),
    ("Unix, cached", TWICE_SYSLOG_NG),
    ("Unix, durable", TWICE_RSYSLOG),
    ("Unix, durable", TWICE_SYSLOG_NG),
    ("TCP, cached, CPU", NO_MORE_THAN_RSYSLOG),
    ("TCP, cached, CPU", NO_MORE_THAN_SYSLOG_NG),
    ("TCP, durable, CPU", NO_MORE_THAN_RSYSLOG),
    ("TCP, durable, CPU", NO_MORE_THAN_SYSLOG_NG),
    ("Unix, durable, CPU", NO_MORE_THAN_RSYSLOG),
    ("Unix, durable, CPU", NO_MORE_THAN_SYSLOG_NG),
    ("at rest, durable, CPU", NO_MORE_THAN_RSYSLOG),
    ("at rest, durable, CPU", NO_MORE_THAN_SYSLOG_NG),
    ("TCP, cached, lost", Goal::AtMost(0.0)),
    ("TCP, durable, lost", Goal::AtMost(0.0)),
    ("Unix, cached, lost", Goal::AtMost(0.0)),
    ("Unix, durable, lost", Goal::AtMost(0.0)),
    ("HTTP, durable, lost", Goal::AtMost(0.0)),
    ("TCP by loggen, lost", Goal::AtMost(0.0)),
    ("at rest, UDP, lost", Goal::AtMost(0.0)),
    ("quiet client, to visible, p99", Goal::AtMost(10_000.0)),
    ("overload, TCP, lost", Goal::AtMost(0.0)),
    ("overload, Unix stream, lost", Goal::AtMost(0.0)),
    ("overload, Unix, lost", Goal::AtMost(0.0)),
    ("overload, HTTP, lost", Goal::AtMost(0.0)),
    ("asks, 1 outstanding", NEAR_ASYNC_NATS),
    ("asks, 64 outstanding", NEAR_ASYNC_NATS),
    ("tells of 64 B", Goal::AtLeast(1e6)),
    ("tells, lost", Goal::AtMost(0.0)),
    ("overload, lost without a word", Goal::AtMost(0.0)),
    ("overload, memory grown", Goal::AtMost(REMOTE_MIB_MAX)),
    ("10 k, 10/s, throughput", Goal::AtLeast(0.99)),
    ("10 k, 10/s, watcher's CPU", Goal::AtMost(1.0)),
    ("10 k, 1/s, throughput", Goal::AtLeast(0.99)),
    ("10 k, 1/s, watcher's CPU", Goal::AtMost(1.0)),
];

/// Memory of commands that wait for a stalled server: 4 connections have 10,000 of credit each.
const STALLED_MIB_MAX: f64 = 64.0;

/// Memory of messages for a slow receiver: 8,192 of 1 KiB may wait on each side, in buffers of twice their size.
const REMOTE_MIB_MAX: f64 = 32.0;

const NEAR_ASYNC_NATS: Goal = Goal::TimesPeer {
    peer: "async-nats",
    factor: 0.8,
};
const TWICE_RSYSLOG: Goal = Goal::TimesPeer {
    peer: "rsyslog",
    factor: 2.0,
};
const TWICE_SYSLOG_NG: Goal = Goal::TimesPeer {
    peer: "syslog-ng",
    factor: 2.0,
};
const NO_MORE_THAN_RSYSLOG: Goal = Goal::NoWorseThan("rsyslog");
const NO_MORE_THAN_SYSLOG_NG: Goal = Goal::NoWorseThan("syslog-ng");
const NEAR_REDIS_BENCHMARK: Goal = Goal::TimesPeer {
    peer: "redis-benchmark",
    factor: 0.9,
};
const CPU_OF_REDIS_BENCHMARK: Goal = Goal::AtMostTimesPeer {
    peer: "redis-benchmark",
    factor: 1.2,
};

/// Filling a backlog, for each message.
const FILL_NS_MAX: f64 = 30.0;

/// From sending a message to its handler's run.
const READY_US_MAX: f64 = 2_000.0;

const PRODUCERS_FAN_IN: Goal = Goal::PeerAtMost {
    peer: "freeboard-producer",
    limit: 20.0,
};

const DEDICATED_IS_READY: Goal = Goal::PeerAtMost {
    peer: "freeboard-dedicated",
    limit: READY_US_MAX,
};

const NEAR_HAPROXY: Goal = Goal::Within {
    percent: 10.0,
    peer: "haproxy",
};

const NO_SLOWER_THAN_LMAX: Goal = Goal::NoWorseThan("lmax");
const ONE_AND_A_HALF_LMAX: Goal = Goal::TimesPeer {
    peer: "lmax",
    factor: 1.5,
};

/// This share of the bytes that fio writes in the same way.
const fn share_of_fio(factor: f64) -> Goal {
    Goal::TimesPeer {
        peer: "fio",
        factor,
    }
}

const QUEUE_WITHIN_LIMIT: Goal = Goal::FieldWithin {
    field: "peak_server_queue",
    limit_field: "server_queue_limit",
};

/// 90 % of the rate of one lane of the same mailbox. The plain works use a ring of their own, which has no priorities.
const NEAR_ONE_PRIORITY: Goal = Goal::ShareOfRate {
    label: "sleeping, multi-producer type",
    share: 0.9,
};

/// 80 % of the rate of another figure.
const fn share_of(label: &'static str) -> Goal {
    Goal::ShareOfRate { label, share: 0.8 }
}

/// Whether a goal was reached in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// A figure that it needs is not there.
    Open,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Open => "open",
        })
    }
}

/// The goals of a figure; empty if it has none.
pub(crate) fn of(figure: &Figure) -> Vec<Goal> {
    GOALS
        .iter()
        .filter(|(label, _)| *label == figure.label)
        .map(|(_, goal)| *goal)
        .collect()
}

impl Goal {
    /// Judges the goal by the medians of a run.
    pub(crate) fn judge(&self, figure: &Figure, figures: &[Figure], results: &Results) -> Verdict {
        self.is_met(figure, figures, results)
            .map_or(Verdict::Open, |met| {
                if met { Verdict::Met } else { Verdict::Missed }
            })
    }

    /// The label of the other figure of ours that it needs.
    pub(crate) fn other_label(&self) -> Option<&'static str> {
        match self {
            Self::ShareOfRate { label, .. } | Self::AtMostTimes { label, .. } => Some(label),
            _ => None,
        }
    }

    fn other_median(&self, figures: &[Figure], results: &Results) -> Option<f64> {
        let label = self.other_label()?;
        let other = figures.iter().find(|other| other.label == label)?;
        results.median(OURS, other)
    }

    /// Whose figure it judges.
    fn judged(&self) -> &'static str {
        match self {
            Self::PeerAtMost { peer, .. } => peer,
            _ => OURS,
        }
    }

    fn is_met(&self, figure: &Figure, figures: &[Figure], results: &Results) -> Option<bool> {
        let ours = results.median(self.judged(), figure)?;
        let times_better = |other: f64| figure.times_better(ours, other);
        Some(match self {
            Self::AtMost(limit) | Self::PeerAtMost { limit, .. } => ours <= *limit,
            Self::AtLeast(limit) => ours >= *limit,
            Self::TimesBestCrate(factor) => {
                let (_, best) = results.best(figure, |kind| kind == Kind::ActorCrate)?;
                times_better(best)? >= *factor
            }
            Self::TimesPeer { peer, factor } => {
                times_better(results.median(peer, figure)?)? >= *factor
            }
            Self::NoWorseThan(name) => times_better(results.median(name, figure)?)? >= 1.0,
            Self::AtMostTimesPeer { peer, factor } => {
                ours <= results.median(peer, figure)? * factor
            }
            Self::AtMostTimes { factor, .. } => {
                ours <= self.other_median(figures, results)? * factor
            }
            Self::Within { percent, peer } => {
                let other = results.median(peer, figure)?;
                let margin = other * percent / 100.0;
                match figure.better {
                    Better::Lower => ours <= other + margin,
                    Better::Higher => ours >= other - margin,
                }
            }
            Self::ShareOfRate { share, .. } => {
                times_better(self.other_median(figures, results)?)? >= *share
            }
            Self::FieldWithin { field, limit_field } => {
                let runs = results.fields(OURS, figure.work);
                let within = |fields: &Value| {
                    Some(fields[*field].as_f64()? <= fields[*limit_field].as_f64()?)
                };
                let verdicts: Option<Vec<bool>> =
                    runs.iter().map(|fields| within(fields)).collect();
                verdicts?.into_iter().all(|is_within| is_within)
            }
        })
    }

    /// The goal as a table shows it.
    pub(crate) fn text(&self, unit: &str) -> String {
        match self {
            Self::AtMost(limit) if unit == "ratio" => format!("<= {limit}"),
            Self::AtMost(limit) => format!("<= {limit} {unit}"),
            Self::PeerAtMost { peer, limit } => format!("{peer} <= {limit} {unit}"),
            Self::AtLeast(limit) if unit == "ratio" => format!(">= {limit}"),
            Self::AtLeast(limit) => format!(">= {limit} {unit}"),
            Self::TimesBestCrate(factor) => format!(">= {factor} x the best actor crate"),
            Self::TimesPeer { peer, factor } => format!(">= {factor} x {peer}"),
            Self::NoWorseThan(name) => format!("no slower than {name}"),
            Self::AtMostTimesPeer { peer, factor } => format!("<= {factor} x {peer}"),
            Self::AtMostTimes { label, factor } => format!("<= {factor} x {label}"),
            Self::Within { percent, peer } => format!("within {percent} % of {peer}"),
            Self::ShareOfRate { label, share } => format!("rate >= {share} x that of {label}"),
            Self::FieldWithin { .. } => "server queue never above its limit".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::super::suite::{HTTP, MESSAGING, PROXY, READINESS, RING, SUITES, Suite};
    use super::*;
    use serde_json::json;

    /// A run in which each peer has these fields in one work.
    fn run<'a>(work: &str, fields: impl IntoIterator<Item = (&'a str, Value)>) -> Results {
        let mut results = Results::default();
        for (peer, fields) in fields {
            results.add(peer, work, Outcome::Measured(fields));
        }
        results
    }

    fn fan_in(figures: &[(&'static str, f64)]) -> Results {
        let fields = |ns: f64| json!({"count": 1_000_000_000_u64, "seconds": ns});
        run(
            "fanin_2x2m",
            figures.iter().map(|&(peer, ns)| (peer, fields(ns))),
        )
    }

    /// The verdicts on all goals of a figure.
    fn verdicts(suite: &Suite, label: &str, run: &Results) -> Vec<Verdict> {
        let figure = suite.figures.iter().find(|figure| figure.label == label);
        let figure = figure.expect("the suite has it");
        let goals = of(figure).into_iter();
        goals
            .map(|goal| goal.judge(figure, suite.figures, run))
            .collect()
    }

    #[test]
    fn every_goal_names_a_figure_and_known_peers() {
        for (label, goal) in GOALS {
            let has_label = |suite: &Suite, label: &str| {
                suite.figures.iter().any(|figure| figure.label == label)
            };
            let suite = SUITES
                .iter()
                .find(|suite| has_label(suite, label))
                .unwrap_or_else(|| panic!("no suite has {label}"));
            match goal {
                Goal::NoWorseThan(peer)
                | Goal::TimesPeer { peer, .. }
                | Goal::AtMostTimesPeer { peer, .. }
                | Goal::PeerAtMost { peer, .. }
                | Goal::Within { peer, .. } => {
                    assert!(suite.peers.contains(peer), "{label} names {peer}");
                }
                _ => {}
            }
            if let Some(other) = goal.other_label() {
                assert!(has_label(suite, other), "{label} names {other}");
            }
        }
    }

    #[test]
    fn goals_are_judged_within_one_run() {
        let run = fan_in(&[
            (OURS, 20.0),
            ("actix", 170.0),
            ("ractor", 400.0),
            ("crossbeam", 19.0),
            ("freeboard-producer", 20.5),
        ]);
        let wanted = [
            Verdict::Met,
            Verdict::Met,
            Verdict::Missed,
            Verdict::Open,
            Verdict::Missed,
        ];
        assert_eq!(verdicts(&MESSAGING, "fan-in 2 x 2 M", &run), wanted);
    }

    #[test]
    fn a_limit_may_be_a_multiple_of_a_peer_or_of_another_figure() {
        let times = |ask: f64, deadline: f64| {
            let each =
                |ns: f64| Outcome::Measured(json!({"count": 1_000_000_000_u64, "seconds": ns}));
            let mut run = Results::default();
            run.add(OURS, "ask", each(ask));
            run.add(OURS, "ask_deadline", each(deadline));
            verdicts(&MESSAGING, "ask with a deadline", &run)[0]
        };
        assert_eq!(times(200.0, 240.0), Verdict::Met);
        assert_eq!(times(200.0, 241.0), Verdict::Missed);
        let cpu = |ours: f64| {
            let fields = [(OURS, ours), ("nginx", 30.0)];
            let fields = fields.map(|(peer, us)| (peer, json!({"cpu_us": us})));
            verdicts(&HTTP, "ab, server's CPU", &run("http_short", fields))[0]
        };
        assert_eq!(cpu(27.0), Verdict::Met);
        assert_eq!(cpu(27.1), Verdict::Missed);
    }

    #[test]
    fn rates_are_judged_against_the_named_peer_and_against_one_priority() {
        let rates = [(OURS, 24e6), ("lmax", 17e6), ("crossbeam", 90e6)];
        let rates = rates.map(|(peer, rate)| (peer, json!({"qps": rate})));
        let mut run = run("ring_sleeping", rates);
        let one_lane = Outcome::Measured(json!({"qps": 20e6}));
        run.add(OURS, "ring_multi", one_lane);
        let two_priorities = Outcome::Measured(json!({"qps": 18e6}));
        run.add(OURS, "ring_sleeping_2p", two_priorities);
        let judge = |label: &str| verdicts(&RING, label, &run);
        assert_eq!(judge("sleeping"), [Verdict::Met, Verdict::Missed]);
        assert_eq!(judge("sleeping, two priorities"), [Verdict::Met]);
        assert_eq!(judge("blocking"), [Verdict::Open, Verdict::Open]);
    }

    #[test]
    fn a_goal_of_another_setting_judges_that_one() {
        let times = [(OURS, 1_900.0), ("freeboard-dedicated", 2_100.0)];
        let times = times.map(|(peer, us)| (peer, json!({"p99_us": us})));
        let run = run("readiness_1", times);
        let wanted = [Verdict::Met, Verdict::Missed];
        assert_eq!(verdicts(&READINESS, "1 task a worker, p99", &run), wanted);
    }

    #[test]
    fn within_some_percent_is_worse_by_no_more_in_either_sense() {
        let verdict = |label: &str, ours: f64, other: f64| {
            let values = [(OURS, ours), ("haproxy", other)];
            let values = values.map(|(peer, it)| (peer, json!({"qps": it, "cpu_us": it})));
            verdicts(&PROXY, label, &run("proxy_echo", values))[0]
        };
        assert_eq!(verdict("echo", 91.0, 100.0), Verdict::Met);
        assert_eq!(verdict("echo", 89.0, 100.0), Verdict::Missed);
        assert_eq!(verdict("echo, proxy's CPU", 109.0, 100.0), Verdict::Met);
        assert_eq!(verdict("echo, proxy's CPU", 111.0, 100.0), Verdict::Missed);
    }

    #[test]
    fn without_our_own_figure_a_goal_stays_open() {
        let run = fan_in(&[("actix", 170.0)]);
        let figure = &MESSAGING.figures[0];
        let verdict = Goal::AtMost(25.0).judge(figure, MESSAGING.figures, &run);
        assert_eq!(verdict, Verdict::Open);
    }
}
