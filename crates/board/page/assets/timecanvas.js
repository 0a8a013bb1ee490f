// A canvas whose x axis is time, with the newest at the right.
//
// All canvases share one view, so that the line under the pointer is at the same time everywhere. Canvases outside
// the screen are not painted.

import { element } from "./dom.js";
import { age } from "./format.js";
import { colour } from "./theme.js";
import { hideTip, showTip } from "./tip.js";

const AXIS_HEIGHT = 15;

let family = null;

function font() {
  family ??= getComputedStyle(document.body).fontFamily;
  return `10px ${family}`;
}

/** Shared by all time canvases. */
export class View {
  /** `onChange()` is called when everything must be repainted. */
  constructor(onChange) {
    this.onChange = onChange;
    /** The time of the newest frame, in milliseconds of the server's monotonic clock. */
    this.now = 0;
    this.spanMs = 60_000;
    /** The time under the pointer, if any. */
    this.cursor = null;
  }
}

const onScreen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    target.timeCanvas.isOnScreen = isIntersecting;
    if (isIntersecting) target.timeCanvas.view.onChange();
  }
});

// Reading the size of a canvas would force a layout during drawing.
const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    target.timeCanvas.width = contentRect.width;
    target.timeCanvas.fullHeight = contentRect.height;
    target.timeCanvas.view.onChange();
  }
});

export class TimeCanvas {
  /** `label` is what a screen reader says; `hasAxis` whether there are times beneath. */
  constructor(view, { height, label, left = 0, hasAxis = false }) {
    this.view = view;
    this.left = left;
    this.hasAxis = hasAxis;
    this.isOnScreen = false;
    this.width = 0;
    this.fullHeight = 0;
    this.node = element("canvas", { className: "time", role: "img", "aria-label": label });
    this.node.timeCanvas = this;
    this.context = this.node.getContext("2d");
    this.pointer = null;
    this.setHeight(height);
    onScreen.observe(this.node);
    resized.observe(this.node);
    this.node.addEventListener("pointermove", (event) => this.#point(event));
    this.node.addEventListener("pointerleave", () => this.#leave());
  }

  setHeight(height) {
    this.height = height;
    this.node.style.height = `${height + (this.hasAxis ? AXIS_HEIGHT : 0)}px`;
  }

  /** Paints it, with `paint` of the class. */
  draw(history) {
    const { width, fullHeight } = this;
    if (!this.isOnScreen || width === 0) return;
    const scale = devicePixelRatio;
    const [pixelsWide, pixelsHigh] = [Math.round(width * scale), Math.round(fullHeight * scale)];
    if (this.node.width !== pixelsWide || this.node.height !== pixelsHigh) {
      this.node.width = pixelsWide;
      this.node.height = pixelsHigh;
    }
    this.ring = history.ring(this.view.spanMs);
    this.from = this.view.now - this.view.spanMs;
    const { context } = this;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, fullHeight);
    context.font = font();
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, this.height);
    context.clip();
    this.paint(context);
    this.#paintCursor(context);
    context.restore();
    this.paintOver?.(context);
    if (this.hasAxis) this.#paintAxis(context);
    if (this.pointer !== null) this.#showTip();
  }

  /** The x position of a time. */
  x(time) {
    return this.left + ((time - this.from) / this.view.spanMs) * (this.width - this.left);
  }

  /** The extent of a column that ends at `time`: from the previous one, or the usual time of a frame. */
  columns(visit) {
    let before = NaN;
    const least = Math.max(1, (this.ring.periodMs / this.view.spanMs) * (this.width - this.left));
    this.ring.each(this.from, (index, time, isGap) => {
      const right = this.x(time);
      visit(index, isGap ? right - least : before, right);
      before = right;
    });
  }

  /** The whole pixels of an image that begins at the left edge of the plot: from, and to before. */
  pixelsOf(left, right) {
    const from = Math.round(left - this.left);
    return [from, Math.max(from + 1, Math.round(right - this.left))];
  }

  /** The text of the tip at a time; `top` is the y position of the pointer. */
  describeAt(time, top) {
    const index = this.ring.near(time);
    return index < 0 ? ["nothing was seen then"] : this.describe(index, top);
  }

  #paintCursor(context) {
    const { cursor } = this.view;
    if (cursor === null || cursor < this.from) return;
    const x = Math.round(this.x(cursor)) + 0.5;
    context.strokeStyle = colour("dim");
    context.lineWidth = 1;
    context.setLineDash([2, 2]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, this.height);
    context.stroke();
    context.setLineDash([]);
  }

  #paintAxis(context) {
    const isMinutes = this.view.spanMs > 60_000;
    const parts = this.width - this.left < 260 ? 2 : 4;
    context.fillStyle = colour("dim");
    for (let part = 0; part <= parts; part += 1) {
      const back = (this.view.spanMs * (parts - part)) / parts;
      const text = back === 0 ? "now" : `\u2212${isMinutes ? `${back / 60_000} min` : `${back / 1_000} s`}`;
      context.textAlign = part === 0 ? "left" : part === parts ? "right" : "center";
      context.fillText(text, this.left + ((this.width - this.left) * part) / parts, this.height + 9);
    }
  }

  #point(event) {
    if (this.ring === undefined) return;
    const box = this.node.getBoundingClientRect();
    const share = (event.clientX - box.left - this.left) / (this.width - this.left);
    if (share < 0 || share > 1) {
      this.#leave();
      return;
    }
    this.pointer = { share, x: event.clientX, y: event.clientY, top: event.clientY - box.top };
    this.view.cursor = this.from + share * this.view.spanMs;
    this.view.onChange();
  }

  #leave() {
    this.pointer = null;
    this.view.cursor = null;
    hideTip(this.node);
    this.view.onChange();
  }

  #showTip() {
    const time = this.from + this.pointer.share * this.view.spanMs;
    const ago = `${age((this.view.now - time) * 1e6)} ago`;
    showTip(this.node, this.pointer.x, this.pointer.y, [ago, ...this.describeAt(time, this.pointer.top)]);
  }
}
