// Light and dark, and the colours that canvases are painted with.

const KEY = "freeboard-theme";
const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

const machine = matchMedia("(prefers-color-scheme: dark)");
const colours = new Map();
const probe = document.createElement("span");

/** Private windows may have no storage; then the choice lasts as long as the page. */
function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Nothing is lost but the choice.
  }
}

/** The colour that a custom property of the style sheet has now: `colour("run")` is that of `--run`. */
export function colour(name) {
  let value = colours.get(name);
  if (value === undefined) {
    if (!probe.isConnected) {
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    value = getComputedStyle(probe).color;
    colours.set(name, value);
  }
  return value;
}

/** Whether dark is shown. */
export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && machine.matches);
}

// From none to most; each step is lighter (or darker) than the one before, so that it can be read without hue.
const HEAT_LIGHT = ["#eef1f4", "#fbe3b0", "#f3a75a", "#d9603f", "#9c2f5f", "#471365"];
const HEAT_DARK = ["#1c242d", "#43215f", "#8a2a69", "#cf5444", "#f2a04e", "#fdeebc"];
const HEAT_STEPS = 64;
let heatColours = null;

function mixed(from, to, share) {
  const part = (text, at) => Number.parseInt(text.slice(at, at + 2), 16);
  const mix = (at) => Math.round(part(from, at) + (part(to, at) - part(from, at)) * share);
  return `rgb(${mix(1)}, ${mix(3)}, ${mix(5)})`;
}

/** The colour of a share from 0 to 1; 0 itself has one of its own. */
export function heat(share) {
  if (heatColours === null) {
    const stops = isDark() ? HEAT_DARK : HEAT_LIGHT;
    heatColours = Array.from({ length: HEAT_STEPS }, (_, step) => {
      const at = (step / (HEAT_STEPS - 1)) * (stops.length - 1);
      const first = Math.min(Math.floor(at), stops.length - 2);
      return mixed(stops[first], stops[first + 1], at - first);
    });
  }
  if (!(share > 0)) return heatColours[0];
  return heatColours[Math.min(HEAT_STEPS - 1, 4 + Math.floor(share * (HEAT_STEPS - 4)))];
}

/** Lets a button go through the themes; `onChange` is called after each change. */
export function chooseTheme(button, onChange) {
  const root = document.documentElement;
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = NAMES[theme];
    button.setAttribute("aria-label", `Colours: ${NAMES[theme]}`);
    button.setAttribute("aria-keyshortcuts", "t");
    colours.clear();
    heatColours = null;
    onChange();
  };
  show(THEMES.includes(stored()) ? stored() : "auto");
  machine.addEventListener("change", () => show(root.dataset.theme));
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    store(next);
    show(next);
  });
}
