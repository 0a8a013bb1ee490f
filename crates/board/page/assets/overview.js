// The overview: uptime, actors, throughput, dead letters.

import { element, setShown, setText } from "./dom.js";
import { age, compact, count, rate, words } from "./format.js";
import { Plot } from "./plot.js";

const REASONS_SHOWN_MAX = 4;

class Figure {
  constructor(name, test) {
    this.value = element("b", { className: "value", "data-test": test });
    this.note = element("span", { className: "note" });
    const title = element("span", { className: "name" }, name);
    this.node = element("div", { className: "figure" }, title, this.value, this.note);
  }

  show(value, note = "") {
    setText(this.value, value);
    setText(this.note, note);
  }
}

function sparkline(view, track, colour, format, label) {
  const lines = [{ track, name: label, colour }];
  return new Plot(view, { lines, format, height: 30, label: `${label} over time`, isBare: true });
}

export class Overview {
  constructor(view) {
    this.node = document.getElementById("overview");
    this.uptime = new Figure("Uptime", "uptime");
    this.alive = new Figure("Actors alive", "actors-alive");
    this.in = new Figure("Messages in", "messages-in");
    this.out = new Figure("Messages out", "messages-out");
    this.queued = new Figure("Queued", "queued");
    this.dead = new Figure("Dead letters", "dead-letters");
    this.plots = [
      [this.alive, sparkline(view, "alive", "neutral", compact, "actors alive")],
      [this.in, sparkline(view, "in", "in", rate, "messages in")],
      [this.out, sparkline(view, "out", "out", rate, "messages out")],
      [this.queued, sparkline(view, "queued", "queued", compact, "messages queued")],
      [this.dead, sparkline(view, "dead", "bad", rate, "dead letters")],
    ];
    for (const [figure, plot] of this.plots) figure.node.append(plot.node);
    this.node.append(this.uptime.node, ...this.plots.map(([figure]) => figure.node));
  }

  take({ frame: { system }, counters, history }) {
    if (!system?.is_alive) return;
    history.set("alive", system.actors_alive);
    history.set("in", system.actors.in_per_s ?? NaN);
    history.set("out", system.actors.out_per_s ?? NaN);
    history.set("queued", system.actors.depth);
    const dead = system.dead_letters.reduce((sum, { count: number }) => sum + number, 0);
    history.set("dead", counters.take("dead", dead));
    counters.take("restarted", system.actors_restarted);
  }

  draw({ frame: { system }, counters, history }) {
    setShown(this.node, system !== null);
    if (system === null) return;
    const { actors, is_alive: isAlive } = system;
    this.uptime.show(age(system.uptime_ns), isAlive ? "" : "has ended; shown as it was last seen");
    const [spawned, ended, restarted] = [system.actors_spawned, system.actors_ended, system.actors_restarted].map(compact);
    this.alive.show(count(system.actors_alive), `${spawned} spawned, ${ended} ended, ${restarted} restarted`);
    this.in.show(rate(isAlive ? actors.in_per_s : null), "accepted by mailboxes");
    this.out.show(rate(isAlive ? actors.out_per_s : null), "handled");
    this.queued.show(count(actors.depth), "in all mailboxes");
    const reasons = system.dead_letters.filter((it) => it.count > 0).sort((a, b) => b.count - a.count);
    const total = reasons.reduce((sum, it) => sum + it.count, 0);
    const named = reasons.slice(0, REASONS_SHOWN_MAX).map((it) => `${words(it.reason)} ${compact(it.count)}`);
    if (reasons.length > named.length) named.push(`${reasons.length - named.length} more`);
    const perSecond = counters.rate("dead");
    const growing = perSecond > 0 ? ` (${rate(perSecond)})` : "";
    this.dead.show(count(total) + growing, named.join(", ") || "none so far");
    this.dead.node.title = reasons.map((it) => `${words(it.reason)}: ${count(it.count)}`).join("\n");
    this.dead.node.classList.toggle("alarm", perSecond > 0);
    for (const [, plot] of this.plots) plot.draw(history);
  }
}
