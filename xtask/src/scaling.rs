//! `cargo xtask scaling`: how far each workload scales, computed from the cache lines that its operations share.
//!
//! ```text
//!   N workers ──▶ own work, in parallel ──▶ shared line or lock ──▶ next one ──┐
//!       ▲                                   (one worker at a time)             │
//!       └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A closed queueing network: each worker repeats one operation. A *station* is a cache line, a lock or a thread that
//! serves one operation at a time. The table has the asymptotic bounds of the utilisation law and the exact mean value
//! analysis (Reiser and Lavenberg, 1980). docs/scaling.md explains where the figures come from.

use anyhow::Result;
use comfy_table::{Table, presets::ASCII_MARKDOWN};

/// Transfer of a modified cache line between two cores, within a socket and across two. From the medians of
/// core-to-core-latency for the Xeon Platinum 8375C: 51 and 108 ns.
const WITHIN_SOCKET_NS: f64 = 51.0;
const ACROSS_SOCKETS_NS: f64 = 108.0;

/// From here on a machine has two sockets (assumption), and half of the transfers cross.
const CORES_PER_SOCKET: usize = 64;

const CORES: [usize; 3] = [8, 32, 128];

/// What serves one operation at a time.
#[derive(Clone, Copy)]
struct Station {
    name: &'static str,
    /// An operation uses one of them.
    copies: usize,
    /// Cache lines that come from another core, per operation.
    lines: f64,
    /// Time besides the transfers.
    held_ns: f64,
}

const fn one(name: &'static str, lines: f64, held_ns: f64) -> Station {
    Station {
        name,
        copies: 1,
        lines,
        held_ns,
    }
}

struct Workload {
    name: &'static str,
    /// The work of an operation that no other worker waits for.
    own_ns: f64,
    /// Lines that come from another core in that work.
    own_lines: f64,
    /// The same for each core of the machine: scans of all run queues.
    own_lines_per_core: f64,
    stations: &'static [Station],
}

const fn workload(name: &'static str, own_ns: f64, stations: &'static [Station]) -> Workload {
    Workload {
        name,
        own_ns,
        own_lines: 0.0,
        own_lines_per_core: 0.0,
        stations,
    }
}

const fn with_lines(mut workload: Workload, own_lines: f64) -> Workload {
    workload.own_lines = own_lines;
    workload
}

const REGISTRY_SHARD: Station = Station {
    name: "registry shard",
    copies: 16,
    lines: 4.0,
    held_ns: 80.0,
};
const SYSTEM_COUNT: Station = one("reference count of the system", 2.0, 10.0);
const ACTOR_ID: Station = one("actor id", 1.0, 5.0);
const DEPOT: Station = one("depot of cells", 1.0, 10.0);
const EPOLL: Station = one("the one epoll", 4.0, 130.0);
/// A push (lock, last task) for each run of 64 messages, and a pop (lock, first task) for each eighth.
const INJECTOR: Station = one("injector", 2.25 / 64.0, 20.0 / 64.0);

/// Measured times are those of docs/measurements. Counts of lines are those of docs/scaling.md.
const WORKLOADS: &[Workload] = &[
    workload("ping-pong in pairs", 48.5, &[]),
    with_lines(
        workload(
            "fan-in to one actor",
            40.0,
            &[
                one("tail of the lane", 1.0, 5.0),
                one("the receiver", 0.0, 30.0),
            ],
        ),
        1.0,
    ),
    // Messages of 8 bytes.
    workload(
        "fan-in by a producer each",
        5.0,
        &[one("the receiver", 0.125, 9.0)],
    ),
    workload("ask with a deadline", 235.0, &[]),
    with_lines(
        workload(
            "short requests on 100,000 sockets, before",
            7_030.0,
            &[
                EPOLL,
                one("counters of the poller", 2.0, 10.0),
                one("its histogram", 1.0, 10.0),
            ],
        ),
        5.0,
    ),
    with_lines(
        workload("short requests on 100,000 sockets", 7_030.0, &[EPOLL]),
        4.0,
    ),
    workload("timers set and cancelled", 111.0, &[]),
    workload(
        "timers that fire",
        150.0,
        &[one("the timer thread", 5.0, 150.0)],
    ),
    workload(
        "spawn, run, end, before",
        1_000.0,
        &[
            SYSTEM_COUNT,
            ACTOR_ID,
            REGISTRY_SHARD,
            DEPOT,
            one("count of the ended", 1.0, 5.0),
        ],
    ),
    workload(
        "spawn, run, end",
        1_000.0,
        &[SYSTEM_COUNT, ACTOR_ID, REGISTRY_SHARD, DEPOT],
    ),
    workload(
        "message shed, before",
        59.0,
        &[one("count of dead letters", 1.0, 5.0)],
    ),
    workload("message shed", 59.0, &[]),
    workload("backlogs of tiny messages", 50.0, &[INJECTOR]),
    workload("backlogs of messages of 1 us", 1_000.0, &[INJECTOR]),
    Workload {
        own_lines_per_core: 3.0,
        ..workload(
            "a wake-up for each message",
            4_400.0,
            &[one("list of sleepers", 4.0, 60.0)],
        )
    },
];

