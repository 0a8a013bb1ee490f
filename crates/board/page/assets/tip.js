// The tip beside the pointer.

import { element } from "./dom.js";

const tip = document.getElementById("tip");
let owner = null;

/** Shows lines, each a text or `[colour, name, figure]`, beside a point of the window. */
export function showTip(node, x, y, lines) {
  if (lines.length === 0) {
    hideTip(node);
    return;
  }
  owner = node;
  tip.replaceChildren(
    ...lines.map((line) => {
      if (typeof line === "string") return element("p", {}, line);
      const [colour, name, figure] = line;
      const swatch = element("i", { className: "swatch" });
      swatch.style.background = colour;
      return element("p", {}, swatch, `${name} `, element("b", {}, figure));
    }),
  );
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - height - 4))}px`;
}

/** Hides the box if it is this node's. */
export function hideTip(node) {
  if (owner !== node) return;
  owner = null;
  tip.hidden = true;
}
