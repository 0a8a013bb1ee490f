// Lines over time, from zero up.

import { element, setText, swatch } from "./dom.js";
import { colour } from "./theme.js";
import { TimeCanvas } from "./timecanvas.js";

/** The least of 1, 2 and 5 times a power of ten that is not below `value`. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5, 10].find((it) => it * power >= value * 0.999);
  return factor * power;
}

/** Lines on one scale. A line is `{ track, name, colour }`, its colour the name of a custom property. */
export class Plot extends TimeCanvas {
  /** `format` formats a value; `max` fixes the scale; `isFilled` fills the area below the first line. */
  constructor(view, { lines, format, max = null, height = 56, label, hasAxis = false, isFilled = true, isBare = false }) {
    super(view, { height, label, hasAxis });
    Object.assign(this, { lines, format, max, isFilled, isBare });
  }

  paint(context) {
    const shown = this.lines.map((line) => [line, this.ring.values(line.track)]).filter(([, values]) => values);
    const top = this.max ?? ceiling(this.#most(shown));
    this.top = top;
    const y = (value) => this.height - 1 - (value / top) * (this.height - (this.isBare ? 3 : 8));
    if (!this.isBare) this.#paintGrid(context, y, top);
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    for (const [at, [line, values]] of [...shown.entries()].reverse()) {
      context.strokeStyle = colour(line.colour);
      context.fillStyle = colour(line.colour);
      this.#paintLine(context, values, y, this.isFilled && at === 0);
    }
  }

  #most(shown) {
    let most = 0;
    this.ring.each(this.from, (index) => {
      for (const [, values] of shown) {
        if (values[index] > most) most = values[index];
      }
    });
    return most;
  }

  #paintGrid(context, y, top) {
    context.strokeStyle = colour("rule");
    context.lineWidth = 1;
    context.beginPath();
    for (const value of [0, top / 2, top]) {
      const at = Math.round(y(value)) - 0.5;
      context.moveTo(0, at);
      context.lineTo(this.width, at);
    }
    context.stroke();
  }

  #paintLine(context, values, y, isFilled) {
    let runs = [];
    this.ring.each(this.from, (index, time, isGap) => {
      const value = values[index];
      if (isGap || Number.isNaN(value)) runs.push([]);
      if (!Number.isNaN(value)) runs.at(-1)?.push(this.x(time), y(value));
    });
    for (const points of runs) {
      if (points.length < 2) continue;
      context.beginPath();
      context.moveTo(points[0], points[1]);
      if (points.length === 2) context.lineTo(points[0] + 1, points[1]);
      for (let at = 2; at < points.length; at += 2) context.lineTo(points[at], points[at + 1]);
      context.stroke();
      if (!isFilled) continue;
      context.lineTo(points.at(-2), this.height);
      context.lineTo(points[0], this.height);
      context.globalAlpha = 0.12;
      context.fill();
      context.globalAlpha = 1;
    }
  }

  paintOver(context) {
    if (this.isBare) return;
    context.textAlign = "left";
    const text = this.format(this.top);
    context.fillStyle = colour("panel");
    context.globalAlpha = 0.75;
    context.fillRect(0, 1, context.measureText(text).width + 6, 13);
    context.globalAlpha = 1;
    context.fillStyle = colour("dim");
    context.fillText(text, 2, 8);
  }

  describe(index) {
    const lines = [];
    for (const line of this.lines) {
      const value = this.ring.values(line.track)?.[index];
      if (value !== undefined && !Number.isNaN(value)) lines.push([colour(line.colour), line.name, this.format(value)]);
    }
    return lines;
  }
}

/** A plot with a title and a legend that has the current values. */
export class Chart {
  constructor(view, { title, lines, ...options }) {
    this.plot = new Plot(view, { lines, label: `${title} over time`, hasAxis: true, ...options });
    this.figures = new Map();
    const legend = element("ul", { className: "legend" });
    for (const line of lines) {
      const figure = element("b");
      this.figures.set(line.track, figure);
      legend.append(element("li", {}, swatch(line.colour), `${line.name} `, figure));
    }
    this.node = element("figure", { className: "chart" }, element("figcaption", {}, title, legend), this.plot.node);
  }

  /** Paints the plot and updates the legend. */
  draw(history, valueOf) {
    for (const [track, figure] of this.figures) setText(figure, this.plot.format(valueOf(track)));
    this.plot.draw(history);
  }
}
