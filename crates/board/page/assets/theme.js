// Light and dark, and the colours that canvases are painted with.

const KEY = "freeboard-theme";
const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

const machine = matchMedia("(prefers-color-scheme: dark)");
const colours = new Map();
const probe = document.createElement("span");

/** Private windows may have no storage; then the choice is kept until the page closes. */
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
    // Only the choice is lost.
  }
}

/** The current colour of a custom property: `colour("run")` is that of `--run`. */
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
function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && machine.matches);
}

// From none to most; each step is lighter (or darker) than the one before, so that it can be read without hue.
const RAMPS = {
  heat: {
    light: ["#eef1f4", "#fbe3b0", "#f3a75a", "#d9603f", "#9c2f5f", "#471365"],
    dark: ["#1c242d", "#43215f", "#8a2a69", "#cf5444", "#f2a04e", "#fdeebc"],
  },
  busy: {
    light: ["#eef1f4", "#a5cfe9", "#3d92c7", "#0b5a94", "#06345c"],
    dark: ["#1c242d", "#15466b", "#1f74b0", "#52aeee", "#c3e5ff"],
  },
};
const RAMP_STEPS = 64;
/** The ramp begins here, so that small values are visible. */
const LEAST_STEP = 4;
const ramps = new Map();

/** The colours of a ramp from none to most, each as the four bytes of a pixel. */
function rampOf(name) {
  let colours = ramps.get(name);
  if (colours === undefined) {
    const stops = RAMPS[name][isDark() ? "dark" : "light"];
    const part = (text, at) => Number.parseInt(text.slice(at, at + 2), 16);
    colours = Uint32Array.from({ length: RAMP_STEPS }, (_, step) => {
      const at = (step / (RAMP_STEPS - 1)) * (stops.length - 1);
      const first = Math.min(Math.floor(at), stops.length - 2);
      const [from, to] = [stops[first], stops[first + 1]];
      const mix = (channel) => Math.round(part(from, channel) + (part(to, channel) - part(from, channel)) * (at - first));
      return pixel(mix(1), mix(3), mix(5));
    });
    ramps.set(name, colours);
  }
  return colours;
}

/** An opaque pixel, in the order of bytes that canvases have. */
function pixel(red, green, blue) {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}

/** The pixel of a named colour. */
export function pixelOf(name) {
  const [red, green, blue] = colour(name).match(/[\d.]+/g).map(Number);
  return pixel(red, green, blue);
}

/** A function from a share, 0 to 1, to its pixel on a ramp: `heat`, or `busy` for time in use. */
export function pixelScale(name) {
  const colours = rampOf(name);
  return (share) => {
    if (!(share > 0)) return colours[0];
    return colours[Math.min(RAMP_STEPS - 1, LEAST_STEP + Math.floor(share * (RAMP_STEPS - LEAST_STEP)))];
  };
}

/** Makes a button switch themes; `onChange` is called after each change. */
export function chooseTheme(button, onChange) {
  const root = document.documentElement;
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = NAMES[theme];
    button.setAttribute("aria-label", `Colours: ${NAMES[theme]}`);
    button.setAttribute("aria-keyshortcuts", "t");
    colours.clear();
    ramps.clear();
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