/// The mean time of a transfer on a machine with so many cores.
fn transfer_ns(cores: usize) -> f64 {
    if cores > CORES_PER_SOCKET {
        f64::midpoint(WITHIN_SOCKET_NS, ACROSS_SOCKETS_NS)
    } else {
        WITHIN_SOCKET_NS
    }
}

/// A station on a machine.
struct Demand {
    name: &'static str,
    copies: usize,
    /// At one copy, per operation.
    demand_ns: f64,
}

/// The results for a workload on a machine. Rates in operations per second.
struct Outcome {
    /// If no worker ever waited.
    #[cfg(test)]
    parallel_max: f64,
    /// If the bottleneck never idled.
    bottleneck_max: f64,
    throughput: f64,
    bottleneck: Option<&'static str>,
    utilisation: f64,
    /// Cores at which the two bounds meet.
    knee: f64,
    /// The throughput relative to that of as many machines of one core.
    efficiency: f64,
}

fn demands(workload: &Workload, cores: usize) -> Vec<Demand> {
    let of = |station: &Station| {
        let service_ns = station.lines * transfer_ns(cores) + station.held_ns;
        Demand {
            name: station.name,
            copies: station.copies,
            demand_ns: service_ns / station.copies as f64,
        }
    };
    workload.stations.iter().map(of).collect()
}

/// Exact mean value analysis: operations per nanosecond of `workers`, each with `own_ns` of own work per operation.
fn mean_value_analysis(own_ns: f64, demands: &[Demand], workers: usize) -> f64 {
    let mut queues = vec![0.0; demands.len()];
    let mut rate = 0.0;
    for population in 1..=workers {
        let residence = |(demand, queue): (&Demand, &f64)| demand.demand_ns * (1.0 + queue);
        let residences: Vec<f64> = demands.iter().zip(&queues).map(residence).collect();
        let copies = demands.iter().map(|demand| demand.copies as f64);
        let waits: f64 = residences
            .iter()
            .zip(copies)
            .map(|(each, copies)| each * copies)
            .sum();
        rate = population as f64 / (own_ns + waits);
        queues = residences
            .iter()
            .map(|residence| rate * residence)
            .collect();
    }
    rate
}

fn outcome(workload: &Workload, cores: usize) -> Outcome {
    let lines = workload.own_lines + workload.own_lines_per_core * cores as f64;
    let own_ns = workload.own_ns + lines * transfer_ns(cores);
    let demands = demands(workload, cores);
    let total_ns = demands
        .iter()
        .fold(own_ns, |sum, it| sum + it.demand_ns * it.copies as f64);
    let alone_ns = workload
        .stations
        .iter()
        .fold(workload.own_ns, |sum, it| sum + it.held_ns);
    let slowest = demands
        .iter()
        .max_by(|a, b| a.demand_ns.total_cmp(&b.demand_ns));
    let slowest_ns = slowest.map_or(0.0, |it| it.demand_ns);
    let rate = mean_value_analysis(own_ns, &demands, cores);
    Outcome {
        #[cfg(test)]
        parallel_max: cores as f64 / total_ns * 1e9,
        bottleneck_max: 1e9 / slowest_ns,
        throughput: rate * 1e9,
        bottleneck: slowest.map(|it| it.name),
        utilisation: rate * slowest_ns,
        knee: total_ns / slowest_ns,
        efficiency: rate * alone_ns / cores as f64,
    }
}

/// Share of one core that a thread of the runtime takes: the monitor reads five lines of each worker each millisecond; the
/// timer thread reads a time of each core's shard whenever the first timer of any shard is due, at least 5 us a wake-up.
fn monitor_share(cores: usize) -> f64 {
    cores as f64 * 5.0 * transfer_ns(cores) / 1e6
}

