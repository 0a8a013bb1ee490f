// All actors: the server sorts, filters and limits them; this shows one page.

import { Children, element, setAttribute, setShare, setShown, setText } from "./dom.js";
import { age, compact, count, duration, NONE, perSecond, shortType, words } from "./format.js";
import { LIMITS } from "./query.js";

const TYPING_MS = 250;
/** Only some messages are timed. */
export const MEASURED = "measured, 1 in 128";
const COLUMNS = [
  { sort: "name", title: "Name", isText: true, hint: "the name it was spawned with" },
  { sort: "type", title: "Type", isText: true },
  { sort: "depth", title: "Depth", hint: "messages queued now, of as many as its lanes hold" },
  { sort: "high_water", title: "High", hint: "the most that each lane has held, together" },
  { sort: "in", title: "In/s", hint: "messages accepted a second" },
  { sort: "out", title: "Out/s", hint: "messages handled a second" },
  { sort: "shed", title: "Shed", hint: "messages that were not handled, for whatever reason" },
  { sort: "queue_p50", title: "Queue p50", hint: `half of those ${MEASURED}, waited no longer, in the slowest lane` },
  { sort: "queue_p99", title: "p99", hint: `99 % of those ${MEASURED}, waited no longer, in the slowest lane` },
  { sort: "handling_p99", title: "Handling p99", hint: `99 % of those ${MEASURED}, were handled in this time` },
  { sort: "restarts", title: "Restarts" },
  { sort: "state", title: "State", isText: true },
];

/** An actor's title: its name, or type and id. */
export function nameOf({ id, name, actor_type: actorType }) {
  return name ?? `${shortType(actorType)} #${id}`;
}

const classOf = ({ sort, isText }) => (isText ? sort : `number ${sort}`);

/** The fill level of a mailbox, in a word. */
export function levelOf(share) {
  return share > 0.9 ? "full" : share > 0.5 ? "high" : "low";
}

class ActorRow {
  constructor(id, open) {
    this.button = element("button", { type: "button", className: "link", tabIndex: -1 });
    this.bar = element("i");
    this.depth = element("span");
    this.bound = element("small");
    this.cells = Object.fromEntries(
      COLUMNS.map((column) => [column.sort, element("td", { className: classOf(column), "data-column": column.sort })]),
    );
    this.cells.name = element("th", { scope: "row", className: "name", "data-column": "name" }, this.button);
    this.cells.depth.append(this.depth, this.bound, this.bar);
    this.cells.depth.dataset.test = "depth";
    this.node = element("tr", { "data-test": `row-${id}` }, ...COLUMNS.map(({ sort }) => this.cells[sort]));
    this.node.addEventListener("click", () => open(id));
  }

  show(row, { isOpen, isAlive }) {
    const { cells } = this;
    setText(this.button, nameOf(row));
    setAttribute(this.button, "title", row.name === null ? null : `${row.name} #${row.id}`);
    setText(cells.type, shortType(row.actor_type));
    setAttribute(cells.type, "title", row.actor_type);
    setText(this.depth, compact(row.depth));
    setText(this.bound, ` / ${compact(row.bound)}`);
    setAttribute(cells.depth, "data-value", String(row.depth));
    const share = row.bound > 0 ? Math.min(1, row.depth / row.bound) : 0;
    setShare(this.bar, share);
    setAttribute(cells.depth, "data-level", levelOf(share));
    setText(cells.high_water, compact(row.high_water));
    setText(cells.in, isAlive ? perSecond(row.in_per_s) : NONE);
    setText(cells.out, isAlive ? perSecond(row.out_per_s) : NONE);
    setText(cells.shed, compact(row.shed));
    setAttribute(cells.shed, "data-some", row.shed > 0 ? "" : null);
    setAttribute(cells.shed, "title", row.shed > 0 ? shedBy(row.shed_by) : null);
    setText(cells.queue_p50, duration(row.queue_p50_ns));
    setText(cells.queue_p99, duration(row.queue_p99_ns));
    setText(cells.handling_p99, duration(row.handling_p99_ns));
    setText(cells.restarts, compact(row.restarts));
    setAttribute(cells.restarts, "data-some", row.restarts > 0 ? "" : null);
    setText(cells.state, row.state);
    setAttribute(cells.state, "data-state", row.state);
    setAttribute(this.node, "aria-current", isOpen ? "true" : null);
  }
}

/** The shown rows, their total, and their age. */
function summaryOf({ actors, is_alive: isAlive }) {
  const first = actors.rows.length === 0 ? 0 : actors.offset + 1;
  const last = actors.offset + actors.rows.length;
  const isAll = actors.matched === actors.total;
  const all = isAll ? count(actors.total) : `${count(actors.matched)} matching, ${count(actors.total)} in all`;
  const when = isAlive ? `order as of ${age(actors.survey_age_ns)} ago` : "as last seen";
  return `${count(first)}\u2013${count(last)} of ${all}; ${when}`;
}

function shedBy(reasons) {
  return reasons
    .filter((it) => it.count > 0)
    .map((it) => `${words(it.reason)}: ${count(it.count)}`)
    .join("\n");
}

