// Rates of counters. A system and each source have their own, because each is read at its own time.
//
// A counter that decreased was reset, and has no rate. After a gap all counters are cleared.

/** The window for numbers, which must be stable to be read, */
const FIGURE_MS = 1_000;
/** and for plots, which smooths counters that are updated in batches. */
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

  /** Growth since the previous sample. */
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

/** Counters that are read at the same time. Keys that a frame lacks are forgotten. */
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

  /** Begins a frame that was read at `time`, in milliseconds of a monotonic clock. */
  begin(time) {
    for (const key of this.byKey.keys()) {
      if (!this.seen.has(key)) this.byKey.delete(key);
    }
    this.seen.clear();
    this.isNew = time !== this.time;
    this.time = time;
  }

  /** Takes a total, once per frame. Returns its rate for plots, or `NaN`. */
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

  /** Growth since the previous frame, or `NaN`, also without a new reading. */
  growth(key) {
    return this.isNew ? (this.byKey.get(key)?.growth() ?? NaN) : NaN;
  }

  /** The rate for numbers, or `NaN`. */
  rate(key) {
    return this.byKey.get(key)?.rate(FIGURE_MS) ?? NaN;
  }
}
