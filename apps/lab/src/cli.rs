//! The command line.

use clap::{Parser, Subcommand};

#[cfg(unix)]
use crate::cluster::{ClusterArgs, ClusterNodeArgs};
use crate::{
    balance::BalanceArgs,
    board::{BoardArgs, DemonstrationArgs},
    eager::EagerArgs,
    fetch::{FetchArgs, FetchLoadArgs},
    flood::FloodArgs,
    goodput::GoodputArgs,
    load::{EchoArgs, LoadArgs},
    logs::LogsArgs,
    report::AllArgs,
    ring::RingArgs,
    serve::{FetcherArgs, LogdArgs, ProxyArgs, ServeHttpArgs},
    stream::Tool,
    streams::StreamsArgs,
    top::TopArgs,
};

const EXAMPLES: &str = "\
Examples:
  freeboard                             all scenes and their report (under three minutes)
  freeboard lab all --only flood,fetch  some of them
  freeboard lab flood                   one scene: the flood, four ways, compared (about 20 s)
  freeboard lab flood --help            its knobs
  freeboard lab goodput                 ten times too many requests, and the answers in time (about 45 s)
  freeboard lab fetch                   a fetcher, tuned in eleven steps (under three minutes)
  freeboard fetcher --load 500          the fetcher by itself, with nothing installed
  freeboard lab balance                 a fair scheduler at work (about 20 s)
  freeboard lab flood --dam credit:512  one run, through a dam with a window of 512
  freeboard top                         what a board shows, in this terminal
  freeboard stream append LOG < lines   a durable stream out of standard input
  freeboard stream verify LOG           whether it is what was written";

/// Freeboard's laboratory: overload failures, and the cure beside each.
///
/// Without a command it runs all scenes, as lab all does, and writes freeboard-report/index.html.
#[derive(Debug, Parser)]
#[command(name = "freeboard", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) board: BoardArgs,
}

/// What it can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a scene of the laboratory
    #[command(subcommand)]
    Lab(Scene),

    /// Writes, reads, checks and saves sealed streams
    #[command(subcommand)]
    Stream(Tool),

    /// Shows a system of its own on the board, until Ctrl-C
    ///
    /// Most of what the board can show happens there by itself: floods, shedding, blocking calls, panics, a
    /// hot key, a stream, a cache on Redis. To look at anything else, give it --board.
    #[command(after_help = BOARD_EXAMPLES)]
    Board(DemonstrationArgs),

    /// Serves a page over HTTP/1.1 until Ctrl-C
    #[command(after_help = SERVE_HTTP_EXAMPLES)]
    ServeHttp(ServeHttpArgs),

    /// Asks a server, for the scenes
    #[command(hide = true)]
    Load(LoadArgs),

    /// Sends notifications to a fetcher, for the scene fetch
    #[command(hide = true)]
    FetchLoad(FetchLoadArgs),

    /// Sends back what it gets, for the scenes
    #[command(hide = true)]
    Echo(EchoArgs),

    /// Keeps devices, for the scene cluster
    #[cfg(unix)]
    #[command(hide = true)]
    ClusterNode(Box<ClusterNodeArgs>),

    /// Carries TCP connections on to another address until Ctrl-C
    #[command(after_help = PROXY_EXAMPLES)]
    Proxy(ProxyArgs),

    /// Fetches what push notifications need, until Ctrl-C
    ///
    /// Notifications are JSON: {"id": 7, "user": "ada", "app": "chess", "payload": "your move"}, in the queues
    /// NAME.priority0 and NAME.priority1. Replies go to NAME.replies, what cannot be done to NAME.dead, with the
    /// reason in a header.
    #[command(after_help = FETCHER_EXAMPLES)]
    Fetcher(Box<FetcherArgs>),

    /// Takes log lines from many clients into a stream, until Ctrl-C
    ///
    /// Lines of severity error or above pass warnings, these pass notices and informational lines, and these pass debug
    /// lines. A client whose lines the disk cannot take yet is not read until it can.
    #[command(after_help = LOGD_EXAMPLES)]
    Logd(Box<LogdArgs>),

    /// Prints lines of a log server's stream, or of log files: by time, severity, host and pattern
    ///
    /// The stream is checked while it is read. Where it is damaged, a mark is printed in place of the missing lines. Times
    /// are local, and those of the receipt. Lines are in the order in which they were written. Lines that were being
    /// written when the printing began may be left out.
    #[command(after_help = LOGS_EXAMPLES)]
    Logs(Box<LogsArgs>),

    /// Runs worlds in which time, order, network, disks and faults come from one seed
    #[cfg(feature = "sim")]
    #[command(subcommand, after_help = crate::sim::EXAMPLES)]
    Sim(crate::sim::Sim),

    /// Shows a board in this terminal: workers, actors, streams, I/O, Redis, caches
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
}

