// One actor: its lanes, its rates, and the times in queue and of handling.

import { levelOf, MEASURED, nameOf } from "./actors.js";
import { Children, element, setAttribute, setShare, setShown, setText, swatch, tableHead } from "./dom.js";
import { compact, count, duration, percent, rate, words } from "./format.js";
import { MOST } from "./history.js";
import { OctaveHistory, OctaveMap, QUANTILES } from "./octaves.js";
import { Table } from "./panel.js";
import { Chart } from "./plot.js";

class LaneRow {
  constructor(rank) {
    this.bar = element("i");
    this.depth = element("span");
    this.bound = element("small");
    this.cells = Array.from({ length: 8 }, () => element("td", { className: "number" }));
    this.depthCell = element("td", { className: "number depth" }, this.depth, this.bound, this.bar);
    this.node = element(
      "tr",
      { "data-test": `lane-${rank}` },
      element("th", { scope: "row" }, String(rank)),
      this.depthCell,
      ...this.cells,
    );
  }

  show(lane, counters, key) {
    const { depth, bound, time_in_queue: waited } = lane;
    setText(this.depth, count(depth));
    setText(this.bound, ` / ${compact(bound)}`);
    const share = bound > 0 ? Math.min(1, depth / bound) : 0;
    setShare(this.bar, share);
    setAttribute(this.depthCell, "data-value", String(depth));
    setAttribute(this.depthCell, "data-level", levelOf(share));
    const total = lane.shed.reduce((sum, it) => sum + it.count, 0);
    const texts = [
      compact(lane.high_water),
      rate(counters.rate(`${key}.accepted`)),
      rate(counters.rate(`${key}.handled`)),
      compact(lane.accepted),
      compact(lane.handled),
      compact(total),
      waited === null || waited.count === 0 ? duration(null) : duration(waited.p50),
      waited === null || waited.count === 0 ? duration(null) : duration(waited.p99),
    ];
    for (const [at, text] of texts.entries()) setText(this.cells[at], text);
  }
}

/** A row for each reason of shed messages of a lane. */
function shedRows(lanes) {
  return lanes.flatMap(({ lane, shed }) => {
    const some = shed.filter((it) => it.count > 0);
    return some.map((it) => [words(it.reason), String(lane), count(it.count)]);
  });
}

/** One histogram over time, with a title and its totals. */
class Histogram {
  constructor(view, title) {
    this.octaves = new OctaveHistory();
    this.map = new OctaveMap(view, this.octaves, `${title} over time`);
    this.count = element("li", {});
    const legend = element("ul", { className: "legend" }, this.count);
    this.figures = QUANTILES.map(({ name, colour }) => {
      const figure = element("b");
      legend.append(element("li", {}, swatch(colour), `${name} `, figure));
      return [name, figure];
    });
    this.node = element("figure", { className: "chart" }, element("figcaption", {}, title, legend), this.map.node);
  }

  draw(history, summary) {
    const isSome = (summary?.count ?? 0) > 0;
    setText(this.count, isSome ? `${compact(summary.count)} ${MEASURED}, since the start:` : "nothing measured yet");
    for (const [name, figure] of this.figures) setText(figure, duration(isSome ? summary[name] : null));
    this.map.draw(history);
  }
}

export class ActorDetail {
  constructor(view, ask) {
    this.view = view;
    this.node = document.getElementById("actor");
    this.shown = "";
    this.last = null;
    const attributes = { "aria-label": "Close", "aria-keyshortcuts": "Escape", "data-test": "detail-close" };
    this.close = element("button", { type: "button", ...attributes }, "\u00d7");
    this.close.addEventListener("click", () => ask({ actor: "" }));
  }