export class Actors {
  constructor(ask) {
    this.ask = ask;
    this.node = document.getElementById("actors");
    this.query = null;
    this.matched = 0;
    this.typing = 0;
    this.#build();
    const open = (id) => ask({ actor: String(id) }, { isStep: true });
    this.rows = new Children(this.body, (id) => new ActorRow(id, open));
    this.reached = null;
    this.row = 0;
    this.body.addEventListener("focusin", ({ target }) => this.#reach(target));
  }

  #build() {
    this.filter = element("input", {
      id: "filter", type: "search", placeholder: "log depth>1000", maxLength: 256, spellcheck: false, autocomplete: "off",
      "data-test": "filter", "aria-keyshortcuts": "/", "aria-describedby": "filter-error",
    });
    this.filter.setAttribute("aria-label", "Filter the actors");
    this.filter.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#filterNow(), TYPING_MS);
    });
    this.filter.addEventListener("change", () => this.#filterNow());
    this.error = element("p", { id: "filter-error", className: "error", role: "alert", "data-test": "filter-error" });
    this.summary = element("p", { className: "summary", "data-test": "actors-summary" });
    this.limit = element("select", { "aria-label": "Rows on a page", "data-test": "limit" });
    for (const limit of LIMITS) this.limit.append(element("option", { value: String(limit) }, `${limit} rows`));
    this.limit.addEventListener("change", () => this.ask({ limit: Number(this.limit.value), offset: 0 }));
    const page = (sign, label, key, test) =>
      element("button", { type: "button", "aria-label": label, "aria-keyshortcuts": key, "data-test": test }, sign);
    this.back = page("\u2039", "Previous page", "[", "page-back");
    this.on = page("\u203a", "Next page", "]", "page-on");
    this.back.addEventListener("click", () => this.turn(-1));
    this.on.addEventListener("click", () => this.turn(1));
    this.heads = new Map();
    const head = element("tr");
    for (const column of COLUMNS) {
      const button = element("button", { type: "button", title: column.hint ?? "" }, column.title);
      button.addEventListener("click", () => this.#sort(column));
      const attributes = { scope: "col", className: classOf(column), "data-test": `sort-${column.sort}` };
      const cell = element("th", attributes, button);
      this.heads.set(column.sort, cell);
      head.append(cell);
    }
    this.body = element("tbody");
    this.nothing = element("p", { className: "empty", hidden: true, "data-test": "actors-none" });
    const table = element(
      "table",
      { className: "actors", "data-test": "actors-table", "aria-labelledby": "actors-title" },
      element("colgroup", {}, ...COLUMNS.map(({ sort }) => element("col", { className: sort }))),
      element("thead", {}, head),
      this.body,
    );
    this.node.append(
      element(
        "div",
        { className: "panel-head" },
        element("h2", { id: "actors-title" }, "Actors"),
        this.summary,
        element("div", { className: "tools" }, this.filter, this.limit, this.back, this.on),
      ),
      this.error,
      element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-labelledby": "actors-title" }, table),
      this.nothing,
    );
  }

  /** Shows a new query in the controls, before its answer arrives. */
  asked(query) {
    this.query = query;
    setText(this.error, "");
    setAttribute(this.filter, "aria-invalid", null);
    if (document.activeElement !== this.filter) this.filter.value = query.filter;
    this.limit.value = String(query.limit);
    this.#showOrder(true);
  }

  #showOrder(isSorted) {
    const order = this.query.order === "asc" ? "ascending" : "descending";
    for (const [sort, cell] of this.heads) {
      setAttribute(cell, "aria-sort", isSorted && sort === this.query.sort ? order : null);
    }
  }

  /** The server refused the query. */
  refused(text) {
    setText(this.error, text);
    setAttribute(this.filter, "aria-invalid", "true");
  }

  turn(pages) {
    const { offset, limit } = this.query;
    const last = Math.max(0, Math.ceil(this.matched / limit) - 1) * limit;
    this.ask({ offset: Math.min(last, Math.max(0, offset + pages * limit)) });
  }

  /** Moves the focus by `steps` rows from its last position. */
  move(steps) {
    const { rows } = this.body;
    if (rows.length === 0) return;
    const isInside = this.body.contains(document.activeElement);
    const next = isInside ? this.row + steps : Math.max(0, this.row);
    rows[Math.min(rows.length - 1, Math.max(0, next))].querySelector("button").focus();
  }

  /** Only the last focused row can be reached with Tab. */
  #reach(button) {
    if (this.reached !== null) this.reached.tabIndex = -1;
    this.reached = button;
    this.row = button.closest("tr").sectionRowIndex;
    button.tabIndex = 0;
  }

  #filterNow() {
    clearTimeout(this.typing);
    this.ask({ filter: this.filter.value.trim(), offset: 0 });
  }

  #sort({ sort, isText }) {
    const isSame = this.query.sort === sort;
    const order = isSame ? (this.query.order === "asc" ? "desc" : "asc") : isText ? "asc" : "desc";
    this.ask({ sort, order, offset: 0 });
  }

  take({ frame: { system } }) {
    if (system === null) return;
    const { offset, matched, has_times: hasTimes } = system.actors;
    this.matched = matched;
    if (hasTimes !== false && offset > 0 && offset >= matched) this.turn(0);
  }

  draw({ frame: { system } }) {
    setShown(this.node, system !== null);
    if (system === null) return;
    const { actors, is_alive: isAlive } = system;
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    this.rows.show(actors.rows, (row) => row.id, (child, row) => {
      child.show(row, { isOpen: String(row.id) === this.query.actor, isAlive });
    });
    // A moved row loses the focus.
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
    if (!this.reached?.isConnected && this.body.rows.length > 0) this.#reach(this.body.rows[0].querySelector("button"));
    // Order and filter are not valid until the times that they need are read.
    const hasTimes = actors.has_times !== false;
    this.#showOrder(hasTimes);
    setText(this.summary, hasTimes ? summaryOf(system) : `${count(actors.total)} in all; times are being read`);
    setText(this.nothing, hasTimes ? "No actor matches." : "Times are being read.");
    setShown(this.nothing, actors.rows.length === 0);
    this.back.disabled = actors.offset === 0;
    this.on.disabled = actors.offset + actors.rows.length >= actors.matched;
  }
}