const FETCHER_EXAMPLES: &str = "\
Examples:
  freeboard fetcher --load 500
      all of it in this process, with notifications of its own. The cache is empty at first, and the slow
      store gives 640 keys a second: a larger load waits until most users are cached
  freeboard fetcher --amqp amqp://guest:guest@127.0.0.1:5672 --redis redis://127.0.0.1 \\
                    --mysql mysql://root@127.0.0.1:3306
      on real servers; start several to share the load
  freeboard fetcher --store http://127.0.0.1:8000/keys --load 500
      keys that are not cached come from GET http://127.0.0.1:8000/keys/KEY
  curl http://127.0.0.1:8090/metrics; curl http://127.0.0.1:8090/healthz

Exit codes: 0 drained; 1 notifications were cut off after 10 s, and come again to others; 2 bad usage, a RabbitMQ
or MariaDB that cannot be reached, or the port is in use. A Redis may come later: until then /healthz says so.";

const LOGD_EXAMPLES: &str = "\
Examples:
  freeboard logd LOG --tcp 127.0.0.1:1514
  logger -n 127.0.0.1 -P 1514 -T 'hello from logger'
      a line; with -p user.err a more urgent one
  freeboard logd LOG --tcp 0.0.0.0:514 --normal coalesce --debug sample:100
      repeated lines are counted; of debug lines that the disk cannot take, one of 100 is kept
  freeboard logd LOG --tcp 127.0.0.1:1514 --key-file ~/log.key
      sealed: a later change of the log is found
  freeboard logd LOG --tcp 127.0.0.1:1514 --file all.log --file-rotate daily --status 127.0.0.1:9514
      into a file, too; curl http://127.0.0.1:9514/healthz says how it is
  freeboard logd --config /etc/freeboard/logd.toml --check
      says `configuration ok`, or where the mistake is. Without --check it runs; SIGHUP reloads the file

Exit codes: 0 all accepted lines are durable; 1 some were cut off after 10 s; 2 bad usage, the address is in use, or
another process has the stream open. With --check: 0 or 2.";

const LOGS_EXAMPLES: &str = "\
Examples:
  freeboard logs LOG --since -1h --severity warning
      what was received in the last hour, and is a warning or more urgent
  freeboard logs LOG --since '2026-11-23 10:00' --until '2026-11-23 10:05' --host web-1 --grep 'timeout|refused'
  freeboard logs LOG --follow --source tcp:10.0.0.7
      the last 10 lines, and those that come
  freeboard logs LOG --key-file ~/log.key -n 100
      the last 100 lines, with their seals checked
  freeboard logs LOG --since yesterday --json | jq -r 'select(.application == \"sshd\") | .message'
  freeboard logs /var/log/syslog --since -3h --grep oom
      a log file and its rotated files: syslog.1, syslog.2.gz

A line of a file that has no priority counts as a notice.

Exit codes: 0 printed; 1 the log is damaged (the marks say where), or reading failed; 2 bad usage, no log, or the wrong
key; 130 Ctrl-C, 143 SIGTERM.";

const BOARD_EXAMPLES: &str = "\
Examples:
  freeboard board
      then open http://127.0.0.1:7700 in a browser
  freeboard board --actors 100000 --rate 200000
  freeboard lab flood --board
      the scene's own system, while it runs; so with all scenes and services
  FREEBOARD_TOKEN=$(openssl rand -hex 16) freeboard board --listen 0.0.0.0:7700
      for others too: they open http://HOST:7700/?token=TOKEN once
  curl 'http://127.0.0.1:7700/api/frame?sort=in&limit=5' | jq '.system.actors.rows[].name'
  curl http://127.0.0.1:7700/metrics

