// A Redis client: commands of each connection, and commands that were not sent.

import { compact, count, duration, rate } from "./format.js";
import { shedFacts } from "./panel.js";

const named = (name) => `freeboard_redis_${name}`;
const SHED = named("shed_total");

/** One row for each connection. */
function connections(families) {
  return [...families.by(named("up"), "connection")].map(([connection, up]) => {
    const labels = { connection };
    const total = (name) => families.total(named(name), labels);
    const lost = total("lost_total") + total("timed_out_total");
    return [
      connection,
      { text: up > 0 ? "up" : "down", className: up > 0 ? "up" : "down" },
      compact(total("in_flight")),
      compact(total("waiting")),
      duration(families.quantile(named("from_send_seconds"), "0.5", labels)),
      duration(families.quantile(named("from_send_seconds"), "0.99", labels)),
      compact(families.total(SHED, labels)),
      compact(lost),
    ];
  });
}

export const REDIS = {
  title: "Redis",
  rates: {
    sent: named("sent_total"),
    replies: named("replies_total"),
    shed: SHED,
    lost: named("lost_total"),
  },
  gauges: {
    inFlight: (families) => families.total(named("in_flight")),
    waiting: (families) => families.total(named("waiting")),
  },
  charts: [
    {
      title: "Commands",
      format: rate,
      isFilled: false,
      lines: [
        { value: "sent", name: "sent", colour: "in" },
        { value: "replies", name: "replies", colour: "out" },
        { value: "shed", name: "shed", colour: "bad" },
      ],
    },
    {
      title: "Under way",
      format: compact,
      isFilled: false,
      lines: [
        { value: "inFlight", name: "in flight", colour: "in" },
        { value: "waiting", name: "waiting", colour: "queued" },
      ],
    },
  ],
  facts: (families, values) => [
    ["call to reply p50", duration(families.quantile(named("from_tell_seconds"), "0.5"))],
    ["call to reply p99", duration(families.quantile(named("from_tell_seconds"), "0.99"))],
    ["timed out", count(families.total(named("timed_out_total")))],
    ["lost", count(families.total(named("lost_total"))), values.lost > 0],
    ...shedFacts(families.by(SHED, "reason"), values.shed > 0),
  ],
  table: {
    label: "Connections",
    heads: ["No.", "", "In flight", "Waiting", "Reply p50", "p99", "Shed", "Lost"],
    isText: [1],
    rows: connections,
  },
};
