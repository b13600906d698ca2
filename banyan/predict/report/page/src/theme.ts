// Colours, light and dark. Loads go along a scale whose lightness changes steadily, so that it reads without colour
// vision and in grey print; kinds and parts are told apart by hue and by lightness.

export interface Theme {
  dark: boolean;
  page: string;
  panel: string;
  raised: string;
  line: string;
  text: string;
  dim: string;
  accent: string;
  kinds: Record<string, string>;
  onKind: Record<string, string>;
  marks: Record<string, string>;
  parts: string[];
  plans: string[];
  scale: [number, number, number][];
}

const light: Theme = {
  dark: false,
  page: "#f5f6f8",
  panel: "#ffffff",
  raised: "#eef1f5",
  line: "#dde2e8",
  text: "#17202b",
  dim: "#5a6675",
  accent: "#0a5fb4",
  kinds: {
    compute: "#2c6cb0",
    memory: "#74a9d8",
    collective: "#d4691e",
    send: "#12805f",
    receive: "#7cc2a4",
    wait: "#c8cdd5",
    host: "#8a6fb8",
  },
  onKind: {
    compute: "#ffffff",
    memory: "#0d1b2a",
    collective: "#ffffff",
    send: "#ffffff",
    receive: "#0b2a20",
    wait: "#3a4452",
    host: "#ffffff",
  },
  marks: {
    down: "#c01f2f",
    fail: "#c01f2f",
    bandwidth: "#a86a00",
    up: "#0f7a4d",
    start: "#0a5fb4",
    end: "#5a6675",
  },
  parts: ["#2c6cb0", "#d4691e", "#ecc04b", "#8a6fb8", "#d3d8df"],
  plans: ["#0072b2", "#d55e00", "#009e73", "#aa4f8c", "#8a6d00", "#4b5563", "#56a0d3", "#7a4419"],
  scale: [
    [214, 220, 228],
    [240, 206, 112],
    [226, 124, 46],
    [176, 42, 56],
    [92, 10, 72],
  ],
};

const dark: Theme = {
  dark: true,
  page: "#10141a",
  panel: "#171c24",
  raised: "#212833",
  line: "#2b3440",
  text: "#e7ebf1",
  dim: "#98a4b3",
  accent: "#74b6ff",
  kinds: {
    compute: "#4f8fd6",
    memory: "#2f5f8f",
    collective: "#e98a44",
    send: "#35b38b",
    receive: "#1f6b54",
    wait: "#434d5a",
    host: "#a58bd6",
  },
  onKind: {
    compute: "#08131f",
    memory: "#dfeaf6",
    collective: "#1d0d02",
    send: "#03170f",
    receive: "#d3f2e6",
    wait: "#c9d1db",
    host: "#160a2b",
  },
  marks: {
    down: "#ff6b6b",
    fail: "#ff6b6b",
    bandwidth: "#f0b440",
    up: "#3ecf8e",
    start: "#74b6ff",
    end: "#98a4b3",
  },
  parts: ["#4f8fd6", "#e98a44", "#caa53b", "#a58bd6", "#39424e"],
  plans: ["#56b4e9", "#f08a3c", "#2fc79a", "#d88fc0", "#e2c044", "#a9b4c2", "#9bd0f5", "#c98d5d"],
  scale: [
    [52, 61, 73],
    [104, 58, 110],
    [196, 74, 78],
    [240, 148, 62],
    [255, 236, 140],
  ],
};

type Choice = "auto" | "light" | "dark";
let choice: Choice = "auto";
let printing = false;
const listeners = new Set<() => void>();
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

export function theme(): Theme {
  if (printing) return light;
  return choice === "dark" || (choice === "auto" && prefersDark.matches) ? dark : light;
}

export function loadColour(load: number): string {
  const { scale } = theme();
  const place = Math.min(1, Math.max(0, load)) * (scale.length - 1);
  const low = Math.min(scale.length - 2, Math.floor(place));
  const part = place - low;
  return "rgb(" + scale[low].map((c, i) => Math.round(c + (scale[low + 1][i] - c) * part)).join(",") + ")";
}

export function scaleGradient(): string {
  return "linear-gradient(to right," + [0, 0.25, 0.5, 0.75, 1].map((load) => loadColour(load)).join(",") + ")";
}

function announce() {
  const now = theme();
  const root = document.documentElement;
  root.dataset.theme = now.dark ? "dark" : "light";
  root.style.colorScheme = now.dark ? "dark" : "light";
  for (const key of ["page", "panel", "raised", "line", "text", "dim", "accent"] as const)
    root.style.setProperty("--" + key, now[key]);
  now.parts.forEach((colour, i) => root.style.setProperty("--part" + i, colour));
  root.style.setProperty("--failed", now.marks.fail);
  listeners.forEach((listener) => listener());
}

export function chooseTheme(next: Choice) {
  choice = next;
  announce();
}

export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function startTheme() {
  prefersDark.addEventListener("change", announce);
  // Paper is white, whatever the screen.
  matchMedia("print").addEventListener("change", (event) => {
    printing = event.matches;
    announce();
  });
  announce();
}
