// Parts of panels: facts and tables.

import { Children, element, setShare, setShown, setText, tableHead } from "./dom.js";
import { count, words } from "./format.js";

/** A list of named values; missing values are hidden. */
export class Facts {
  constructor() {
    this.node = element("dl", { className: "facts-grid" });
    this.items = new Children(this.node, (name) => {
      const figure = element("dd");
      return { node: element("div", {}, element("dt", { title: name }, name), figure), figure };
    });
  }

  /** Facts are `[name, text, isAlarm]`. */
  draw(facts) {
    this.items.show(facts, ([name]) => name, ({ node, figure }, [, text, isAlarm = false]) => {
      setText(figure, text);
      node.classList.toggle("alarm", isAlarm);
    });
  }
}

/** A fact for each reason of shedding. */
export function shedFacts(byReason, isAlarm) {
  const some = [...byReason].filter(([, number]) => number > 0);
  return some.map(([reason, number]) => [`shed: ${words(reason)}`, count(number), isAlarm]);
}

/** A table of texts, a row for each key, its first column the row's name. */
export class Table {
  constructor(label, heads, { isText = [] } = {}) {
    const classOf = (at) => (at === 0 || isText.includes(at) ? "" : "number");
    this.body = element("tbody");
    const table = element(
      "table",
      { "aria-label": label },
      tableHead(heads.map((head, at) => [head, classOf(at)])),
      this.body,
    );
    this.node = element("div", { className: "scroll" }, table);
    this.rows = new Children(this.body, () => {
      const cells = heads.slice(1).map((_, at) => element("td", { className: classOf(at + 1) }));
      cells.unshift(element("th", { scope: "row" }));
      return { node: element("tr", {}, ...cells), cells };
    });
  }

  /** Rows are lists of cells: text, `{ text, className }` or `{ share }`. */
  draw(rows) {
    setShown(this.node, rows.length > 0);
    this.rows.show(rows, (row, at) => `${at} ${row[0].text ?? row[0]}`, ({ cells }, row) => {
      for (const [at, cell] of row.entries()) drawCell(cells[at], cell);
    });
  }
}

function drawCell(node, cell) {
  if (typeof cell === "string") {
    setText(node, cell);
  } else if (cell.share !== undefined) {
    if (node.firstChild === null) node.append(element("i", { className: "share" }));
    setShare(node.firstChild, cell.share);
  } else {
    setText(node, cell.text);
    if (node.className !== cell.className) node.className = cell.className;
  }
}

/** A panel with a title; tests find it by `name`. */
export function panel(name, title, subtitle) {
  const id = `panel-${name}`;
  return element(
    "section",
    { className: "panel source", "data-test": id, "aria-label": title },
    element("div", { className: "panel-head" }, element("h2", {}, title), element("p", { className: "summary" }, subtitle)),
  );
}