Exit codes: 0 done; 2 bad usage, or the port is in use.";

const TOP_EXAMPLES: &str = "\
Examples:
  freeboard top
      the board on this machine, at port 7700; ? shows the keys
  freeboard top http://127.0.0.1:7701 --sort queue_p99 --filter 'type:LogServer depth>0'
  freeboard top http://10.0.0.7:7700 --token-file ~/board.token
      a board that wants a token
  freeboard top --once | head -20
      one frame as text
  freeboard top --json | jq '.system.actors.rows[] | [.name, .depth, .shed]'
      one frame as JSON

Without colours if NO_COLOR is set. Exit codes: 0 shown; 1 no frame came, or the terminal went away; 2 bad usage:
no terminal, a filter or token that the board refused; 130 SIGINT.";

const SERVE_HTTP_EXAMPLES: &str = "\
Examples:
  freeboard serve-http
      http://127.0.0.1:8080/ answers, /metrics has the gauges
  freeboard serve-http --listen 127.0.0.1:0 --poll dedicated --cpu-us 100
  ab -c 60 -n 100000 http://127.0.0.1:8080/

Exit codes: 0 drained; 1 connections were cut off after 10 s; 2 bad usage, or the port is in use.";

const PROXY_EXAMPLES: &str = "\
Examples:
  freeboard proxy --to 127.0.0.1:3306
      127.0.0.1:13306 is MariaDB, too
  freeboard proxy --listen 127.0.0.1:6380 --to localhost:6379 --metrics 127.0.0.1:9000
  mysql --host 127.0.0.1 --port 13306

Exit codes: 0 drained; 1 connections were cut off after 10 s; 2 bad usage, or the port is in use.";

const ALL_EXAMPLES: &str = "\
Examples:
  freeboard lab all
      all scenes in less than three minutes on two cores, and freeboard-report/index.html
  freeboard lab all --only streams,fetch --report /tmp/report
      two of them
  freeboard lab all --skip eager --json - | jq '.endings[] | [.scene, .ok, .seconds]'
      prints only JSON; the page is written all the same

A scene that fails does not stop the others; its section says what failed. After Ctrl-C the report has what
was finished.

Exit codes: 0 done; 1 a scene failed; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

const GOODPUT_EXAMPLES: &str = "\
Examples:
  freeboard lab goodput
      all mailboxes under all loads, and a table that compares them (about 30 s)
  freeboard lab goodput --side unbounded --factor 2 --time 3 --recovery 10
      the collapse alone, and how long it lasts after the load
  freeboard lab goodput --side bounded --bound 125
      a bound that is shorter than the deadline helps too
  freeboard lab goodput --cpu-us 2000 --deadline-ms 500 --time 3
      longer requests
  freeboard lab goodput --json - | jq -r '.runs[] | [.side, .factor, .goodput_per_s, .p99_ms] | @tsv'
      prints only JSON

The load is an open loop: each request is due at its own time, a seeded Poisson process, and its latency counts from
then. Clients run in one thread and the service in another, so two cores are needed for meaningful rates. The
capacity is measured first: the answers a second of one core when more is asked for than it can answer.

Exit codes: 0 done; 1 the run failed, or a request was lost; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

#[cfg(unix)]
const CLUSTER_EXAMPLES: &str = "\
Examples:
  freeboard lab cluster
      one process, then three, under the same faults (about 70 s)
  freeboard lab cluster --nodes 3 --ttl 3 --fault 10
      longer leases: others take over later
  freeboard lab cluster --nodes 3 --rounds 30
      90 faults
  freeboard lab cluster --nodes 2,4 --devices 20000 --rate 5000
      other numbers of processes
  freeboard lab cluster --json - | jq '.runs[] | [.processes, .goodput_in_faults_per_s, .failover_max_s, .of_two_epochs]'
      prints only JSON

It needs nats-server, which Debian's package of this name brings. Server and processes listen on loopback, and end with
the scene. The streams are in a temporary folder.

