// The bar at the top: the shown system and the state of the connection.

import { element, setAttribute, setShown, setText } from "./dom.js";
import { age, wallTime } from "./format.js";

const NEWEST = "";
const NOTHING = "No system is watched yet. The first one that is will be shown here.";
/** An older frame is marked as such. */
const FRESH_MS = 2_500;
/** The time before an unfinished connection is shown. */
const PATIENCE_MS = 1_500;

const node = (id) => document.getElementById(id);

export class Status {
  constructor({ ask, retry, pause }) {
    this.system = node("system");
    this.names = null;
    this.at = null;
    this.failure = null;
    this.timer = 0;
    this.patience = 0;
    this.cameAt = Infinity;
    setInterval(() => this.#showAge(), 500);
    this.system.addEventListener("change", () => {
      ask({ system: this.system.value, offset: 0, actor: "" }, { isStep: true });
    });
    node("pause").addEventListener("click", pause);
    this.again = retry;
    this.retry = element("button", { type: "button" }, "Try now");
    this.retry.addEventListener("click", () => this.again());
    this.bannerText = element("span");
    node("banner").append(this.bannerText, this.retry);
  }

  opening() {
    clearTimeout(this.patience);
    this.patience = setTimeout(() => this.#state("connecting", "connecting"), PATIENCE_MS);
  }

  live(frame, isPaused) {
    clearTimeout(this.patience);
    this.at = frame.at_ms;
    this.cameAt = performance.now();
    this.failure = null;
    clearInterval(this.timer);
    setShown(node("banner"), false);
    document.body.classList.remove("stale");
    if (!isPaused) this.#state("live", "live");
  }

  /** `retryAt` is a time on `performance.now()`. */
  lost(reason, retryAt) {
    clearTimeout(this.patience);
    clearInterval(this.timer);
    this.failure = { reason, retryAt };
    this.timer = setInterval(() => this.#showFailure(), 500);
    this.#showFailure();
    this.#state("lost", "connection lost");
    document.body.classList.add("stale");
  }

  /** Nothing more is shown: the page does not fit this version of the board. */
  broken() {
    clearTimeout(this.patience);
    clearInterval(this.timer);
    this.again = () => location.reload();
    setText(this.retry, "Reload");
    setText(this.bannerText, "This page does not understand the board: reload.");
    setShown(node("banner"), true);
    this.#state("lost", "stopped");
    document.body.classList.add("stale");
  }

  paused(isPaused) {
    const button = node("pause");
    setAttribute(button, "aria-pressed", String(isPaused));
    setText(button, isPaused ? "Go on" : "Pause");
    clearTimeout(this.patience);
    clearInterval(this.timer);
    setShown(node("banner"), false);
    document.body.classList.remove("stale");
    const since = this.at === null ? "" : ` at ${wallTime(this.at)}`;
    if (isPaused) this.#state("paused", `paused${since}`);
  }

  draw(frame, query) {
    const names = frame.systems ?? [];
    const wanted = query.system;
    const key = JSON.stringify([names, wanted]);
    if (key !== this.names) {
      this.names = key;
      const newest = names.length > 0 ? `newest (${names.at(-1)})` : "newest";
      const options = [element("option", { value: NEWEST }, newest)];
      for (const name of names) options.push(element("option", { value: name }, name));
      if (wanted !== NEWEST && !names.includes(wanted)) {
        options.push(element("option", { value: wanted }, `${wanted} (gone)`));
      }
      this.system.replaceChildren(...options);
      this.system.value = wanted;
    }
    const { system } = frame;
    setShown(node("ended"), system !== null && !system.is_alive);
    setShown(node("empty"), system === null);
    setText(node("empty"), wanted === NEWEST ? NOTHING : `No system called ${wanted} is watched.`);
    const title = system === null ? "Freeboard" : `${system.name} \u00b7 Freeboard`;
    if (document.title !== title) document.title = title;
  }

  /** Separate from the state, so that screen readers do not announce it every second. */
  #showAge() {
    const oldMs = performance.now() - this.cameAt;
    const isLive = node("connection").dataset.state === "live";
    setText(node("age"), isLive && oldMs > FRESH_MS ? `as of ${age(oldMs * 1e6)} ago` : "");
  }

  #state(state, text) {
    const pill = node("connection");
    setAttribute(pill, "data-state", state);
    setText(pill, text);
  }

  #showFailure() {
    const { reason, retryAt } = this.failure;
    const seconds = Math.max(0, Math.ceil((retryAt - performance.now()) / 1_000));
    const again = seconds > 0 ? `trying again in ${seconds} s` : "trying again now";
    const shown = this.at === null ? "" : ` Shown: as of ${wallTime(this.at)}.`;
    setText(this.bannerText, `Connection lost (${reason}), ${again}.${shown}`);
    setShown(node("banner"), true);
  }
}
