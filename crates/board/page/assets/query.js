// The viewer's query, kept in the address, so that a reload or a link shows the same.

const SORTS = [
  "id", "name", "type", "state", "depth", "bound", "high_water", "in", "out", "accepted", "handled",
  "shed", "restarts", "queue_p50", "queue_p99", "handling_p99",
];
export const LIMITS = [25, 50, 100, 200];

const DEFAULTS = { system: "", sort: "depth", order: "desc", filter: "", offset: 0, limit: 25, actor: "" };

/** All fields of a query; invalid ones are replaced by defaults. */
function sound(fields) {
  const query = { ...DEFAULTS, ...fields };
  const offset = Number(query.offset);
  const limit = Number(query.limit);
  query.offset = Number.isSafeInteger(offset) && offset > 0 ? offset : 0;
  query.limit = LIMITS.includes(limit) ? limit : DEFAULTS.limit;
  if (!SORTS.includes(query.sort)) query.sort = DEFAULTS.sort;
  if (query.order !== "asc") query.order = DEFAULTS.order;
  if (!/^\d*$/.test(query.actor)) query.actor = "";
  return query;
}

/** Whether the fragment of an address is a query, and not an element of the page. */
export function isQuery(hash) {
  return hash === "" || hash.includes("=");
}

/** Parses the fragment of an address. */
export function fromHash(hash) {
  const fields = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  const known = Object.entries(fields).filter(([name]) => name in DEFAULTS);
  return sound(Object.fromEntries(known));
}

/** The query with some fields changed. */
export function changed(query, changes) {
  return Object.freeze(sound({ ...query, ...changes }));
}

/** The fields that differ from their defaults, as in an address. */
export function toParameters(query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== DEFAULTS[name]) parameters.set(name, String(value));
  }
  return parameters;
}
