// Rows over time as heat, classes as a coloured line, and marks for what happened.

import { count, percent, ratio, words } from "./format.js";
import { colour, heat } from "./theme.js";
import { TimeCanvas } from "./timecanvas.js";

/** One row for each track; the share of `most` gives the colour. */
export class HeatStrip extends TimeCanvas {
  /** `scale(most)` gives a function from a value to its share of the colours; `format` names a value. */
  constructor(view, { scale, format, most = null, label, colourOf = heat }) {
    super(view, { height: 22, label });
    Object.assign(this, { scale, format, most, colourOf });
    this.rows = [];
    this.rowHeight = 22;
  }

  /** Rows are `{ track, name }`, from the top; each so many pixels high. */
  setRows(rows, rowHeight, isLabelled) {
    this.rows = rows;
    this.rowHeight = rowHeight;
    this.left = isLabelled ? 26 : 0;
    const height = rows.length * rowHeight;
    if (height !== this.height) this.setHeight(height);
  }

  paint(context) {
    const values = this.rows.map(({ track }) => this.ring.values(track));
    const share = this.scale(this.most ?? this.#greatest(values));
    context.fillStyle = colour("hole");
    context.fillRect(this.left, 0, this.width, this.height);
    this.columns((index, left, right) => {
      for (let row = 0; row < values.length; row += 1) {
        const value = values[row]?.[index];
        if (value === undefined || Number.isNaN(value)) continue;
        context.fillStyle = this.colourOf(share(value));
        context.fillRect(left, row * this.rowHeight + 1, right - left + 0.6, this.rowHeight - 2);
      }
    });
  }

  paintOver(context) {
    if (this.left === 0) return;
    context.fillStyle = colour("dim");
    context.textAlign = "left";
    for (const [row, { name }] of this.rows.entries()) {
      context.fillText(name, 0, (row + 0.5) * this.rowHeight);
    }
  }

  describe(index, top) {
    const row = this.rows[Math.floor(top / this.rowHeight)];
    const value = row && this.ring.values(row.track)?.[index];
    if (value === undefined || value === null || Number.isNaN(value)) return row ? [`${row.name}: not known`] : [];
    return [`${row.name}: ${this.format(value)}`];
  }

  #greatest(values) {
    let most = 1;
    this.ring.each(this.from, (index) => {
      for (const row of values) {
        if (row?.[index] > most) most = row[index];
      }
    });
    this.greatest = most;
    return most;
  }
}

/** Long queues must not hide short ones: 0 apart, then by logarithm. */
export function logarithmic(most) {
  const whole = Math.log1p(Math.max(most, 8));
  return (value) => Math.log1p(value) / whole;
}

/** Shares as they are. */
export const linear = () => (value) => value;

/** Shares of time by state, stacked over time. */
export class StackStrip extends TimeCanvas {
  /** Parts are `{ track, name, colour }`, from below. */
  constructor(view, { parts, height, label }) {
    super(view, { height, label, hasAxis: true });
    this.parts = parts;
  }

  paint(context) {
    const parts = this.parts.map((part) => [colour(part.colour), this.ring.values(part.track)]);
    this.columns((index, left, right) => {
      let base = this.height;
      for (const [fill, values] of parts) {
        const value = values?.[index];
        if (!(value > 0)) continue;
        const high = value * this.height;
        base -= high;
        context.fillStyle = fill;
        context.fillRect(left, base, right - left + 0.6, high + 0.3);
      }
    });
  }

  describe(index) {
    const lines = [];
    for (const { track, name, colour: part } of this.parts) {
      const value = this.ring.values(track)?.[index];
      if (value > 0.0005) lines.push([colour(part), name, percent(value)]);
    }
    return lines;
  }
}

export const CLASSES = [
  { name: "even", colour: "even" },
  { name: "minority_zero", colour: "minority" },
  { name: "unbalanced", colour: "unbalanced" },
];

export const MARKS = [
  { track: "rescues", name: "rescue", glyph: "\u25b2", colour: "blocked" },
  { track: "reliefs", name: "relief", glyph: "\u25c6", colour: "search" },
  { track: "collapses", name: "collapse", glyph: "\u2715", colour: "bad" },
  { track: "forced_wakes", name: "forced wake", glyph: "\u25cf", colour: "spin" },
  { track: "long_runs", name: "long run", glyph: "\u25a0", colour: "run" },
];

const LINE_HEIGHT = 18;
const MARK_HEIGHT = 13;
/** How near to a mark the pointer must be, in pixels. */
const MARK_REACH = 5;

/** How evenly work lies on the queues, as a line of three levels, and a row for each kind of mark. */
export class EventStrip extends TimeCanvas {
  constructor(view, label) {
    super(view, { height: LINE_HEIGHT + 4 + MARKS.length * MARK_HEIGHT, label, hasAxis: true });
  }

  paint(context) {
    const classes = this.ring.values("class");
    this.columns((index, left, right) => {
      const level = classes?.[index];
      if (level === undefined || Number.isNaN(level)) return;
      const at = Math.round(level);
      context.fillStyle = colour(CLASSES[at].colour);
      const high = 4 + at * 6;
      context.fillRect(left, LINE_HEIGHT - high, right - left + 0.6, high);
    });
    context.textAlign = "center";
    for (const [row, mark] of MARKS.entries()) {
      const y = LINE_HEIGHT + 4 + (row + 0.5) * MARK_HEIGHT;
      context.strokeStyle = colour("rule");
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(this.left, Math.round(y) + 0.5);
      context.lineTo(this.width, Math.round(y) + 0.5);
      context.stroke();
      const values = this.ring.values(mark.track);
      context.fillStyle = colour(mark.colour);
      let last = -Infinity;
      this.ring.each(this.from, (index, time) => {
        const x = this.x(time);
        // Marks that would lie on each other are one; the tip tells how many.
        if (!(values?.[index] > 0) || x - last < MARK_REACH) return;
        context.fillText(mark.glyph, x, y);
        last = x;
      });
    }
  }

  describe(index) {
    const level = this.ring.values("class")?.[index];
    const lines = [];
    if (level !== undefined && !Number.isNaN(level)) {
      const { name, colour: part } = CLASSES[Math.round(level)];
      const longest = this.ring.values("ratio")?.[index];
      lines.push([colour(part), "queues", `${words(name)}, longest over median ${ratio(longest)}`]);
    }
    const middle = this.ring.times[index];
    const reach = (MARK_REACH / (this.width - this.left)) * this.view.spanMs;
    for (const { track, name, colour: part } of MARKS) {
      const values = this.ring.values(track);
      let sum = 0;
      this.ring.each(middle - reach, (at, time) => {
        if (Math.abs(time - middle) <= reach && values?.[at] > 0) sum += values[at];
      });
      if (sum > 0) lines.push([colour(part), name, count(sum)]);
    }
    return lines;
  }
}