Exit codes: 0 done; 1 the run failed, or a report was lost or written by two epochs; 2 bad usage; 130 Ctrl-C, 143
SIGTERM.";

const FLOOD_EXAMPLES: &str = "\
Examples:
  freeboard lab flood
      direct with scan, direct with indexed, both dams; then a table that compares them
  freeboard lab flood --route direct --receive indexed --hold --sink raw
      one run: all is queued before the server begins, each line is a write(2) of its own
  freeboard lab flood --trials
      the original's trials: no write, /dev/null, and four ways to open the file
  freeboard lab flood --dam poll:10000:100ms --watch
      the original's dam, watched once a second
  freeboard lab flood --input /var/log/syslog --file copy.log --senders 4 --route direct
      replays a real log and keeps what the server wrote
  zcat old.log.gz | freeboard lab flood --input - --json - | jq .runs[].drain_rate_deep
      reads standard input, prints only JSON
  freeboard lab flood --to tcp:127.0.0.1:1514 --watch
      the same lines to a running log server: freeboard logd, rsyslog, syslog-ng; with a count once a second
  freeboard lab flood --to unix:/dev/log --senders 4 --messages 1000
      to the log socket of this machine, a stream or datagram socket

Exit codes: 0 done; 1 the run failed, or a line is missing; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

const BALANCE_EXAMPLES: &str = "\
Examples:
  freeboard lab balance
      400 processes, all born on one worker, 50 x MD5 over 1 MiB each (about 20 s on two cores)
  freeboard lab balance --run 400 1048576 1100 5
      as the original was called: wait:run(N, W, R, BW)
  freeboard lab balance --native sleep
      calls that block: their workers are rescued
  freeboard lab balance --fault drop-wakes
      the collapse on demand: lost wake-ups, and how soon they are noticed
  freeboard lab balance --schedulers 4 --online 2
      four workers, and from the middle of the run on two
  freeboard lab balance --iterations 8 --schedulers 4 --online 2
      the original's way to a collapse: eight runs with pauses, then fewer workers, then the run
  freeboard lab balance --procs 40 --json - | jq '.max_over_min, .utilisation'
      prints only JSON

Exit codes: 0 done; 1 the run failed, or a repetition is missing; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

const RING_EXAMPLES: &str = "\
Examples:
  freeboard lab ring
      all four ways of waiting, with one and with two priorities, 10 M messages each
  freeboard lab ring --wait blocking --priorities 1,2
      the original's comparison
  freeboard lab ring --wait yielding --producers 4 --ring 1000
      a ring of exactly 1,000, shared by four producers
  freeboard lab ring --messages 1000000 --json - | jq -r '.runs[] | [.wait, .qps] | @tsv'
      prints only JSON

Exit codes: 0 done; 1 the run failed, or a message is missing or out of order; 2 bad usage;
130 Ctrl-C, 143 SIGTERM.";

const STREAMS_EXAMPLES: &str = "\
Examples:
  freeboard lab streams
      the original's writer, which loses and inverts messages; modes and seals at 128 B, 4 M messages each; and a writer
      that syncs each message
  freeboard lab streams --writers 1,2,4 --size 128,1024,4096,8192 --sync batch --seal blake3
      a sweep: each size with each number of writers
  freeboard lab streams --sync none --buffer 52428800 --flushes
      as the original: buffers of 50 MB, nothing synced, and a line for each flush
  freeboard lab streams --producers 1,4 --producer actor --sync batch
      one stream, filled by one actor and by four
  freeboard lab streams --writers 4 --add-every 2 --size 64..8192 --sync batch
      one more stream every 2 s, with messages of 64 to 8,192 B
  freeboard lab streams --messages 100000 --json - | jq -r '.runs[] | [.seal, .sync, .durable_per_s] | @tsv'
      prints only JSON

Exit codes: 0 done; 1 the run failed, the disk is full, or a stream's message is missing, changed or out of order; 2 bad
usage; 130 Ctrl-C, 143 SIGTERM.";

