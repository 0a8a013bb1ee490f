// How often frames come, and so after how long a pause nobody can say what happened in between.
//
// The server spends no more than a small share of a processor on being looked at: from a large system, or
// one that was built without optimisation, frames come seconds apart, and that is no gap.

const GAP_MS_MIN = 2_000;
const GAP_MS_MAX = 30_000;
/** A pause of so many usual ones is a gap. */
const USUAL_TIMES = 4;
/** What one pause counts of the usual one, and the longest that it may count for. */
const WEIGHT = 0.2;
const PAUSE_MS_MAX = 12_000;

export class Pace {
  constructor() {
    this.clear();
  }

  clear() {
    this.time = NaN;
    this.usualMs = 0;
  }

  /** Takes the time of a frame, in milliseconds, and tells whether it comes after a gap. */
  take(time) {
    const pause = time - this.time;
    const limit = Math.min(GAP_MS_MAX, Math.max(GAP_MS_MIN, this.usualMs * USUAL_TIMES));
    this.time = time;
    if (Number.isNaN(pause)) return true;
    this.usualMs += WEIGHT * (Math.min(pause, PAUSE_MS_MAX) - this.usualMs);
    return pause > limit;
  }
}