/// With asks on each core that all set and cancel timers of `deadline_ns`. Wake-ups that come during a scan are served by it.
fn timer_thread_share(cores: usize, deadline_ns: f64) -> f64 {
    let scan_ns = cores as f64 * transfer_ns(cores) + 5_000.0;
    let wakes_per_ns = cores as f64 / deadline_ns;
    wakes_per_ns * scan_ns / (1.0 + wakes_per_ns * scan_ns)
}

fn workload_table() -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header([
        "workload",
        "8 cores, M/s",
        "32 cores, M/s",
        "128 cores, M/s",
        "first bottleneck",
        "its limit at 128, M/s",
        "busy at 8, 32, 128",
        "knee, cores",
    ]);
    for workload in WORKLOADS {
        let outcomes = CORES.map(|cores| outcome(workload, cores));
        let [_, _, large] = &outcomes;
        let is_shared = large.bottleneck.is_some();
        let only_shared = |text: String| if is_shared { text } else { "-".to_owned() };
        let rate = |it: &Outcome| {
            let percent = 100.0 * it.efficiency;
            format!("{:.2} ({percent:.0} %)", it.throughput / 1e6)
        };
        let busy = |it: &Outcome| format!("{:.0}", 100.0 * it.utilisation);
        let rates: Vec<String> = outcomes.iter().map(rate).collect();
        let busy: Vec<String> = outcomes.iter().map(busy).collect();
        let last = [
            large.bottleneck.unwrap_or("none").to_owned(),
            only_shared(format!("{:.2}", large.bottleneck_max / 1e6)),
            only_shared(format!("{} %", busy.join(", "))),
            only_shared(format!("{:.0}", large.knee)),
        ];
        table.add_row([vec![workload.name.to_owned()], rates, last.to_vec()].concat());
    }
    table
}

fn thread_table() -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header([
        "thread, share of one core",
        "8 cores",
        "32 cores",
        "128 cores",
    ]);
    let mut row = |name: &str, share: &dyn Fn(usize) -> f64| {
        let shares = CORES.map(|cores| format!("{:.1} %", 100.0 * share(cores)));
        table.add_row([vec![name.to_owned()], shares.to_vec()].concat());
    };
    row("monitor", &monitor_share);
    row("timer thread, deadlines of 1 s", &|cores| {
        timer_thread_share(cores, 1e9)
    });
    row("timer thread, deadlines of 10 ms", &|cores| {
        timer_thread_share(cores, 1e7)
    });
    row("timer thread, deadlines of 1 ms", &|cores| {
        timer_thread_share(cores, 1e6)
    });
    table
}

pub(crate) fn run() -> Result<()> {
    println!("{}\n\n{}", workload_table(), thread_table());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(copies: usize, demand_ns: f64) -> Vec<Demand> {
        vec![Demand {
            name: "line",
            copies,
            demand_ns,
        }]
    }

    #[test]
    fn one_worker_never_waits() {
        let rate = mean_value_analysis(90.0, &single(1, 10.0), 1);
        assert!((rate - 0.01).abs() < 1e-12, "{rate}");
    }

    /// The machine repairman model has a closed form: with no own work the station never idles.
    #[test]
    fn a_station_without_own_work_is_always_busy() {
        let rate = mean_value_analysis(0.0, &single(1, 20.0), 7);
        assert!((rate - 0.05).abs() < 1e-12, "{rate}");
    }

    #[test]
    fn two_workers_meet_as_the_balance_equations_say() {
        // States by the number at the station: p0 : p1 : p2 = 1 : 2 : 2, so it is busy for 4/5 of the time.
        let rate = mean_value_analysis(10.0, &single(1, 10.0), 2);
        assert!((rate - 0.08).abs() < 1e-12, "{rate}");
    }

    #[test]
    fn no_workload_passes_its_bounds() {
        for workload in WORKLOADS {
            for cores in CORES {
                let outcome = outcome(workload, cores);
                let bound = outcome.parallel_max.min(outcome.bottleneck_max);
                assert!(
                    outcome.throughput <= bound * 1.000_001,
                    "{} on {cores}",
                    workload.name
                );
                assert!(
                    outcome.efficiency <= 1.000_001,
                    "{} on {cores}",
                    workload.name
                );
            }
        }
    }

    /// The page has the tables that this program prints.
    #[test]
    fn the_page_has_these_tables() {
        let root = crate::workspace::root().expect("the workspace");
        let page = std::fs::read_to_string(root.join("docs/scaling.md")).expect("the page");
        for table in [workload_table(), thread_table()] {
            assert!(
                page.contains(&table.to_string()),
                "run `cargo xtask scaling` and copy:\n{table}"
            );
        }
    }
}
