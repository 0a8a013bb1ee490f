// The panels below the actors, one for each source. Panels without data are hidden.

import { CACHE } from "./cache.js";
import { Children, setShown, setText } from "./dom.js";
import { notShown } from "./format.js";
import { Group } from "./groups.js";
import { Io } from "./io.js";
import { REDIS } from "./redis.js";
import { REMOTE } from "./remote.js";
import { SourcePanel } from "./source.js";
import { STREAM } from "./streams.js";

const KINDS = { stream: STREAM, redis: REDIS, cache: CACHE, remote: REMOTE };
const SOURCES_SHOWN_MAX = 64;

export class Panels {
  constructor(view) {
    this.io = new Io(view);
    this.more = document.getElementById("panels-more");
    this.items = new Children(document.getElementById("panels"), (key) => this.#make(view, key));
    this.made = new Map();
  }

  #make(view, key) {
    const { source, group, name } = this.made.get(key);
    if (group !== undefined) return new Group(group);
    if (source === undefined) return this.io;
    return new SourcePanel(view, key, { kind: KINDS[source.kind] ?? null, title: source.kind, name });
  }

  take(board) {
    const { system, sources } = board.frame;
    this.io.take(board);
    this.made.clear();
    for (const source of sources.slice(0, SOURCES_SHOWN_MAX)) this.#add(source);
    if (system?.poller) this.made.set("io", {});
    for (const group of system?.groups ?? []) this.made.set(`group ${group.id}`, { group });
    this.items.show([...this.made], ([key]) => key, (item, [, { source, group }]) => {
      if (source ?? group) item.take(source ?? group, board);
    });
  }

  /** Sources with the same name are distinguished by their order. */
  #add(source) {
    const keyOf = (number) => JSON.stringify(["source", source.kind, source.name, number]);
    let number = 1;
    while (this.made.has(keyOf(number))) number += 1;
    this.made.set(keyOf(number), { source, name: number === 1 ? source.name : `${source.name} (${number})` });
  }

  draw(board) {
    for (const item of this.items.byKey.values()) item.draw(board);
    const { system, sources, sources_more: sourcesMore = 0 } = board.frame;
    const texts = [
      notShown(Math.max(0, sources.length - SOURCES_SHOWN_MAX) + sourcesMore, "source"),
      notShown(system?.groups_more, "group"),
    ];
    const text = texts.filter(Boolean).join("; ");
    setText(this.more, text);
    setShown(this.more, text !== "");
  }
}
