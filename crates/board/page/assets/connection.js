// The connection to the server: one stream of events, parsed here.
//
// `EventSource` hides the status and the text of an answer that is not a stream, so the stream is read
// through `fetch`. When it ends, it is opened again after a pause that doubles up to five seconds.

const RETRY_MS_MIN = 250;
const RETRY_MS_MAX = 5_000;
/** Frames may be ten seconds apart; a stream that is silent for this long is dead. */
const SILENCE_MS_MAX = 20_000;
/** The maximum length of a frame, in characters. */
const EVENT_LENGTH_MAX = 16 * 1024 * 1024;
const REASON_LENGTH_MAX = 200;

/** An answer that is not a stream. */
class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Yields the data of each event of a stream. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      let from = 0;
      for (;;) {
        const end = text.indexOf("\n\n", from);
        if (end < 0) break;
        const lines = text.slice(from, end).split("\n");
        from = end + 2;
        const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
        if (data.length > 0) yield data.join("\n");
      }
      text = text.slice(from);
      if (text.length > EVENT_LENGTH_MAX) throw new Error("the server sent more than a frame can be");
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The first line of an answer that is not a stream. */
async function refusalOf(response) {
  const text = (await response.text()).split("\n", 1)[0].trim().slice(0, REASON_LENGTH_MAX);
  return new Refusal(response.status, text || `the server answered ${response.status}`);
}

/** Keeps one stream open. */
export class Connection {
  /**
   * `onFrame(frame)` gets each frame; `onLost(reason, retryAt)` each failure, with the time on
   * `performance.now()` of the next attempt; `onRefused(text)` a query that the server refuses: if it returns
   * true, it has replaced the query.
   */
  constructor({ onFrame, onLost, onRefused }) {
    Object.assign(this, { onFrame, onLost, onRefused });
    this.address = null;
    this.attempt = null;
    this.timer = 0;
    this.failures = 0;
  }

  /** Replaces the query. */
  open(address) {
    this.close();
    this.address = address;
    this.#connect();
  }

  /** Ends the stream. */
  close() {
    clearTimeout(this.timer);
    this.attempt?.abort();
    this.attempt = null;
  }

  /** Ends a pause before its time. */
  retryNow() {
    if (this.attempt !== null || this.address === null) return;
    clearTimeout(this.timer);
    this.#connect();
  }

  async #connect() {
    const attempt = new AbortController();
    this.attempt = attempt;
    const watch = () => setTimeout(() => attempt.abort(new Error("the server has fallen silent")), SILENCE_MS_MAX);
    let silence = watch();
    try {
      const response = await fetch(this.address, {
        headers: { Accept: "text/event-stream" },
        cache: "no-store",
        signal: attempt.signal,
      });
      if (!response.ok) throw await refusalOf(response);
      for await (const data of events(response.body)) {
        if (this.attempt !== attempt) return;
        clearTimeout(silence);
        silence = watch();
        this.failures = 0;
        this.onFrame(JSON.parse(data));
      }
      throw new Error("the server ended the stream");
    } catch (error) {
      if (this.attempt === attempt) this.#failed(error, attempt);
    } finally {
      clearTimeout(silence);
    }
  }

  #failed(error, attempt) {
    attempt.abort();
    this.attempt = null;
    if (error instanceof Refusal && error.status === 400 && this.onRefused(error.message)) return;
    const pause = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(this.failures, 10));
    this.failures += 1;
    this.timer = setTimeout(() => this.#connect(), pause);
    this.onLost(reasonOf(error, attempt), performance.now() + pause);
  }
}

function reasonOf(error, attempt) {
  const reason = attempt.signal.reason;
  if (error instanceof Refusal) return error.message;
  if (error instanceof SyntaxError) return "the server sent something that is not a frame";
  if (error instanceof TypeError) return "the server cannot be reached";
  return reason instanceof Error && reason.name === "Error" ? reason.message : error.message;
}