  /** Resets the view for another actor. */
  #begin(id) {
    this.shown = id;
    this.last = null;
    this.title = element("h2", { id: "actor-title", tabIndex: -1, "data-test": "detail-title" }, `#${id}`);
    this.type = element("p", { className: "note type" });
    this.facts = element("p", { className: "facts", "data-test": "detail-facts" });
    const key = `actor.${id}`;
    this.depth = new Chart(this.view, {
      title: "Queued",
      lines: [{ track: `${key}.depth`, name: "in all lanes", colour: "queued" }],
      format: compact,
    });
    this.rates = new Chart(this.view, {
      title: "Messages",
      lines: [
        { track: `${key}.accepted`, name: "in", colour: "in" },
        { track: `${key}.handled`, name: "out", colour: "out" },
        { track: `${key}.shed`, name: "shed", colour: "bad" },
      ],
      format: rate,
      isFilled: false,
    });
    this.body = element("tbody");
    this.lanes = new Children(this.body, (rank) => new LaneRow(rank));
    this.waits = new Children(element("div"), (rank) => new Histogram(this.view, `Time in queue, lane ${rank}`));
    this.handling = new Histogram(this.view, "Handling time");
    const heads = ["Lane", "Depth", "High", "In", "Out", "Accepted", "Handled", "Shed", "Queue p50", "p99"];
    this.sheds = new Table("Shed by reason", ["Shed by reason", "Lane", "Messages"]);
    this.sheds.node.classList.add("sheds");
    this.sheds.node.dataset.test = "detail-shed";
    const table = element(
      "table",
      { className: "lanes", "aria-label": "Lanes" },
      tableHead(heads.map((text, at) => [text, at === 0 ? "" : "number"])),
      this.body,
    );
    this.node.replaceChildren(
      element("div", { className: "panel-head" }, this.title, this.close),
      this.type,
      this.facts,
      element("div", { className: "pair" }, this.depth.node, this.rates.node),
      element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Lanes" }, table),
      this.sheds.node,
      this.waits.parent,
      this.handling.node,
    );
  }

  take({ frame: { system }, query, counters, history, isGap }) {
    if (query.actor !== this.shown && query.actor !== "") this.#begin(query.actor);
    const actor = system?.actor ?? null;
    if (actor === null || String(actor.snapshot.id) !== this.shown) return;
    this.last = actor;
    const key = `actor.${this.shown}`;
    const { lanes } = actor.snapshot;
    const sums = { depth: 0, accepted: 0, handled: 0, shed: 0 };
    for (const lane of lanes) {
      sums.depth += lane.depth;
      sums.accepted += lane.accepted;
      sums.handled += lane.handled;
      sums.shed += lane.shed.reduce((sum, it) => sum + it.count, 0);
      counters.take(`${key}.${lane.lane}.accepted`, lane.accepted);
      counters.take(`${key}.${lane.lane}.handled`, lane.handled);
    }
    history.set(`${key}.depth`, sums.depth, MOST);
    for (const name of ["accepted", "handled", "shed"]) {
      history.set(`${key}.${name}`, counters.take(`${key}.${name}`, sums[name]));
    }
    this.sums = sums;
    const waits = lanes.map((lane, at) => ({ rank: lane.lane, octaves: actor.time_in_queue[at] ?? [] }));
    this.waits.show(waits, (it) => it.rank, (histogram, it) => histogram.octaves.take(this.view.now, it.octaves, isGap));
    this.handling.octaves.take(this.view.now, actor.handling, isGap);
  }

  draw({ frame: { system }, query, counters, history }) {
    const isOpen = query.actor !== "" && query.actor === this.shown;
    if (isOpen && this.node.hidden) {
      setShown(this.node, true);
      this.opener = document.activeElement;
      this.title.focus({ preventScroll: true });
    } else if (!isOpen && !this.node.hidden && query.actor === "") {
      setShown(this.node, false);
      this.shown = "";
      const opener = this.opener?.isConnected ? this.opener : document.getElementById("actors");
      opener.focus({ preventScroll: true });
    }
    document.body.classList.toggle("has-drawer", isOpen);
    if (!isOpen) return;
    const isAlive = String(system?.actor?.snapshot.id) === this.shown;
    this.node.classList.toggle("gone", !isAlive);
    if (this.last === null) {
      setText(this.facts, "No actor of this number is alive.");
      return;
    }
    const { snapshot } = this.last;
    setText(this.title, nameOf(snapshot));
    setText(this.type, `#${snapshot.id} ${snapshot.actor_type}`);
    const bound = snapshot.lanes.reduce((sum, it) => sum + it.bound, 0);
    const facts = [
      isAlive ? snapshot.state : "has ended; shown as it was last seen",
      `${count(this.sums.depth)} of ${count(bound)} queued (${percent(bound > 0 ? this.sums.depth / bound : 0)})`,
      `${count(this.sums.shed)} shed`,
      `${count(snapshot.restarts)} restarts`,
    ];
    setText(this.facts, facts.join(" \u00b7 "));
    const key = `actor.${this.shown}`;
    this.depth.draw(history, () => this.sums.depth);
    this.rates.draw(history, (track) => counters.rate(track));
    this.sheds.draw(shedRows(snapshot.lanes));
    this.lanes.show(snapshot.lanes, (it) => it.lane, (row, lane) => row.show(lane, counters, `${key}.${lane.lane}`));
    this.waits.show(snapshot.lanes, (it) => it.lane, (histogram, lane) => histogram.draw(history, lane.time_in_queue));
    this.handling.draw(history, snapshot.handling);
  }
}
