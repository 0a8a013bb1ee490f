// The usual time between frames, and so the pause that counts as a gap.
//
// The server limits the board's overhead: frames of a large system, or of a debug build, may be seconds apart, and
// that is not a gap.

const GAP_MS_MIN = 2_000;
const GAP_MS_MAX = 30_000;
/** A pause of this many usual ones is a gap. */
const USUAL_TIMES = 4;
/** The weight of a pause in the usual one, and the longest pause that is counted. */
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

  /** Takes the time of a frame, in milliseconds; returns whether it follows a gap. */
  take(time) {
    const pause = time - this.time;
    const limit = Math.min(GAP_MS_MAX, Math.max(GAP_MS_MIN, this.usualMs * USUAL_TIMES));
    this.time = time;
    if (Number.isNaN(pause)) return true;
    this.usualMs += WEIGHT * (Math.min(pause, PAUSE_MS_MAX) - this.usualMs);
    return pause > limit;
  }
}
