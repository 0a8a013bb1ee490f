// The history: rings of columns, each with a time and a value for each track.
//
// There are two rings, because ten minutes at ten frames a second are wider than a plot: the fine ring has every
// frame of the last minute, the coarse ring a column for each second of the last ten.

const TRACKS_MAX = 2_048;

class Track {
  constructor(capacity) {
    this.values = new Float32Array(capacity).fill(NaN);
    this.parts = 0;
    this.isUsed = true;
  }
}

class Ring {
  constructor(capacity, periodMs) {
    this.capacity = capacity;
    this.periodMs = periodMs;
    this.times = new Float64Array(capacity);
    this.gaps = new Uint8Array(capacity);
    this.clear();
  }

  clear() {
    this.head = -1;
    this.length = 0;
    this.tracks = new Map();
  }

  /** Begins a column, unless `time` belongs to the last one. */
  begin(time, isGap) {
    const period = (it) => Math.floor(it / this.periodMs);
    if (this.length > 0 && period(time) === period(this.times[this.head])) return;
    this.head = (this.head + 1) % this.capacity;
    this.length = Math.min(this.length + 1, this.capacity);
    this.times[this.head] = time;
    this.gaps[this.head] = isGap ? 1 : 0;
    for (const [name, track] of this.tracks) {
      track.values[this.head] = NaN;
      track.parts = 0;
      if (this.head > 0) continue;
      // Once a round: tracks without a value in it are removed.
      if (!track.isUsed) this.tracks.delete(name);
      track.isUsed = false;
    }
  }

  set(name, value, merge) {
    let track = this.tracks.get(name);
    if (track === undefined) {
      if (this.tracks.size >= TRACKS_MAX) return;
      track = new Track(this.capacity);
      this.tracks.set(name, track);
    }
    if (Number.isNaN(value)) return;
    track.parts += 1;
    track.isUsed = true;
    const before = track.values[this.head];
    track.values[this.head] = track.parts === 1 ? value : merge(before, value, track.parts);
  }

  /** Calls `visit(index, time, isGap)` for the column before `from` and each one after it, the oldest first. */
  each(from, visit) {
    let isFirst = true;
    let back = this.length - 1;
    while (back > 0 && this.times[this.#at(back - 1)] < from) back -= 1;
    for (; back >= 0; back -= 1) {
      const index = this.#at(back);
      visit(index, this.times[index], isFirst || this.gaps[index] === 1);
      isFirst = false;
    }
  }

  /** The index of the column that shows `time`, the first that ends after it; -1 in a gap. */
  near(time) {
    let found = -1;
    for (let back = 0; back < this.length; back += 1) {
      const index = this.#at(back);
      if (this.times[index] < time) break;
      found = index;
    }
    return found >= 0 && this.gaps[found] === 0 ? found : -1;
  }

  values(name) {
    return this.tracks.get(name)?.values ?? null;
  }

  #at(back) {
    return (this.head + this.capacity - back) % this.capacity;
  }
}

/** How the values of one second are combined. */
const MEAN = (before, value, parts) => before + (value - before) / parts;
export const MOST = (before, value) => Math.max(before, value);
export const SUM = (before, value) => before + value;

export class History {
  constructor() {
    this.fine = new Ring(640, 1);
    this.coarse = new Ring(640, 1_000);
  }

  clear() {
    this.fine.clear();
    this.coarse.clear();
  }

  /** Begins a column, `time` in milliseconds; `isGap` if the time before it is unknown. */
  begin(time, isGap) {
    this.fine.begin(time, isGap);
    this.coarse.begin(time, isGap);
  }

  set(name, value, merge = MEAN) {
    this.fine.set(name, value, merge);
    this.coarse.set(name, value, merge);
  }

  /** The ring for a time span, in milliseconds. */
  ring(spanMs) {
    return spanMs <= 60_000 ? this.fine : this.coarse;
  }
}
