// The data of the page: the same shape as page_data.cc writes.

export interface Lane {
  links: number;
  bytes_per_second: number;
  bytes: number;
  mean: number; // load of its links, 0 to 1
  load: number; // of the hottest of them
  full: number; // the part of the time that one of them was a bottleneck, at most
  hottest: string;
  series?: string;
  down?: number[]; // begin and end of each time that one of its links was down
}

export interface Line {
  a: number;
  b: number; // units; the same for what is inside of one
  curved: boolean;
  path: number[];
  forth: Lane | null;
  back: Lane | null;
}

export interface Unit {
  name: string;
  kind: "rank" | "tile" | "switch";
  ranks: number;
  switches: number;
  label: boolean;
  at: [number, number, number, number]; // middle, width, height
  cells?: string;
}

export interface Drawing {
  width: number;
  height: number;
  ranks: number;
  switches: number;
  links: number;
  units: Unit[];
  panels: [number, number, number, number][];
  lines: Line[];
}

export interface LinkRow {
  name: string;
  bytes: number;
  full_ps: number;
  full: number;
  load: number;
  bytes_per_second?: number;
  line?: number; // of the drawing
  series?: string;
  states?: number[]; // begin, end, bytes per second (0: down) of each time that it was not as the fabric says
}

export interface Job {
  name: string;
  tenant: string;
  ranks: number;
  begin_ps: number;
  end_ps: number;
  alone_ps: number | null;
  failed_at_ps: number | null;
  parts_ps: number[];
}

export interface Track {
  rank: string;
  stream: string;
  job: number;
  spans: number[]; // begin after the last end, duration, name, kind
}

export interface Point {
  bytes: number;
  plan: string;
  time_ps: number;
  algbw: number;
  busbw: number;
}

export interface LinkEvent {
  time_ps: number;
  kind: "down" | "bandwidth" | "up";
  bytes_per_second: number; // of kind bandwidth
  links: number;
  names: string[]; // the first few
}

export interface PageData {
  title: string;
  complete: boolean;
  time_ps: number;
  sentence: string;
  shares: number[]; // compute, exposed, waiting, host, bubble
  window_error: number;
  facts: [string, string][];
  uncovered: [string, number][]; // operations without computing beside them, and their share of the time
  series: { steps: number; step_ps: number };
  events: LinkEvent[];
  jobs: Job[];
  ranks: [string, number, number, number, number, number, number][]; // name, job, then as shares
  tracks: Track[];
  names: string[];
  kinds: string[];
  link_count: number;
  busy_links: number;
  tight_links: number; // about as long a bottleneck as the first
  links: LinkRow[];
  drawing: Drawing | null;
  points: Point[];
  what_if: { resource: string; time_ps: number; gain: number }[];
  notes: string[];
}

export function readData(): PageData {
  // Names must not turn the text around them: characters that change its direction are shown as what they are not.
  const text = document.getElementById("prediction")!.textContent!.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  return JSON.parse(text) as PageData;
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const levelOf = new Map([...letters].map((letter, level) => [letter, level / 63]));

// The load that a letter of a series stands for.
export function level(series: string | undefined, step: number): number {
  return series === undefined ? 0 : (levelOf.get(series[step]) ?? 0);
}
