// A group of actors: its router and the messages of its members.

import { element, setShown, setText } from "./dom.js";
import { compact, count, notShown, rate, ratio, shortType, words } from "./format.js";
import { panel, Table } from "./panel.js";

const MEMBERS_SHOWN_MAX = 64;
/** From here on one member has twice its share. */
const SKEW_ALARM = 2;

/** Messages redirected from this member and taken over by it, because a member had terminated. */
function moved({ redirected, taken_over: takenOver }) {
  const away = redirected > 0 ? `\u2212${compact(redirected)}` : "";
  const here = takenOver > 0 ? `+${compact(takenOver)}` : "";
  return [away, here].filter(Boolean).join(" ") || "0";
}

export class Group {
  constructor(group) {
    this.key = `group.${group.id}`;
    const name = group.name ?? `${shortType(group.actor_type)} #${group.id}`;
    this.node = panel(`group-${group.name ?? group.id}`, "Group", name);
    this.summary = this.node.querySelector(".summary");
    this.name = name;
    this.table = new Table("Members", ["Member", "Share", "Routed", "Rate", "Depth", "Moved", "Refused"], { isText: [1] });
    this.more = element("p", { className: "note", hidden: true });
    this.node.append(this.table.node, this.more);
  }

  take(group, { counters }) {
    this.group = group;
    for (const { id, routed } of group.members.slice(0, MEMBERS_SHOWN_MAX)) counters.take(`${this.key}.${id}`, routed);
  }

  draw({ counters }) {
    const { members, skew, router } = this.group;
    this.summary.textContent = `${this.name}, by ${words(router)}, ${count(members.length)} members, skew ${ratio(skew)}`;
    this.summary.classList.toggle("error", skew >= SKEW_ALARM);
    const most = Math.max(1, ...members.map((it) => it.routed));
    this.table.draw(members.slice(0, MEMBERS_SHOWN_MAX).map((member) => [
      { text: member.name ?? `#${member.id}`, className: member.is_alive ? "up" : "down" },
      { share: member.routed / most },
      compact(member.routed),
      rate(counters.rate(`${this.key}.${member.id}`)),
      compact(member.depth),
      moved(member),
      compact(member.refused),
    ]));
    setText(this.more, notShown(members.length - MEMBERS_SHOWN_MAX, "member"));
    setShown(this.more, members.length > MEMBERS_SHOWN_MAX);
  }
}
