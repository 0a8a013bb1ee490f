// The board's page: takes frames from the server, keeps counters and history, and draws.
//
// frame -> counters and history (each panel's `take`) -> one drawing per animation frame (each `draw`).

import { Connection } from "./assets/connection.js";
import { Counters } from "./assets/counters.js";
import { History } from "./assets/history.js";
import { Pace } from "./assets/pace.js";
import { View } from "./assets/timecanvas.js";
import { changed, fromHash, isQuery, toParameters } from "./assets/query.js";
import { chooseTheme } from "./assets/theme.js";
import { Overview } from "./assets/overview.js";
import { Workers } from "./assets/workers.js";
import { Actors } from "./assets/actors.js";
import { ActorDetail } from "./assets/actor.js";
import { Panels } from "./assets/panels.js";
import { Status } from "./assets/status.js";
import { listenToKeys } from "./assets/keys.js";

const HIDDEN_MS_MAX = 60_000;
/** Numbers that change more often cannot be read; the user's actions are shown at once. */
const DRAWING_MS_MIN = 190;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

class Board {
  constructor() {
    this.query = fromHash(location.hash);
    this.answered = null;
    this.frame = null;
    this.beginning = "";
    this.isPaused = false;
    this.isBroken = false;
    this.isDrawing = false;
    this.drawnAt = 0;
    this.counters = new Counters();
    this.history = new History();
    this.pace = new Pace();
    this.isGap = true;
    this.view = new View(() => this.redraw());
    const ask = (changes, options) => this.ask(changes, options);
    this.status = new Status({ ask, retry: () => this.connection.retryNow(), pause: () => this.pause() });
    this.actors = new Actors(ask);
    this.panels = [
      new Overview(this.view),
      new Workers(this.view),
      this.actors,
      new ActorDetail(this.view, ask),
      new Panels(this.view),
    ];
    this.connection = new Connection({
      onFrame: (frame) => this.guard(() => this.take(frame)),
      onLost: (reason, retryAt) => this.status.lost(reason, retryAt),
      onRefused: (text) => this.refused(text),
    });
    this.listen();
    this.open();
  }

  listen() {
    let timer = 0;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => this.connection.close(), HIDDEN_MS_MAX);
      else if (this.connection.attempt === null && !this.isPaused) this.open();
    });
    addEventListener("hashchange", () => {
      if (!isQuery(location.hash)) return;
      this.query = fromHash(location.hash);
      this.open();
    });
    // As a link it would replace the query in the address.
    document.getElementById("skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.actors.node.focus({ preventScroll: true });
      this.actors.node.scrollIntoView();
    });
    for (const button of document.querySelectorAll("[data-span]")) {
      button.addEventListener("click", () => {
        this.view.spanMs = Number(button.dataset.span);
        for (const other of document.querySelectorAll("[data-span]")) {
          other.setAttribute("aria-pressed", String(other === button));
        }
        this.redraw();
      });
    }
    chooseTheme(document.getElementById("theme"), () => this.redraw());
    listenToKeys({ pause: () => this.pause(), actors: this.actors, closeActor: () => this.ask({ actor: "" }) });
  }

  /** Changes the query; with `isStep` the browser's back button undoes it. */
  ask(changes, { isStep = false } = {}) {
    const query = changed(this.query, changes);
    const parameters = toParameters(query).toString();
    if (parameters === toParameters(this.query).toString()) return;
    this.query = query;
    const address = parameters === "" ? location.pathname + location.search : `#${parameters}`;
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.open();
  }

  open() {
    if (this.isBroken) return;
    this.actors.asked(this.query);
    this.status.opening();
    this.connect(this.query);
    this.redraw();
  }

  connect(query) {
    const parameters = toParameters(query);
    parameters.set("hz", calm.matches ? "2" : "10");
    this.connection.open(`events?${parameters}`);
  }

  /** A query that the server refuses is replaced by the last valid one. */
  refused(text) {
    this.actors.refused(text);
    const fallback = this.answered ?? changed(this.query, { system: "", filter: "" });
    if (toParameters(fallback).toString() === toParameters(this.query).toString()) return false;
    this.query = fallback;
    this.connect(fallback);
    return true;
  }

  pause() {
    if (this.isBroken) return;
    this.isPaused = !this.isPaused;
    this.status.paused(this.isPaused);
    if (this.isPaused) this.connection.close();
    else this.open();
  }

  /** Takes or draws a frame. If that fails, the page does not fit this version of the board, and stops. */
  guard(act) {
    if (this.isBroken) return;
    try {
      act();
    } catch (error) {
      this.isBroken = true;
      console.error(error);
      this.connection.close();
      this.status.broken();
    }
  }

  take(frame) {
    const time = frame.at_ns / 1e6;
    const beginning = `${frame.board} ${frame.system?.name ?? ""}`;
    if (beginning !== this.beginning) {
      this.beginning = beginning;
      this.counters.clear();
      this.history.clear();
      this.pace.clear();
    } else if (time < this.view.now) {
      return;
    }
    this.view.now = time;
    this.frame = frame;
    const isFirst = this.answered !== this.query;
    this.answered = this.query;
    this.isGap = this.pace.take(time);
    // Counters of an ended system have no rates.
    if (this.isGap || !frame.system?.is_alive) this.counters.clear();
    this.counters.begin((frame.system?.at_ns || frame.at_ns) / 1e6);
    this.history.begin(time, this.isGap);
    for (const panel of this.panels) panel.take(this);
    this.status.live(frame, this.isPaused);
    if (this.isPaused) this.connection.close();
    if (performance.now() - this.drawnAt >= DRAWING_MS_MIN || isFirst) this.redraw();
  }

  redraw() {
    if (this.isDrawing || document.hidden) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      if (this.frame === null) return;
      this.drawnAt = performance.now();
      this.guard(() => this.draw());
    });
  }

  draw() {
    this.status.draw(this.frame, this.query);
    for (const panel of this.panels) panel.draw(this);
  }
}

new Board();
