// The workers: current runs, time by state, queues, and the monitor.

import { Children, element, setAttribute, setShown, setText, swatch, tableHead } from "./dom.js";
import { compact, count, duration, NONE, notShown, percent, rate, ratio, words } from "./format.js";
import { SUM, MOST } from "./history.js";
import { LongRuns, runText } from "./longruns.js";
import { linear, logarithmic, HeatStrip, QUEUE_SCALE_MIN, StackStrip } from "./strip.js";
import { CLASSES, EventStrip, MARKS } from "./events.js";

/** The states in stacking order: work, obstacles to work, rest. */
const STATES = ["run", "blocked", "poll", "search", "spin", "park", "offline"];
const ROWS_HIGH_MAX = 16;
const HOLDERS_SHOWN_MAX = 8;
const WORKERS_SHOWN_MAX = 256;
const narrow = matchMedia("(max-width: 999px)");

class WorkerRow {
  constructor(index) {
    this.name = element("th", { scope: "row" }, `w${index}`);
    this.bar = element("div", { className: "bar-states", role: "img" });
    this.share = element("td", { className: "number" });
    this.queue = element("td", { className: "number" });
    this.runs = element("td", { className: "number" });
    this.current = element("td", { className: "current" });
    const cells = [this.name, element("td", {}, this.bar), this.share, this.queue, this.runs, this.current];
    this.node = element("tr", { "data-test": `worker-${index}` }, ...cells);
    this.gradient = "";
  }

  show(worker, shares, counters) {
    const { index } = worker;
    let at = 0;
    const stops = [];
    const spoken = [];
    for (const state of STATES) {
      const share = shares?.[state] ?? 0;
      if (share < 0.002) continue;
      const end = at + share * 100;
      stops.push(`var(--${state}) ${at.toFixed(1)}% ${end.toFixed(1)}%`);
      spoken.push(`${state} ${percent(share)}`);
      at = end;
    }
    const gradient = stops.length > 0 ? `linear-gradient(to right, ${stops.join(", ")})` : "none";
    if (gradient !== this.gradient) {
      this.gradient = gradient;
      this.bar.style.backgroundImage = gradient;
      const text = spoken.join(", ");
      setAttribute(this.bar, "aria-label", text);
      setAttribute(this.bar, "title", text);
    }
    setText(this.share, worker.state === "offline" ? NONE : percent(shares?.utilisation));
    setText(this.queue, count(worker.queue_depth));
    setAttribute(this.queue, "data-value", String(worker.queue_depth));
    setText(this.runs, rate(counters.rate(`worker.${index}.runs`)));
    const { current, state } = worker;
    setText(this.current, current === null ? state : runText(current));
    setAttribute(this.current, "title", current === null ? null : `${current.actor_type} ${current.message_type}`);
    this.current.classList.toggle("dim", current === null);
  }
}

/** Shares of the last interval or second; undefined if unknown. */
function sharesOf(rateOf) {
  const rates = STATES.map((state) => rateOf(state));
  const sum = rates.reduce((total, it) => total + it, 0);
  if (!(sum > 0)) return null;
  const shares = Object.fromEntries(STATES.map((state, at) => [state, rates[at] / sum]));
  const online = 1 - shares.offline;
  shares.utilisation = online > 0.001 ? shares.run / online : 0;
  return shares;
}

/** The index of a balance's class, or the next one if nothing is queued. */
function levelOf(balance) {
  if (balance === null) return NaN;
  return isQueued(balance) ? CLASSES.findIndex((it) => it.name === balance.class) : CLASSES.length;
}

const isQueued = (balance) => balance.queues.some((length) => length > 0);

export class Workers {
  constructor(view) {
    this.node = document.getElementById("workers");
    this.utilisation = new HeatStrip(view, {
      scale: linear,
      ramp: "busy",
      format: (value) => `runs ${percent(value)} of the time`,
      label: "Utilisation of each worker over time",
    });
    this.queues = new HeatStrip(view, {
      scale: logarithmic,
      ramp: "heat",
      format: (value) => `${compact(Math.round(value))} queued`,
      label: "Length of each run queue over time",
    });
    this.states = new StackStrip(view, {
      parts: STATES.map((state) => ({ track: `state.${state}`, name: state, colour: state })),
      height: 83,
      label: "Time of all workers by state, over time",
    });
    this.events = new EventStrip(view, "Evenness of the queues, and what the monitor did, over time");
    this.longRuns = new LongRuns();
    this.#build();
    this.rows = new Children(this.body, (index) => new WorkerRow(index));
  }

