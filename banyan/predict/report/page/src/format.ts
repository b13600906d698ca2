// Numbers as people read them: three digits, and the unit that leaves at least one before the point. Times, which are
// computed, keep the zeros at their end.

function scaled(value: number, step: number, units: string[], keepsZeros = false): string {
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= step * 0.9995 && unit + 1 < units.length) {
    rest /= step;
    ++unit;
  }
  const digits = (unit === 0 && keepsZeros) || rest >= 99.95 ? 0 : rest < 9.995 ? 2 : 1;
  let text = rest.toFixed(digits);
  if (text.includes(".") && !keepsZeros) text = text.replace(/\.?0+$/, "");
  return (value < 0 ? "−" : "") + text + " " + units[unit];
}

export const time = (ps: number) => scaled(ps, 1000, ["ps", "ns", "µs", "ms", "s"], true);
export const rate = (perSecond: number) => scaled(perSecond, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"]);
export const bytes = (count: number) => scaled(count, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]);
export const size = (count: number) => scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
export const count = (value: number) => value.toLocaleString("en-GB");
export const counted = (value: number, noun: string) =>
  `${count(value)} ${noun}${value === 1 ? "" : /(ch|x)$/.test(noun) ? "es" : "s"}`;

export function percent(share: number): string {
  if (share > 0 && share < 0.0005) return "<0.1 %";
  return (share > 0 && share < 0.0995 ? (share * 100).toFixed(1) : (share * 100).toFixed(0)) + " %";
}

// A moment of a timeline, exact enough for the distance between its ticks.
export function moment(ps: number, step: number): string {
  const units: [number, string][] = [
    [1e12, "s"],
    [1e9, "ms"],
    [1e6, "µs"],
    [1e3, "ns"],
    [1, "ps"],
  ];
  const [scale, unit] = units.find(([scale]) => Math.abs(ps) >= scale || step >= scale) ?? units[4];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / scale) - 1e-9)));
  return (ps / scale).toFixed(digits) + " " + unit;
}

// A round distance between ticks, so that about `ticks` fit into `span`.
export function tickStep(span: number, ticks: number): number {
  const raw = Math.max(1, span / Math.max(1, ticks));
  const power = 10 ** Math.floor(Math.log10(raw));
  const digit = raw / power;
  return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}
