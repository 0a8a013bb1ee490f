// The poller: polls by origin, events, and the delay until actors run.

import { element, setShown, setText } from "./dom.js";
import { count, duration, notShown, rate, ratio } from "./format.js";
import { Facts, panel, Table } from "./panel.js";
import { Chart } from "./plot.js";

const SIMPLE = ["runs", "wakes", "accepts", "agains"];
const WON = ["won_idle_lazy", "won_busy_lazy", "won_idle_eager", "won_busy_eager"];
const FIELDS = ["attempts", "nonwait", "wait", ...WON, "events"];
const ORIGINS_SHOWN_MAX = 64;

/** All origins of polls: the workers, and the monitor and the dedicated thread if they have polled. */
function origins({ workers, monitor, dedicated }) {
  const all = workers.map((polls, index) => [`w${index}`, polls]);
  if (dedicated.attempts > 0) all.unshift(["dedicated", dedicated]);
  if (monitor.attempts > 0) all.unshift(["monitor", monitor]);
  return all;
}

const meanOf = (sum, number) => (number > 0 ? sum / number : NaN);

export class Io {
  constructor(view) {
    this.node = panel("io", "I/O", "");
    this.summary = this.node.querySelector(".summary");
    this.facts = new Facts();
    const polls = [
      { track: "io.nonwait", name: "without waiting", colour: "in" },
      { track: "io.wait", name: "waiting", colour: "neutral" },
      { track: "io.won", name: "found something", colour: "out" },
    ];
    const events = [{ track: "io.events", name: "found", colour: "in" }];
    const ready = [
      { track: "io.ready_p99", name: "p99 since the start", colour: "p99" },
      { track: "io.ready_mean", name: "mean of now", colour: "p50" },
    ];
    this.charts = [
      new Chart(view, { title: "Polls", lines: polls, format: rate, isFilled: false }),
      new Chart(view, { title: "Events", lines: events, format: rate }),
      new Chart(view, { title: "Readiness to run", lines: ready, format: duration, isFilled: false }),
    ];
    this.table = new Table("Polls by origin", ["Origin", "Attempts", "Polls", "Waits", "Won idle", "Won busy", "Events"]);
    this.more = element("p", { className: "note", hidden: true });
    this.node.append(this.facts.node, ...this.charts.map((it) => it.node), this.table.node, this.more);
  }

  take({ frame: { system }, counters, history }) {
    const poller = system?.poller ?? null;
    if (poller === null || !system.is_alive) return;
    const sums = Object.fromEntries(FIELDS.map((name) => [name, 0]));
    for (const [at, [name, polls]] of origins(poller).entries()) {
      for (const field of FIELDS) {
        sums[field] += polls[field];
        if (at < ORIGINS_SHOWN_MAX) counters.take(`io.${name}.${field}`, polls[field]);
      }
    }
    for (const name of SIMPLE) counters.take(`io.${name}`, poller[name]);
    const won = WON.reduce((sum, name) => sum + sums[name], 0);
    history.set("io.events", counters.take("io.events", sums.events));
    history.set("io.nonwait", counters.take("io.nonwait", sums.nonwait));
    history.set("io.wait", counters.take("io.wait", sums.wait));
    history.set("io.won", counters.take("io.won", won));
    const { readiness_to_run: ready } = poller;
    history.set("io.ready_p99", ready.count > 0 ? ready.p99 : NaN);
    const tookNs = counters.take("io.ready_ns", ready.mean * ready.count);
    history.set("io.ready_mean", meanOf(tookNs, counters.take("io.ready", ready.count)));
  }

  draw({ frame: { system }, counters, history }) {
    const poller = system?.poller ?? null;
    setShown(this.node, poller !== null);
    if (poller === null) return;
    const { readiness_to_run: ready, events_per_look: events } = poller;
    setText(this.summary, `policy ${poller.policy}, ${count(poller.sources)} sources`);
    const per = (name) => rate(counters.rate(`io.${name}`));
    this.facts.draw([
      ["readiness to run p50", duration(ready.count > 0 ? ready.p50 : null)],
      ["readiness to run p99", duration(ready.count > 0 ? ready.p99 : null)],
      ["longest gap since start", duration(poller.gap_max_ns)],
      ["events", per("events")],
      ["events per poll", events.count > 0 ? ratio(events.mean) : duration(null)],
      ["owners run", per("runs")],
      ["waiting to run", count(poller.outstanding)],
      ["wakes", per("wakes")],
      ["accepts", per("accepts")],
      ["would block", per("agains")],
    ]);
    const [polls, found, readiness] = this.charts;
    polls.draw(history, (track) => counters.rate(track));
    found.draw(history, (track) => counters.rate(track));
    const mean = meanOf(counters.rate("io.ready_ns"), counters.rate("io.ready"));
    readiness.draw(history, (track) => (track === "io.ready_mean" ? mean : ready.count > 0 ? ready.p99 : null));
    const all = origins(poller);
    const shown = all.slice(0, ORIGINS_SHOWN_MAX);
    this.table.draw(shown.map(([name]) => row(name, (field) => counters.rate(`io.${name}.${field}`))));
    setText(this.more, notShown(all.length - shown.length, "origin"));
    setShown(this.more, all.length > shown.length);
  }
}

function row(name, rateOf) {
  const sum = (...fields) => rate(fields.reduce((total, field) => total + rateOf(field), 0));
  return [
    name,
    sum("attempts"),
    sum("nonwait"),
    sum("wait"),
    sum("won_idle_lazy", "won_idle_eager"),
    sum("won_busy_lazy", "won_busy_eager"),
    sum("events"),
  ];
}
