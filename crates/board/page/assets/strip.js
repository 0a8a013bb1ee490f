// Heat maps and stacked shares over time.

import { percent } from "./format.js";
import { Pixels } from "./pixels.js";
import { colour, pixelOf, pixelScale } from "./theme.js";
import { TimeCanvas } from "./timecanvas.js";

/** One row for each track; the share of `most` gives the colour. */
export class HeatStrip extends TimeCanvas {
  /** `scale(most)` returns a function from a value to its share of the ramp; `format` formats a value. */
  constructor(view, { scale, ramp, format, label }) {
    super(view, { height: 22, label });
    Object.assign(this, { scale, ramp, format });
    this.rows = [];
    this.rowHeight = 22;
    /** The greatest visible value, which has the last colour of the ramp. */
    this.greatest = 0;
    this.pixels = new Pixels();
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
    this.greatest = this.#greatest(values);
    const share = this.scale(this.greatest);
    const pixelFor = pixelScale(this.ramp);
    const width = Math.max(1, Math.round(this.width - this.left));
    this.pixels.begin(width, Math.max(1, values.length));
    this.columns((index, left, right) => {
      const [from, to] = this.pixelsOf(left, right);
      for (let row = 0; row < values.length; row += 1) {
        const value = values[row]?.[index];
        if (value === undefined || Number.isNaN(value)) continue;
        this.pixels.fill(from, to, row, row + 1, pixelFor(share(value)));
      }
    });
    context.fillStyle = colour("hole");
    context.fillRect(this.left, 0, this.width, this.height);
    this.pixels.paint(context, this.left, 0, width, this.height);
    context.fillStyle = colour("panel");
    for (let row = 1; row < values.length; row += 1) context.fillRect(this.left, row * this.rowHeight - 1, this.width, 2);
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
    return most;
  }
}

/** The least maximum of a scale of queue lengths, so that a queue of one does not look long. */
export const QUEUE_SCALE_MIN = 8;

/** Logarithmic, so that long queues do not hide short ones. */
export function logarithmic(most) {
  const whole = Math.log1p(Math.max(most, QUEUE_SCALE_MIN));
  return (value) => Math.log1p(value) / whole;
}

/** Linear, for shares. */
export const linear = () => (value) => value;

/** Shares of time by state, stacked over time. */
export class StackStrip extends TimeCanvas {
  /** Parts are `{ track, name, colour }`, from below. */
  constructor(view, { parts, height, label }) {
    super(view, { height, label, hasAxis: true });
    this.parts = parts;
    this.pixels = new Pixels();
  }

  paint(context) {
    const parts = this.parts.map((part) => [pixelOf(part.colour), this.ring.values(part.track)]);
    const width = Math.max(1, Math.round(this.width - this.left));
    this.pixels.begin(width, this.height);
    this.columns((index, left, right) => {
      const [from, to] = this.pixelsOf(left, right);
      let sum = 0;
      let bottom = this.height;
      for (const [pixel, values] of parts) {
        const value = values?.[index];
        if (!(value > 0)) continue;
        sum += value;
        const top = Math.max(0, Math.round(this.height * (1 - sum)));
        this.pixels.fill(from, to, top, bottom, pixel);
        bottom = top;
      }
    });
    this.pixels.paint(context, this.left, 0, width, this.height);
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
