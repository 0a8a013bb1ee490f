// What the viewer asked for: kept in the address, so that a reload or a link shows the same.

const SORTS = [
  "id", "name", "type", "state", "depth", "bound", "high_water", "in", "out", "accepted", "handled",
  "shed", "restarts", "queue_p50", "queue_p99", "handling_p99",
];
export const LIMITS = [25, 50, 100, 200];

const DEFAULTS = { system: "", sort: "depth", order: "desc", filter: "", offset: 0, limit: 25, actor: "" };

/** All fields of a question, those that do not make sense replaced. */
function sound(fields) {
  const question = { ...DEFAULTS, ...fields };
  const offset = Number(question.offset);
  const limit = Number(question.limit);
  question.offset = Number.isSafeInteger(offset) && offset > 0 ? offset : 0;
  question.limit = LIMITS.includes(limit) ? limit : DEFAULTS.limit;
  if (!SORTS.includes(question.sort)) question.sort = DEFAULTS.sort;
  if (question.order !== "asc") question.order = DEFAULTS.order;
  if (!/^\d*$/.test(question.actor)) question.actor = "";
  return question;
}

/** Whether the part of an address behind `#` is a question, and not the name of a place on the page. */
export function isQuestion(hash) {
  return hash === "" || hash.includes("=");
}

/** Reads the part of an address behind `#`. */
export function fromHash(hash) {
  const fields = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  const known = Object.entries(fields).filter(([name]) => name in DEFAULTS);
  return sound(Object.fromEntries(known));
}

/** The question with some fields changed. */
export function changed(question, changes) {
  return Object.freeze(sound({ ...question, ...changes }));
}

/** The fields that are not as they are by default, as in an address. */
export function toParameters(question) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(question)) {
    if (value !== DEFAULTS[name]) parameters.set(name, String(value));
  }
  return parameters;
}
