// The balance of the queues as a coloured line, and marks for actions of the monitor.

import { count, ratio, words } from "./format.js";
import { colour } from "./theme.js";
import { TimeCanvas } from "./timecanvas.js";

export const CLASSES = [
  { name: "even", colour: "even" },
  { name: "minority_zero", colour: "minority" },
  { name: "unbalanced", colour: "unbalanced" },
];

/** Empty queues count as unbalanced, but are no reason for alarm. */
const NOTHING_QUEUED = { name: "nothing queued", colour: "park" };

const levelOf = (value) => CLASSES[value] ?? NOTHING_QUEUED;

export const MARKS = [
  { track: "rescues", name: "rescue", glyph: "\u25b2", colour: "blocked" },
  { track: "reliefs", name: "relief", glyph: "\u25c6", colour: "search" },
  { track: "collapses", name: "collapse", glyph: "\u2715", colour: "bad" },
  { track: "forced_wakes", name: "forced wake", glyph: "\u25cf", colour: "queued" },
  { track: "long_runs", name: "long run", glyph: "\u25a0", colour: "run" },
];

const LINE_HEIGHT = 18;
const MARK_HEIGHT = 13;
/** The maximum distance of the pointer from a mark, in pixels. */
const MARK_REACH = 5;

/** The balance of the queues as a line of three levels, and a row for each kind of mark. */
export class EventStrip extends TimeCanvas {
  constructor(view, label) {
    super(view, { height: LINE_HEIGHT + 4 + MARKS.length * MARK_HEIGHT, label, hasAxis: true });
  }

  paint(context) {
    this.#paintClasses(context);
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
        const x = Math.min(this.x(time), this.width - MARK_REACH);
        // Overlapping marks are merged; the tip shows their number.
        if (!(values?.[index] > 0) || x - last < MARK_REACH) return;
        context.fillText(mark.glyph, x, y);
        last = x;
      });
    }
  }

  /** One rectangle per change. */
  #paintClasses(context) {
    const classes = this.ring.values("class");
    let run = null;
    const paintRun = () => {
      if (run === null) return;
      const high = run.level < CLASSES.length ? 4 + run.level * 6 : 2;
      context.fillStyle = colour(levelOf(run.level).colour);
      context.fillRect(run.left, LINE_HEIGHT - high, run.right - run.left, high);
    };
    this.columns((index, left, right) => {
      const level = classes?.[index] ?? NaN;
      if (run !== null && run.level === level && run.right === left) {
        run.right = right;
        return;
      }
      paintRun();
      run = Number.isNaN(level) ? null : { level, left, right };
    });
    paintRun();
  }

  describe(index) {
    const level = this.ring.values("class")?.[index];
    const lines = [];
    if (level !== undefined && !Number.isNaN(level)) {
      const { name, colour: part } = levelOf(level);
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
