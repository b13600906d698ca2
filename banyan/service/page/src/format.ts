// Numbers as people read them.

function scaled(value: number, step: number, units: string[]): string {
  let unit = 0;
  while (value >= step * 0.9995 && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  const digits = value >= 99.95 || unit === 0 ? 0 : value < 9.995 ? 2 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

export const rate = (perSecond: number) => scaled(perSecond, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"]);
export const size = (count: number) => scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
export const count = (value: number) => value.toLocaleString("en-GB");
export const counted = (value: number, noun: string) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
export const frequency = (perSecond: number) =>
  perSecond === 0 ? "0/s" : perSecond < 9.95 ? `${perSecond.toFixed(1)}/s` : `${count(Math.round(perSecond))}/s`;
export const percent = (share: number) =>
  share > 0 && share < 0.005 ? "<1 %" : `${Math.round(share * 100)} %`;

export function duration(seconds: number): string {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

export function clock(at: number): string {
  const time = new Date(at * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}
