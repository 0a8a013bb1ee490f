// Keyboard shortcuts, when no field has the focus.

const FIELDS = "input, select, textarea, dialog";

/** Connects keys with the parts of the page. */
export function listenToKeys({ pause, actors, closeActor }) {
  const help = document.getElementById("help");
  const openHelp = () => help.showModal();
  document.getElementById("help-open").addEventListener("click", openHelp);
  const actions = {
    "/": () => actors.filter.focus(),
    "?": openHelp,
    "[": () => actors.turn(-1),
    "]": () => actors.turn(1),
    j: () => actors.move(1),
    k: () => actors.move(-1),
    p: pause,
    t: () => document.getElementById("theme").click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || help.open) return;
    const isField = event.target instanceof Element && event.target.closest(FIELDS) !== null;
    if (event.key === "Escape") {
      if (!isField) {
        closeActor();
        return;
      }
      // Browsers would clear the filter.
      event.preventDefault();
      event.target.blur();
      return;
    }
    const action = isField ? undefined : actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}
