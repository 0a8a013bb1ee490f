// The panels beneath the actors, one for each thing that counts. What is not there is not shown.

import { CACHE } from "./cache.js";
import { Children } from "./dom.js";
import { Group } from "./groups.js";
import { Io } from "./io.js";
import { REDIS } from "./redis.js";
import { SourcePanel } from "./source.js";
import { STREAM } from "./streams.js";

const KINDS = { stream: STREAM, redis: REDIS, cache: CACHE };
const PANELS_MAX = 64;

export class Panels {
  constructor(view) {
    this.io = new Io(view);
    this.items = new Children(document.getElementById("panels"), (key) => this.#make(view, key));
    this.made = new Map();
  }

  #make(view, key) {
    const { source, group } = this.made.get(key);
    if (group !== undefined) return new Group(group);
    return source === undefined ? this.io : new SourcePanel(view, source, KINDS[source.kind] ?? null);
  }

  take(board) {
    const { system, sources } = board.frame;
    this.io.take(board);
    this.made.clear();
    for (const source of sources.slice(0, PANELS_MAX)) this.made.set(`source ${source.kind} ${source.name}`, { source });
    if (system?.poller) this.made.set("io", {});
    for (const group of system?.groups ?? []) this.made.set(`group ${group.id}`, { group });
    this.items.show([...this.made], ([key]) => key, (item, [, { source, group }]) => {
      if (source ?? group) item.take(source ?? group, board);
    });
  }

  draw(board) {
    for (const item of this.items.byKey.values()) item.draw(board);
  }
}
