// A durable stream: records accepted, written and durable, and the lag between them.

import { bytes, bytesPerSecond, compact, count, duration, rate } from "./format.js";

const ACCEPTED = "freeboard_stream_records_accepted_total";
const WRITTEN = "freeboard_stream_records_written_total";
const DURABLE = "freeboard_stream_records_durable_total";
const BYTES = "freeboard_stream_written_bytes_total";
const SHED = "freeboard_stream_records_shed_total";
const WRITE = "freeboard_stream_write_seconds";
const ACKNOWLEDGE = "freeboard_stream_acknowledge_seconds";

export const STREAM = {
  title: "Stream",
  rates: { accepted: ACCEPTED, written: WRITTEN, durable: DURABLE, bytes: BYTES, shed: SHED },
  gauges: {
    lag: (families) => families.total("freeboard_stream_records_lag"),
  },
  charts: [
    {
      title: "Records",
      format: rate,
      isFilled: false,
      lines: [
        { value: "accepted", name: "accepted", colour: "in" },
        { value: "written", name: "written", colour: "queued" },
        { value: "durable", name: "durable", colour: "out" },
      ],
    },
    {
      title: "Lag",
      format: compact,
      lines: [{ value: "lag", name: "accepted, not durable yet", colour: "bad" }],
    },
  ],
  facts: (families, values) => [
    ["written", bytesPerSecond(values.bytes)],
    ["segments", count(families.total("freeboard_stream_segments_finished"))],
    ["in segments", bytes(families.total("freeboard_stream_segments_bytes"))],
    ["in memory", bytes(families.total("freeboard_stream_memory_bytes"))],
    ["write p50", duration(families.quantile(WRITE, "0.5"))],
    ["write p99", duration(families.quantile(WRITE, "0.99"))],
    ["durable p50", duration(families.quantile(ACKNOWLEDGE, "0.5"))],
    ["durable p99", duration(families.quantile(ACKNOWLEDGE, "0.99"))],
    ["shed", count(families.total(SHED)), values.shed > 0],
  ],
};
