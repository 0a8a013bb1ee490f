// The latest runs that were longer than the threshold, each with its call stack if there is one.

import { Children, element, setAttribute, setShown, setText } from "./dom.js";
import { age, count, duration, percent, shortType } from "./format.js";

/** The actor and the message of a run. */
export function runText({ actor, actor_type: actorType, message_type: messageType }) {
  const message = messageType === "" ? "" : ` \u2190 ${shortType(messageType)}`;
  return `#${actor} ${shortType(actorType)}${message}`;
}

class Row {
  constructor() {
    this.what = element("span", { className: "what" });
    this.elapsed = element("b", { className: "number" });
    this.kind = element("span", { className: "kind" });
    this.seen = element("span", { className: "dim" });
    this.stack = element("pre", { tabIndex: 0 });
    this.summary = element("summary", {}, this.elapsed, this.kind, this.what, this.seen);
    this.node = element("li", {}, element("details", {}, this.summary, this.stack));
  }

  show(run, uptimeNs) {
    setText(this.elapsed, duration(run.elapsed_ns));
    const share = run.cpu_share === null ? "" : `, ${percent(run.cpu_share)} on a processor`;
    setText(this.kind, (run.is_blocked ? "blocked" : "computing") + share);
    setAttribute(this.kind, "data-blocked", String(run.is_blocked));
    const onWorker = run.worker === null ? "" : ` on w${run.worker}`;
    setText(this.what, runText(run.run) + onWorker);
    setText(this.seen, `${age(Math.max(0, uptimeNs - run.seen_ns))} ago`);
    setText(this.stack, run.stack ?? "No call stack was taken.");
  }
}

export class LongRuns {
  constructor() {
    this.list = element("ul", { className: "long-runs", "data-test": "long-runs" });
    this.title = element("summary");
    this.node = element("details", { className: "disclosure" }, this.title, this.list);
    this.rows = new Children(this.list, () => new Row());
  }

  draw({ long_runs: runs, scheduler, uptime_ns: uptimeNs }) {
    setShown(this.node, runs.length > 0);
    if (runs.length === 0) return;
    const unreported = scheduler.long_runs_unreported > 0 ? `, ${count(scheduler.long_runs_unreported)} not reported` : "";
    setText(this.title, `Long runs: the latest ${runs.length} of ${count(scheduler.long_runs)}${unreported}`);
    if (!this.node.open) return;
    const key = ({ seen_ns: seen, run }) => `${seen} ${run.actor}`;
    this.rows.show([...runs].reverse(), key, (row, run) => row.show(run, uptimeNs));
  }
}
