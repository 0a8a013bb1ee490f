// A node of several processes: all nodes that it knows, and what it sends to them.

import { age, bytesPerSecond, compact, count, NONE, rate, words } from "./format.js";

const named = (name) => `freeboard_remote_${name}`;
const INCARNATION = named("peer_incarnation");
const SILENT = named("peer_silent_seconds");
const DOWN = named("peer_down");

/** One row for each node. */
function nodes(families) {
  return [...families.by(named("peer_up"), "peer")].map(([peer, up]) => {
    const total = (name) => families.total(name, { peer });
    const [reason = ""] = [...families.by(DOWN, "reason", { peer })].map(([it]) => words(it));
    return [
      peer,
      { text: up > 0 ? "up" : reason, className: up > 0 ? "up" : "down" },
      total(INCARNATION).toString(16),
      age(total(SILENT) * 1e9),
      compact(total(named("peer_actors"))),
      rate(total(named("peer_handled_per_second"))),
      compact(total(named("peer_mailbox_depth"))),
      compact(total(named("peer_dead_letters"))),
      compact(total(named("peer_published"))),
    ];
  });
}

export const REMOTE = {
  title: "Node",
  rates: {
    sent: named("sent_total"),
    received: named("received_total"),
    shed: named("shed_total"),
    lost: named("lost_total"),
    sentBytes: named("peer_sent_bytes_total"),
  },
  gauges: {
    credit: (families) => families.total(named("credit")),
    waiting: (families) => families.total(named("waiting")),
  },
  charts: [
    {
      title: "Messages",
      format: rate,
      isFilled: false,
      lines: [
        { value: "sent", name: "sent", colour: "out" },
        { value: "received", name: "received", colour: "in" },
        { value: "shed", name: "shed", colour: "bad" },
      ],
    },
    {
      title: "Waiting for credit",
      format: compact,
      isFilled: false,
      lines: [{ value: "waiting", name: "waiting", colour: "queued" }],
    },
  ],
  facts: (families, values) => [
    ["nodes", count(families.total(named("nodes")))],
    ["credit", Number.isNaN(values.credit) ? NONE : compact(values.credit)],
    ["sent", bytesPerSecond(values.sentBytes)],
    ["undelivered", count(families.total(named("undelivered_total")))],
    ["lost", count(families.total(named("lost_total"))), values.lost > 0],
    ["reconnects to NATS", count(families.total(named("nats_reconnects_total")))],
  ],
  table: {
    label: "Nodes",
    heads: ["Node", "", "Incarnation", "Heard", "Actors", "Handled", "In mailboxes", "Dead letters", "Names"],
    isText: [1, 2],
    rows: nodes,
  },
};
