// The panel of a source: facts and charts if its kind is known, and all of its metrics.
//
// A kind is plain data: `rates` (names of counters), `gauges` (functions of the families), `charts` (lines of
// these values), `facts`, and optionally a `table`.

import { Counters } from "./counters.js";
import { Children, element, setShown, setText, tableHead } from "./dom.js";
import { bytes, bytesPerSecond, count, duration, NONE, notShown, rate } from "./format.js";
import { Families } from "./families.js";
import { Facts, panel, Table } from "./panel.js";
import { Chart } from "./plot.js";

const SAMPLES_SHOWN_MAX = 500;

/** A sample's value, in the unit of its name. */
function figureOf(family, { value }) {
  const name = family.name.replace(/_total$/, "");
  if (name.endsWith("_seconds")) return duration(value * 1e9);
  if (name.endsWith("_bytes")) return bytes(value);
  return Number.isInteger(value) ? count(value) : value.toPrecision(3);
}

function rateOf(family, perSecond) {
  return family.name.endsWith("_bytes_total") ? bytesPerSecond(perSecond) : rate(perSecond);
}

/** A row for each sample, with the rates of counters. */
class FamilyTable {
  constructor() {
    this.body = element("tbody");
    const heads = [["Family", ""], ["Labels", ""], ["Value", "number"], ["Rate", "number"]];
    const table = element("table", { className: "families" }, tableHead(heads), this.body);
    this.more = element("p", { className: "note", hidden: true });
    this.node = element("div", { className: "scroll" }, table, this.more);
    this.rows = new Children(this.body, () => {
      const cells = ["labels dim", "number", "number"].map((className) => element("td", { className }));
      cells.unshift(element("th", { scope: "row" }));
      return { node: element("tr", {}, ...cells), cells };
    });
  }

  draw(families, counters) {
    const samples = families.flatMap((family) => family.samples.map((sample) => ({ family, sample })));
    const shown = samples.slice(0, SAMPLES_SHOWN_MAX);
    this.rows.show(shown, ({ sample }) => keyOf(sample), ({ node, cells }, { family, sample }) => {
      node.title = family.help;
      setText(cells[0], sample.name);
      setText(cells[1], sample.labels.map(([name, value]) => `${name}=${value}`).join(" "));
      setText(cells[2], figureOf(family, sample));
      setText(cells[3], isGrowing(family, sample) ? rateOf(family, counters.rate(keyOf(sample))) : NONE);
    });
    setText(this.more, notShown(samples.length - SAMPLES_SHOWN_MAX, "sample"));
    setShown(this.more, samples.length > SAMPLES_SHOWN_MAX);
  }

  /** Takes the counters. */
  take(families, counters) {
    let left = SAMPLES_SHOWN_MAX;
    for (const family of families) {
      for (const sample of family.samples) {
        left -= 1;
        if (left < 0) return;
        if (isGrowing(family, sample)) counters.take(keyOf(sample), sample.value);
      }
    }
  }
}

const keyOf = (sample) => `${sample.name} ${sample.labels.join(" ")}`;

/** Whether a sample is a counter: of a counter family, or the count of a summary. */
function isGrowing(family, sample) {
  return family.kind === "counter" || (family.kind === "summary" && sample.name === `${family.name}_count`);
}

export class SourcePanel {
  /** `key` is unique among sources; `kind` is undefined for unknown kinds. */
  constructor(view, key, { kind, title, name }) {
    this.kind = kind;
    this.key = key;
    this.counters = new Counters();
    this.node = panel(`${title}-${name}`, kind?.title ?? title, name);
    this.table = kind?.table && new Table(kind.table.label, kind.table.heads, kind.table);
    this.facts = kind && new Facts();
    this.charts = (kind?.charts ?? []).map(({ lines, ...chart }) => {
      const tracked = lines.map((line) => ({ ...line, track: `${this.key}.${line.value}` }));
      return new Chart(view, { ...chart, lines: tracked });
    });
    this.all = new FamilyTable();
    this.details = element("details", { open: !kind }, element("summary", {}, "All figures"), this.all.node);
    for (const part of [this.facts, ...this.charts, this.table]) if (part) this.node.append(part.node);
    this.node.append(this.details);
    this.values = {};
  }

  take(source, { frame, history, isGap }) {
    const { counters } = this;
    if (isGap) counters.clear();
    counters.begin((source.at_ns || frame.at_ns) / 1e6);
    this.source = source;
    this.families = new Families(source.families);
    if (this.details.open) this.all.take(source.families, counters);
    if (!this.kind) return;
    for (const [name, counter] of Object.entries(this.kind.rates)) {
      const total = this.families.total(counter);
      if (Number.isNaN(total)) continue;
      history.set(`${this.key}.${name}`, counters.take(name, total));
    }
    for (const [name, read] of Object.entries(this.kind.gauges)) {
      this.values[name] = read(this.families);
      history.set(`${this.key}.${name}`, this.values[name]);
    }
  }

  draw({ history }) {
    const { counters } = this;
    if (this.details.open) this.all.draw(this.source.families, counters);
    if (!this.kind) return;
    for (const name of Object.keys(this.kind.rates)) this.values[name] = counters.rate(name);
    const valueOf = (track) => this.values[track.slice(this.key.length + 1)];
    this.facts.draw(this.kind.facts(this.families, this.values).filter(([, text]) => !text.includes(NONE)));
    for (const chart of this.charts) chart.draw(history, valueOf);
    this.table?.draw(this.kind.table.rows(this.families));
  }
}
