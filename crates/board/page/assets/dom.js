// DOM nodes: created once, changed only where they differ.

/**
 * A new element. Properties in camel case are set on the node, `data-`, `aria-` and `role` as attributes;
 * children are nodes or text, and never markup.
 */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node && !name.includes("-")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** A small square in the colour of a custom property, for legends. */
export function swatch(name) {
  const node = element("i", { className: "swatch" });
  node.style.background = `var(--${name})`;
  return node;
}

/** The head of a table; each column is `[text, className]`. */
export function tableHead(columns) {
  const cells = columns.map(([text, className]) => element("th", { scope: "col", className }, text));
  return element("thead", {}, element("tr", {}, ...cells));
}

/** Sets a node's text if it differs. The node has no other children. */
export function setText(node, text) {
  const first = node.firstChild;
  if (first === null) node.textContent = text;
  else if (first.data !== text) first.data = text;
}

/** Sets an attribute if it differs; `null` removes it. */
export function setAttribute(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

/** Shows or hides a node. */
export function setShown(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/** Fills a bar up to a share of one. */
export function setShare(bar, share) {
  const size = `${(Math.min(1, share) * 100).toFixed(1)}% 100%`;
  if (bar.style.backgroundSize !== size) bar.style.backgroundSize = size;
}

/**
 * The children of a parent, one for each key, in the order of the keys. Existing children keep their nodes, and so
 * focus and selection.
 */
export class Children {
  /** `make(key)` gives an object with a `node`. */
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.byKey = new Map();
  }

  /** Matches the children to `items`, and calls `update(child, item)` for each. */
  show(items, keyOf, update) {
    const wanted = new Map();
    for (const item of items) wanted.set(keyOf(item), item);
    for (const [key, child] of this.byKey) {
      if (wanted.has(key)) continue;
      child.node.remove();
      this.byKey.delete(key);
    }
    let next = this.parent.firstChild;
    for (const [key, item] of wanted) {
      let child = this.byKey.get(key);
      if (child === undefined) {
        child = this.make(key);
        this.byKey.set(key, child);
      }
      update(child, item);
      if (child.node === next) next = next.nextSibling;
      else this.parent.insertBefore(child.node, next);
    }
  }
}