const EAGER_EXAMPLES: &str = "\
Examples:
  freeboard lab eager
      http, a proxy before MariaDB or an echo, the sweep; each under all four policies, and on the BEAM and in
      Go (about a minute)
  freeboard lab eager --scene http --clients 60 --requests 100000
      the original's ab -c 60 -n 100000
  freeboard lab eager --scene proxy --mysql mysql://app:secret@db.example:3306/test
      the proxy before a database that runs already; --backend echo needs none
  freeboard lab eager --scene sweep --report out
      the author's question, with a page of plots
  freeboard lab eager --scene sweep --poll lazy --cpu-us 1000 --counts 10
      the failure alone, with its counters each 10 attempts to poll
  freeboard lab eager --scene sweep --cpu-us 1000 --json - | jq '.runs[] | [.poll, .latency_us.p99]'
      prints only JSON

After each run, as the original said it:
  counts: attempts to poll; then those that found something:
          of idle workers under lazy or drain, of busy workers under lazy or drain,
          of idle workers under eager or dedicated, of busy workers under eager or dedicated
  check:  polls that were made, without waiting, with waiting

Exit codes: 0 done; 1 the run failed, or a request was not answered; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

const FETCH_EXAMPLES: &str = "\
Examples:
  freeboard lab fetch
      all steps, as they were and as they are, at a quarter of the original's rates (under three minutes)
  freeboard lab fetch --step 3,5,6,end --mode original
      too many spinning threads: the client's queue grows; with a bound it sheds; fewer threads cure it
  freeboard lab fetch --step 3,6 --wait yielding --qps 100000
      the same with threads that yield, at a rate of your own
  freeboard lab fetch --step 9 --mode original --redis 2,3,4,5 --route hash,random
      the hot app key: one connection of n has n + 1 times the others' look-ups, if they are routed by hash
  freeboard lab fetch --step 9 --mode original --mget
      both keys with one MGET
  freeboard lab fetch --step 11 --mode ours --scale 1 --time 10
      the original's full rate and its 2,000,000 keys
  freeboard lab fetch --step 6 --counters
      with the counters by the original's names
  freeboard lab fetch --step end --mode ours --qps 1.5x --wait-max none,30
      more load than it can carry: all replies are late, or some notifications are put off
  freeboard lab fetch --step end --backend real
      RabbitMQ, Redis and MariaDB, started for it with data directories of their own
  freeboard lab fetch --json - | jq '.runs[] | [.step, .mode, .wait_ms.p99, .lost]'
      prints only JSON

The table, times being 99th percentiles in ms:
  whose     2014 is what the original measured, at its own rates; then a run of it here, and one of ours
  m/r       main actors and redis actors (in ours, connections to Redis)
  done/s    replies a second, while notifications were sent
  wait      from when a notification was due to its start     lifetime  from there to the confirm of its reply
  reply     from when it was due to its reply                 in queue  in a main actor's mailbox
  at once   the same of those that were delivered once        put off   deliveries that had waited too long at the broker
  send      from the write of a look-up to its answer         tell      from the call, mailbox included
  shed      look-ups refused as too much was in flight: lost in the original, tried again in ours
  left      not done when the fetcher ended, and still there (in the original: acknowledged, but under way)
  CPU       of the service, in percent of a core, without broker, Redis and load; idle CPU: with nothing to do
  load      threads of the service that ran or could have run, on average
The load is a process of its own. The embedded broker and Redis are threads of this one, known by their names. The
original's percentiles come from a sample of 1,028.

Exit codes: 0 done; 1 the run failed, or ours lost a notification; 2 bad usage; 130 Ctrl-C, 143 SIGTERM.";

/// The scenes.
#[derive(Debug, Subcommand)]
pub(crate) enum Scene {
    /// All scenes one after the other, and a report of them
    ///
    /// Each scene runs at a size that shows its failure and its cure and nothing more; nothing has to be
    /// installed. The report is one page that needs nothing else: what went wrong in the original, that going
    /// wrong here, the cure beside it, and ours against the original's figures.
    #[command(after_help = ALL_EXAMPLES)]
    All(AllArgs),

