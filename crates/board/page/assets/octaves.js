// A histogram over time: seconds from left to right, octaves of time upwards, how many as heat.
//
// The server gives totals by octave; what a second added is their difference.

import { compact, duration } from "./format.js";
import { colour, heat } from "./theme.js";
import { GAP_MS_MAX } from "./counters.js";
import { TimeCanvas } from "./timecanvas.js";

const OCTAVES = 64;
const COLUMNS_MAX = 640;
const COLUMN_MS = 1_000;
const OCTAVES_SHOWN_MIN = 8;
const GUTTER = 46;

/** The place of an octave: 0 for what took no time, then 1 ns, 2 ns, 4 ns. */
const placeOf = (fromNs) => (fromNs < 1 ? 0 : Math.min(OCTAVES - 1, Math.round(Math.log2(fromNs)) + 1));
const lowestOf = (place) => (place === 0 ? 0 : 2 ** (place - 1));

/** The time in nanoseconds that a share of the times in `counts` does not exceed, within an octave. */
function quantile(counts, total, share) {
  let left = share * total;
  for (let place = 0; place < OCTAVES; place += 1) {
    const here = counts[place];
    if (here > 0 && left <= here) return place === 0 ? 0 : lowestOf(place) * 2 ** (left / here);
    left -= here;
  }
  return NaN;
}

/** The last ten minutes of one histogram, a column a second. */
export class OctaveHistory {
  constructor() {
    this.times = new Float64Array(COLUMNS_MAX);
    this.columns = Array.from({ length: COLUMNS_MAX }, () => null);
    this.totals = null;
    this.time = 0;
    this.head = -1;
    this.length = 0;
  }

  /** Takes totals in, `time` in milliseconds. */
  take(time, octaves) {
    const totals = new Float64Array(OCTAVES);
    for (const { from_ns: fromNs, count } of octaves) totals[placeOf(fromNs)] += count;
    const before = this.totals;
    const isComparable = before !== null && time - this.time <= GAP_MS_MAX && totals.every((it, at) => it >= before[at]);
    this.totals = totals;
    this.time = time;
    const second = Math.floor(time / COLUMN_MS);
    if (this.length === 0 || second !== Math.floor(this.times[this.head] / COLUMN_MS)) {
      this.head = (this.head + 1) % COLUMNS_MAX;
      this.length = Math.min(this.length + 1, COLUMNS_MAX);
      this.columns[this.head] = null;
    }
    this.times[this.head] = time;
    if (!isComparable) return;
    const column = (this.columns[this.head] ??= new Float32Array(OCTAVES));
    for (let place = 0; place < OCTAVES; place += 1) column[place] += totals[place] - before[place];
  }

  /** Calls `visit(time, counts)` for each column that has any since `from`, newest first. */
  each(from, visit) {
    for (let back = 0; back < this.length; back += 1) {
      const index = (this.head + COLUMNS_MAX - back) % COLUMNS_MAX;
      if (this.times[index] < from) return;
      if (this.columns[index] !== null) visit(this.times[index], this.columns[index]);
    }
  }
}

const QUANTILES = [
  { share: 0.5, name: "p50", colour: "p50" },
  { share: 0.99, name: "p99", colour: "p99" },
];

/** Paints one histogram over time, with its median and its p99. */
export class OctaveMap extends TimeCanvas {
  constructor(view, octaves, label) {
    super(view, { height: 120, label, left: GUTTER, hasAxis: true });
    this.octaves = octaves;
  }

  paint(context) {
    context.fillStyle = colour("hole");
    context.fillRect(0, 0, this.width, this.height);
    const { lowest, highest, most } = this.#extent();
    Object.assign(this, { lowest, highest });
    this.rowHeight = this.height / (highest - lowest + 1);
    const width = (COLUMN_MS / this.view.spanMs) * (this.width - this.left);
    const scale = Math.log1p(most);
    const lines = QUANTILES.map(() => []);
    this.octaves.each(this.from - COLUMN_MS, (time, counts) => {
      const right = this.x(Math.ceil(time / COLUMN_MS) * COLUMN_MS);
      let total = 0;
      for (let place = lowest; place <= highest; place += 1) {
        total += counts[place];
        if (!(counts[place] > 0)) continue;
        context.fillStyle = heat(Math.log1p(counts[place]) / scale);
        context.fillRect(right - width, this.#y(place + 1), width + 0.4, this.rowHeight + 0.4);
      }
      if (total === 0) return;
      for (const [at, { share }] of QUANTILES.entries()) lines[at].push([right - width, right, quantile(counts, total, share)]);
    });
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

  /** Where a place on the scale of octaves lies, in pixels from above. */
  #y(place) {
    return (this.highest + 1 - place) * this.rowHeight;
  }

  #extent() {
    let [lowest, highest, most] = [OCTAVES, 0, 1];
    this.octaves.each(this.from, (_, counts) => {
      for (let place = 0; place < OCTAVES; place += 1) {
        if (!(counts[place] > 0)) continue;
        lowest = Math.min(lowest, place);
        highest = Math.max(highest, place);
        most = Math.max(most, counts[place]);
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
    for (let place = this.lowest; place <= this.highest; place += step) {
      const y = this.#y(place);
      context.fillText(duration(lowestOf(place)), GUTTER - 4, Math.max(6, Math.min(this.height - 6, y)));
    }
  }

  describeAt(time) {
    let found = null;
    this.octaves.each(time - 2 * COLUMN_MS, (at, counts) => {
      if (Math.abs(at - time) <= COLUMN_MS) found ??= counts;
    });
    if (found === null) return ["nothing was seen then"];
    const total = found.reduce((sum, it) => sum + it, 0);
    const lines = QUANTILES.map(({ share, name, colour: line }) => [colour(line), name, duration(quantile(found, total, share))]);
    return [`${compact(total)} in this second`, ...(total > 0 ? lines : [])];
  }
}
