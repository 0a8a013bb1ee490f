// Rates of counters: what they grew by, over the time in which they did. A system and each source have
// their own, because each is read at a time of its own.
//
// A counter that fell was begun anew, and over a gap nobody knows when it grew (then all are cleared):
// neither has a rate.

/** Over so long for figures, which must stand still to be read, */
const FIGURE_MS = 1_000;
/** and for plots, where it evens out that not everything is counted at the moment of the frame. */
const PLOT_MS = 250;
const SAMPLES_MAX = 16;
const COUNTERS_MAX = 8_192;

class Counter {
  constructor() {
    this.times = new Float64Array(SAMPLES_MAX);
    this.values = new Float64Array(SAMPLES_MAX);
    this.clear();
  }

  clear() {
    this.head = -1;
    this.length = 0;
  }

  push(time, value) {
    if (this.length > 0 && time === this.times[this.head]) return;
    if (this.length > 0 && value < this.values[this.head]) this.clear();
    this.head = (this.head + 1) % SAMPLES_MAX;
    this.times[this.head] = time;
    this.values[this.head] = value;
    this.length = Math.min(this.length + 1, SAMPLES_MAX);
  }

  /** Growth since the sample before. */
  growth() {
    if (this.length < 2) return NaN;
    return this.values[this.head] - this.values[(this.head + SAMPLES_MAX - 1) % SAMPLES_MAX];
  }

  /** Growth a second since the newest sample that is at least `window` old, or the oldest. */
  rate(window) {
    if (this.length < 2) return NaN;
    let from = this.head;
    for (let back = 1; back < this.length; back += 1) {
      from = (this.head + SAMPLES_MAX - back) % SAMPLES_MAX;
      if (this.times[this.head] - this.times[from] >= window) break;
    }
    return ((this.values[this.head] - this.values[from]) * 1_000) / (this.times[this.head] - this.times[from]);
  }
}

/** The counters of what is read at one time. Keys that a frame does not have are forgotten. */
export class Counters {
  constructor() {
    this.byKey = new Map();
    this.time = 0;
    this.isNew = false;
    this.seen = new Set();
  }

  clear() {
    this.byKey.clear();
    this.seen.clear();
  }

  /** Begins a frame; what it counts was read at `time`, in milliseconds of a clock that never jumps. */
  begin(time) {
    for (const key of this.byKey.keys()) {
      if (!this.seen.has(key)) this.byKey.delete(key);
    }
    this.seen.clear();
    this.isNew = time !== this.time;
    this.time = time;
  }

  /** Takes a total in, once a frame. Gives its growth a second as plots show it, or `NaN`. */
  take(key, value) {
    let counter = this.byKey.get(key);
    if (counter === undefined) {
      if (this.byKey.size >= COUNTERS_MAX) return NaN;
      counter = new Counter();
      this.byKey.set(key, counter);
    }
    if (!this.seen.has(key)) {
      this.seen.add(key);
      counter.push(this.time, value);
    }
    return counter.rate(PLOT_MS);
  }

  /** Growth since the frame before, or `NaN`; also if nothing was read since. */
  growth(key) {
    return this.isNew ? (this.byKey.get(key)?.growth() ?? NaN) : NaN;
  }

  /** Growth a second as figures show it, or `NaN`. */
  rate(key) {
    return this.byKey.get(key)?.rate(FIGURE_MS) ?? NaN;
  }
}