  #build() {
    this.summary = element("p", { className: "summary", "data-test": "workers-summary" });
    this.body = element("tbody");
    this.injector = element("td", { className: "number" });
    const heads = [["", ""], ["last second", ""], ["run", "number"], ["queue", "number"], ["runs", "number"], ["runs now", ""]];
    const table = element(
      "table",
      { className: "workers" },
      tableHead(heads),
      this.body,
      element(
        "tfoot",
        {},
        element("tr", {}, element("th", { scope: "row", colSpan: 3 }, "injector"), this.injector, element("td", { colSpan: 2 })),
      ),
    );
    const legend = element("ul", { className: "legend" });
    for (const state of STATES) {
      legend.append(element("li", {}, swatch(state), state));
    }
    this.class = element("b", { "data-test": "balance" });
    this.marks = new Map();
    const marks = element("ul", { className: "legend marks" }, element("li", {}, "queues ", this.class));
    for (const { track, name, glyph, colour } of MARKS) {
      const figure = element("b", { "data-test": track });
      const sign = element("i", { className: "glyph" }, glyph);
      sign.style.color = `var(--${colour})`;
      this.marks.set(track, figure);
      marks.append(element("li", {}, sign, `${name}s `, figure));
    }
    this.notes = element("p", { className: "note" });
    this.blocked = element("p", { className: "blocked-threads", role: "alert", "data-test": "all-blocked" });
    this.longest = element("span");
    const scale = (ramp, least, most) =>
      element("span", { className: "scale" }, least, element("i", { className: `ramp ${ramp}` }), most);
    const block = (title, colours, node) => element("div", { className: "strip" }, element("h3", {}, title, colours), node);
    this.node.append(
      element("div", { className: "panel-head" }, element("h2", { id: "workers-title" }, "Workers"), this.summary),
      this.blocked,
      element(
        "div",
        { className: "workers-grid" },
        element("div", { className: "scroll" }, table),
        block("Utilisation", scale("busy", percent(0), percent(1)), this.utilisation.node),
        block("Run queues", scale("heat", "0", this.longest), this.queues.node),
        element("div", { className: "beneath" }, legend, marks, this.notes),
        element("div", { className: "strip" }, this.states.node),
        element("div", { className: "strip" }, this.events.node),
      ),
      this.longRuns.node,
    );
  }

  take({ frame: { system }, counters, history }) {
    if (!system?.is_alive) return;
    const sums = Object.fromEntries(STATES.map((state) => [state, 0]));
    let known = 0;
    for (const worker of system.workers.slice(0, WORKERS_SHOWN_MAX)) {
      const key = `worker.${worker.index}`;
      counters.take(`${key}.runs`, worker.runs);
      const shares = sharesOf((state) => counters.take(`${key}.${state}`, worker.times[`${state}_ns`]));
      history.set(`${key}.queue`, worker.queue_depth, MOST);
      history.set(`${key}.utilisation`, shares?.utilisation ?? NaN);
      if (shares === null) continue;
      known += 1;
      for (const state of STATES) sums[state] += shares[state];
    }
    for (const state of STATES) history.set(`state.${state}`, known > 0 ? sums[state] / known : NaN);
    const { scheduler, balance } = system;
    history.set("injector", scheduler.injector_depth, MOST);
    history.set("class", levelOf(balance), MOST);
    history.set("ratio", balance === null ? NaN : balance.ratio_hundredths / 100, MOST);
    for (const { track } of MARKS) {
      counters.take(track, scheduler[track]);
      history.set(track, counters.growth(track), SUM);
    }
  }

  draw({ frame: { system }, counters, history }) {
    setShown(this.node, system !== null);
    if (system === null) return;
    const workers = system.workers.slice(0, WORKERS_SHOWN_MAX);
    const rowHeight = workers.length > ROWS_HIGH_MAX ? 16 : 22;
    this.node.style.setProperty("--row", `${rowHeight}px`);
    this.rows.show(workers, (worker) => worker.index, (row, worker) => {
      row.show(worker, sharesOf((state) => counters.rate(`worker.${worker.index}.${state}`)), counters);
    });
    this.#showFigures(system);
    const rows = workers.map(({ index }) => ({ track: `worker.${index}.utilisation`, name: `w${index}` }));
    const queues = workers.map(({ index }) => ({ track: `worker.${index}.queue`, name: `w${index}` }));
    this.utilisation.setRows(rows, rowHeight, narrow.matches);
    this.queues.setRows([...queues, { track: "injector", name: "inj" }], rowHeight, narrow.matches);
    for (const strip of [this.utilisation, this.queues, this.states, this.events]) strip.draw(history);
    setText(this.longest, compact(Math.max(QUEUE_SCALE_MIN, this.queues.greatest)));
    this.longRuns.draw(system);
  }

  #showFigures({ workers, scheduler, balance }) {
    const { threads, threads_spare: spare, threads_displaced: displaced, threads_max: most } = scheduler;
    const online = `${scheduler.workers_online} of ${workers.length} on-line`;
    setText(this.summary, `${online}; ${threads} threads: ${spare} spare, ${displaced} displaced, ${most} at most`);
    setText(this.injector, count(scheduler.injector_depth));
    const holders = scheduler.all_blocked;
    const named = holders.slice(0, HOLDERS_SHOWN_MAX).map(runText).join(", ");
    const more = holders.length > HOLDERS_SHOWN_MAX ? `, and ${holders.length - HOLDERS_SHOWN_MAX} more` : "";
    setShown(this.blocked, holders.length > 0);
    setText(this.blocked, `All threads are blocked while actors wait. They are held by ${named}${more}.`);
    const isShown = balance !== null && isQueued(balance);
    setAttribute(this.class, "data-class", isShown ? balance.class : "none");
    const reading = balance === null ? "none" : `${words(balance.class)}, ${ratio(balance.ratio_hundredths / 100)}`;
    setText(this.class, balance === null || isShown ? reading : "empty");
    for (const [track, figure] of this.marks) setText(figure, count(scheduler[track]));
    const delay = scheduler.rescue_delay;
    const notes = [
      notShown(workers.length - WORKERS_SHOWN_MAX, "worker"),
      delay !== null && delay.count > 0 && `rescued after ${duration(delay.p50)} (p99 ${duration(delay.p99)})`,
      scheduler.rescued_tasks > 0 && `${count(scheduler.rescued_tasks)} tasks moved`,
      scheduler.blocking_calls > 0 && `${count(scheduler.blocking_calls)} blocking calls`,
      scheduler.wasted_core_ns > 0 && `${duration(scheduler.wasted_core_ns)} slept beside work`,
      scheduler.collapses > 0 && `seen within ${duration(scheduler.collapse_detect_ns_max)}`,
      scheduler.spares_exhausted > 0 && `${count(scheduler.spares_exhausted)} times no spare was left`,
    ];
    setText(this.notes, notes.filter(Boolean).join(" \u00b7 "));
  }
}
