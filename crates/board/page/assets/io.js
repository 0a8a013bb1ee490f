// The poller: who looks for I/O, how often, what that finds, and how soon its owner runs.

import { setShown } from "./dom.js";
import { count, duration, rate, ratio } from "./format.js";
import { Facts, panel, Table } from "./panel.js";
import { Chart } from "./plot.js";

const SIMPLE = ["runs", "wakes", "accepts", "agains"];
const WON = ["won_idle_lazy", "won_busy_lazy", "won_idle_eager", "won_busy_eager"];
const LOOKS = ["attempts", "nonwait", "wait", ...WON, "events"];
const LOOKERS_SHOWN_MAX = 64;

/** All who look: the workers, and the monitor and the thread of policy dedicated if they ever did. */
function lookers({ workers, monitor, dedicated }) {
  const all = workers.slice(0, LOOKERS_SHOWN_MAX).map((looks, index) => [`w${index}`, looks]);
  if (monitor.attempts > 0) all.push(["monitor", monitor]);
  if (dedicated.attempts > 0) all.push(["dedicated", dedicated]);
  return all;
}

export class Io {
  constructor(view) {
    this.node = panel("io", "I/O", "");
    this.summary = this.node.querySelector(".summary");
    this.facts = new Facts();
    const lines = [
      { track: "io.nonwait", name: "without waiting", colour: "in" },
      { track: "io.wait", name: "waiting", colour: "neutral" },
      { track: "io.won", name: "found something", colour: "out" },
    ];
    this.looks = new Chart(view, { title: "Looks", lines, format: rate, isFilled: false });
    this.table = new Table("Looks by looker", ["Looker", "Attempts", "Looks", "Waits", "Won idle", "Won busy", "Events"]);
    this.node.append(this.facts.node, this.looks.node, this.table.node);
  }

  take({ frame: { system }, counters, history }) {
    const poller = system?.poller ?? null;
    if (poller === null) return;
    const sums = Object.fromEntries(LOOKS.map((name) => [name, 0]));
    for (const [name, looks] of lookers(poller)) {
      for (const field of LOOKS) {
        sums[field] += looks[field];
        counters.take(`io.${name}.${field}`, looks[field]);
      }
    }
    for (const name of SIMPLE) counters.take(`io.${name}`, poller[name]);
    const won = WON.reduce((sum, name) => sum + sums[name], 0);
    counters.take("io.events", sums.events);
    history.set("io.nonwait", counters.take("io.nonwait", sums.nonwait));
    history.set("io.wait", counters.take("io.wait", sums.wait));
    history.set("io.won", counters.take("io.won", won));
  }

  draw({ frame: { system }, counters, history }) {
    const poller = system?.poller ?? null;
    setShown(this.node, poller !== null);
    if (poller === null) return;
    const { readiness_to_run: ready, events_per_look: events } = poller;
    this.summary.textContent = `policy ${poller.policy}, ${count(poller.sources)} sources`;
    const per = (name) => rate(counters.rate(`io.${name}`));
    this.facts.draw([
      ["readiness to run p50", duration(ready.count > 0 ? ready.p50 : null)],
      ["readiness to run p99", duration(ready.count > 0 ? ready.p99 : null)],
      ["longest gap", duration(poller.gap_max_ns)],
      ["events", per("events")],
      ["events per look", events.count > 0 ? ratio(events.mean) : duration(null)],
      ["owners run", per("runs")],
      ["waiting to run", count(poller.outstanding)],
      ["wakes", per("wakes")],
      ["accepts", per("accepts")],
      ["would block", per("agains")],
    ]);
    this.looks.draw(history, (track) => counters.rate(track));
    this.table.draw(lookers(poller).map(([name]) => row(name, (field) => counters.rate(`io.${name}.${field}`))));
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
