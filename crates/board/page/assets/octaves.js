// A histogram over time: seconds on the x axis, octaves of time on the y axis, counts as colour.
//
// The server sends totals by octave; a column is the difference of two of them.

import { compact, duration } from "./format.js";
import { colour, pixelScale } from "./theme.js";
import { Pixels } from "./pixels.js";
import { TimeCanvas } from "./timecanvas.js";

const OCTAVES = 64;
const COLUMNS_MAX = 640;
const COLUMN_MS = 1_000;
const OCTAVES_SHOWN_MIN = 8;
const GUTTER = 46;

/** The index of an octave: 0 for a time of 0, then 1 ns, 2 ns, 4 ns. */
const indexOf = (fromNs) => (fromNs < 1 ? 0 : Math.min(OCTAVES - 1, Math.round(Math.log2(fromNs)) + 1));
const lowestOf = (octave) => (octave === 0 ? 0 : 2 ** (octave - 1));

/** The time in nanoseconds that a share of the times in `counts` does not exceed, within an octave. */
function quantile(counts, total, share) {
  let left = share * total;
  for (let octave = 0; octave < OCTAVES; octave += 1) {
    const here = counts[octave];
    if (here > 0 && left <= here) return octave === 0 ? 0 : lowestOf(octave) * 2 ** (left / here);
    left -= here;
  }
  return NaN;
}

/** The last ten minutes of one histogram: a column per second, or per frame if frames are rarer. */
export class OctaveHistory {
  constructor() {
    this.starts = new Float64Array(COLUMNS_MAX);
    this.ends = new Float64Array(COLUMNS_MAX);
    this.columns = Array.from({ length: COLUMNS_MAX }, () => null);
    this.totals = null;
    this.head = -1;
    this.length = 0;
  }

  /** Takes totals, `time` in milliseconds; `isGap` if the time before it is unknown. */
  take(time, octaves, isGap) {
    const totals = new Float64Array(OCTAVES);
    for (const { from_ns: fromNs, count } of octaves) totals[indexOf(fromNs)] += count;
    const before = this.totals;
    const isComparable = before !== null && !isGap && totals.every((it, at) => it >= before[at]);
    this.totals = totals;
    const last = this.length > 0 ? this.ends[this.head] : NaN;
    const isSame = isComparable && Math.floor(time / COLUMN_MS) === Math.floor(last / COLUMN_MS);
    if (!isSame) this.#begin(isComparable ? last : time);
    this.ends[this.head] = time;
    if (!isComparable) return;
    const column = this.columns[this.head];
    for (let octave = 0; octave < OCTAVES; octave += 1) column[octave] += totals[octave] - before[octave];
  }

  #begin(start) {
    this.head = (this.head + 1) % COLUMNS_MAX;
    this.length = Math.min(this.length + 1, COLUMNS_MAX);
    this.columns[this.head] ??= new Float32Array(OCTAVES);
    this.columns[this.head].fill(0);
    this.starts[this.head] = start;
  }

  /** Calls `visit(start, end, counts)` for each column that ends after `from`, newest first. */
  each(from, visit) {
    for (let back = 0; back < this.length; back += 1) {
      const index = (this.head + COLUMNS_MAX - back) % COLUMNS_MAX;
      if (this.ends[index] < from) return;
      visit(this.starts[index], this.ends[index], this.columns[index]);
    }
  }
}

/** The lines over the heat. */
export const QUANTILES = [
  { share: 0.5, name: "p50", colour: "p50" },
  { share: 0.99, name: "p99", colour: "p99" },
];

/** Paints one histogram over time, with its median and its p99. */
export class OctaveMap extends TimeCanvas {
  constructor(view, octaves, label) {
    super(view, { height: 120, label, left: GUTTER, hasAxis: true });
    this.octaves = octaves;
    this.pixels = new Pixels();
  }

  paint(context) {
    context.fillStyle = colour("hole");
    context.fillRect(0, 0, this.width, this.height);
    const { lowest, highest, most } = this.#extent();
    Object.assign(this, { lowest, highest });
    this.rowHeight = this.height / (highest - lowest + 1);
    const scale = Math.log1p(most);
    const pixelFor = pixelScale("heat");
    const wide = Math.max(1, Math.round(this.width - this.left));
    this.pixels.begin(wide, highest - lowest + 1);
    const lines = QUANTILES.map(() => []);
    this.octaves.each(this.from, (start, end, counts) => {
      const [left, right] = [this.x(start), this.x(end)];
      const [from, to] = this.pixelsOf(left, right);
      let total = 0;
      for (let octave = lowest; octave <= highest; octave += 1) {
        total += counts[octave];
        if (!(counts[octave] > 0)) continue;
        const row = highest - octave;
        this.pixels.fill(from, to, row, row + 1, pixelFor(Math.log1p(counts[octave]) / scale));
      }
      if (total === 0) return;
      for (const [at, { share }] of QUANTILES.entries()) lines[at].push([left, right, quantile(counts, total, share)]);
    });
    this.pixels.paint(context, this.left, 0, wide, this.height);
    for (const [at, line] of lines.entries()) this.#paintSteps(context, line, colour(QUANTILES[at].colour));
  }

  #paintSteps(context, line, stroke) {
    for (const [width, style] of [[4, colour("hole")], [1.8, stroke]]) {
      context.lineWidth = width;
      context.strokeStyle = style;
      context.beginPath();
      let expected = NaN;
      for (const [left, right, value] of line) {
        const y = this.#y(value < 1 ? 0.5 : Math.log2(value) + 1);
        if (Math.abs(right - expected) < 1) context.lineTo(right, y);
        else context.moveTo(right, y);
        context.lineTo(left, y);
        expected = left;
      }
      context.stroke();
    }
  }

  /** The y position of an octave, in pixels. */
  #y(octave) {
    return (this.highest + 1 - octave) * this.rowHeight;
  }

  #extent() {
    let [lowest, highest, most] = [OCTAVES, 0, 1];
    this.octaves.each(this.from, (start, end, counts) => {
      for (let octave = 0; octave < OCTAVES; octave += 1) {
        if (!(counts[octave] > 0)) continue;
        lowest = Math.min(lowest, octave);
        highest = Math.max(highest, octave);
        most = Math.max(most, counts[octave]);
      }
    });
    if (lowest > highest) [lowest, highest] = [10, 20];
    while (highest - lowest + 1 < OCTAVES_SHOWN_MIN) {
      if (highest < OCTAVES - 1) highest += 1;
      if (lowest > 0) lowest -= 1;
    }
    return { lowest, highest, most };
  }

  paintOver(context) {
    context.fillStyle = colour("dim");
    context.textAlign = "right";
    const step = Math.max(1, Math.ceil(16 / this.rowHeight));
    for (let octave = this.lowest; octave <= this.highest; octave += step) {
      const y = this.#y(octave);
      context.fillText(duration(lowestOf(octave)), GUTTER - 4, Math.max(6, Math.min(this.height - 6, y)));
    }
  }

  describeAt(time) {
    let found = null;
    this.octaves.each(time, (start, end, counts) => {
      if (start <= time) found ??= counts;
    });
    if (found === null) return ["nothing was seen then"];
    const total = found.reduce((sum, it) => sum + it, 0);
    if (total === 0) return ["none measured then"];
    const lines = QUANTILES.map((it) => [colour(it.colour), it.name, duration(quantile(found, total, it.share))]);
    return [`${compact(total)} measured`, ...lines];
  }
}
