// A leased cache: hits, misses, leases and fetches.

import { compact, count, duration, percent, rate } from "./format.js";
import { shedFacts } from "./panel.js";

const named = (name) => `freeboard_cache_${name}`;
const SHED = named("shed_total");

export const CACHE = {
  title: "Cache",
  rates: {
    hits: named("hits_total"),
    local: named("local_hits_total"),
    stale: named("stale_hits_total"),
    negative: named("negative_hits_total"),
    misses: named("misses_total"),
    granted: named("leases_granted_total"),
    refused: named("leases_refused_total"),
    expired: named("leases_expired_total"),
    waits: named("waits_total"),
    shed: SHED,
  },
  gauges: {
    flights: (families) => families.total(named("flights")),
  },
  charts: [
    {
      title: "Callers",
      format: rate,
      isFilled: false,
      lines: [
        { value: "local", name: "local", colour: "search" },
        { value: "hits", name: "hits", colour: "in" },
        { value: "stale", name: "stale", colour: "queued" },
        { value: "misses", name: "misses", colour: "bad" },
      ],
    },
    {
      title: "Leases",
      format: rate,
      isFilled: false,
      lines: [
        { value: "granted", name: "granted", colour: "out" },
        { value: "refused", name: "refused", colour: "queued" },
        { value: "expired", name: "expired", colour: "bad" },
        { value: "waits", name: "waits", colour: "neutral" },
      ],
    },
  ],
  facts: (families, values) => {
    const found = values.local + values.hits + values.stale + values.negative;
    return [
      ["found", percent(found / (found + values.misses))],
      ["flights", compact(values.flights)],
      ["local entries", compact(families.total(named("local_entries")))],
      ["wait p50", duration(families.quantile(named("wait_seconds"), "0.5"))],
      ["wait p99", duration(families.quantile(named("wait_seconds"), "0.99"))],
      ["fills refused", count(families.total(named("fills_refused_total")))],
      ...shedFacts(families.by(SHED, "reason"), values.shed > 0),
    ];
  },
};