    /// A service that is asked for ten times what it can answer, and how many answers come in time
    ///
    /// Each request takes 200 us of processor time, and its answer has no value after 50 ms. The service has one
    /// core. Behind an unbounded mailbox it is soon busy with requests whose clients have given up. A mailbox that
    /// is bounded only to save memory does the same. Where requests carry their deadline, and the queue is shorter
    /// than it, nearly all of the capacity goes into answers in time; urgent requests have a lane of their own.
    #[command(after_help = GOODPUT_EXAMPLES)]
    Goodput(Box<GoodputArgs>),

    /// Actors in several processes, of which one is killed, one paused, one cut off, and one added
    ///
    /// Each device is an actor that exists once in all processes. It writes its reports to the stream of its partition,
    /// which refuses the writes of an older epoch. Reports come in an open loop. When a process fails, the others take
    /// over its devices as soon as its lease is over.
    #[cfg(unix)]
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(Box<ClusterArgs>),

    /// A log server behind a flooded mailbox, and the dam that saves it
    ///
    /// Many senders tell lines to one log server, which writes each to a file and waits for the
    /// answer. If it waits by searching its mailbox (scan) it collapses behind a long queue; if the
    /// answer has a slot of its own (indexed), or a dam keeps the queue short, it does not.
    ///
    /// Without --route, --receive and --dam four runs are shown one after the other and compared:
    /// direct with scan, direct with indexed (both with --hold), a polling dam, a credit dam.
    #[command(after_help = FLOOD_EXAMPLES)]
    Flood(Box<FloodArgs>),

    /// Long native calls against a fair scheduler, and a watch for workers asleep at work
    ///
    /// Many processes, all born on one worker and released together, call native code that does not
    /// yield, again and again. A fair scheduler lets all of them end at about the same time and
    /// keeps every worker busy. Each 500 ms the workers' queues are sampled; a line is printed when
    /// the sample changed.
    ///
    /// With --native sleep the calls block their thread instead, and the worker's place goes to a
    /// spare thread. With --fault drop-wakes workers are left asleep while there is work, until
    /// the monitor sees it.
    #[command(after_help = BALANCE_EXAMPLES)]
    Balance(Box<BalanceArgs>),

    /// A bounded ring before a consumer on its own thread, with four ways of waiting for it
    ///
    /// Producer threads send messages one at a time, and wait while the ring is full; one consumer
    /// takes them, and checks that each came once and in order. With several priorities there is a
    /// ring for each, and the messages are spread evenly over them.
    #[command(after_help = RING_EXAMPLES)]
    Ring(Box<RingArgs>),

    /// As many small messages to disk as the machine can take: sealed, durable streams
    ///
    /// Each writer has a stream and a thread of its own, appends its share of the messages and waits
    /// until all are durable. Then everything is read back, and verified: each message once, in order,
    /// with the bytes it was written with.
    ///
    /// Without --seal, --seal-unit and --sync the modes and seals are compared, and a writer that
    /// syncs each message by itself is shown beside them.
    #[command(after_help = STREAMS_EXAMPLES)]
    Streams(Box<StreamsArgs>),

    /// When should a busy scheduler poll the network?
    ///
    /// A server in this process and clients in another one (ab where it is installed), under four
    /// policies: eager polls after a number of runs or a time; drain polls as often, but only when all
    /// events of the last poll are handled; dedicated polls in a thread of its own; lazy is the original's
    /// rule without its eager check: after twice the budget of messages, however long they take, and only
    /// when all events of the last poll are handled. The workloads are a page over HTTP, a TCP proxy in
    /// front of a database, and a sweep that asks the original author's question: how does the answer
    /// depend on the computing time of a request, beside actors that only compute? Under lazy sockets
    /// starve there; no service can choose it.
    #[command(after_help = EAGER_EXAMPLES)]
    Eager(Box<EagerArgs>),

    /// A push-notification fetcher, tuned in eleven steps
    ///
    /// Notifications of two priorities come from a broker, open-loop. For each, two keys are looked up in a
    /// leased cache on Redis, which falls through to a slow store (100 ms, 64 at once), and a device in SQL;
    /// then a reply is published. Each step is shown as the original measured it in 2014, as its fetcher does
    /// here (threads that spin, SQL on them, commands in flight without a bound), and as ours does.
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch(Box<FetchArgs>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
