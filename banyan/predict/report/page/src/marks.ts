// Marks of a timeline: what happens to links, and when jobs start, end and fail. Each kind has a shape and a colour.
import type { PageData } from "./data";
import { counted, rate, time } from "./format";

export type MarkKind = "down" | "fail" | "bandwidth" | "up" | "start" | "end";

export interface Mark {
  kind: MarkKind;
  at: number; // ps
  text: string;
}

// By importance: of marks that lie upon each other the first is drawn.
export const markKinds: MarkKind[] = ["fail", "down", "bandwidth", "up", "start", "end"];
export const markNames: Record<MarkKind, string> = {
  down: "link fails",
  up: "link returns",
  bandwidth: "bandwidth changes",
  start: "job starts",
  end: "job ends",
  fail: "job fails",
};

// In a square from -5 to 5; crosses are stroked, the rest is filled.
export const markShapes: Record<MarkKind, string> = {
  down: "M-5 -4H5L0 5Z",
  up: "M-5 4H5L0 -5Z",
  bandwidth: "M0 -5L5 0L0 5L-5 0Z",
  start: "M-4 -5V5L5 0Z",
  end: "M-4 -4H4V4H-4Z",
  fail: "M-4 -4L4 4M-4 4L4 -4",
};
export const isStroked = (kind: MarkKind) => kind === "fail";

function linkText(event: PageData["events"][number]): string {
  const shown = event.names.join(", ") || counted(event.links, "link");
  // A name stands for both directions of a cable or for one link; what is not named is counted only roughly.
  const more = event.names.length >= 6 ? ` and more, ${counted(event.links, "link")} in all` : "";
  const what =
    event.kind === "down"
      ? "fails"
      : event.kind === "up"
        ? "returns"
        : `changes to ${rate(event.bytes_per_second)}`;
  return `${shown}${more}: ${what}`;
}

export function marksOf(data: PageData): Mark[] {
  const marks: Mark[] = data.events.map((event) => ({ kind: event.kind, at: event.time_ps, text: linkText(event) }));
  // One job that begins with everything and ends with it says nothing new.
  const several = data.jobs.length > 1;
  for (const job of data.jobs) {
    const name = (job.name || "the job") + (job.tenant ? ` of ${job.tenant}` : "");
    if (several || job.begin_ps > 0) marks.push({ kind: "start", at: job.begin_ps, text: `${name} starts` });
    if (job.failed_at_ps !== null)
      marks.push({ kind: "fail", at: job.failed_at_ps, text: `${name} fails, with a link that it used` });
    else if (several) marks.push({ kind: "end", at: job.end_ps, text: `${name} ends, after ${time(job.end_ps - job.begin_ps)}` });
  }
  return marks.sort((a, b) => a.at - b.at);
}

// When a link was not as the fabric says: [begin, end, bytes per second (0: down)].
export type State = [number, number, number];

export function statesOf(flat: number[] | undefined): State[] {
  const states: State[] = [];
  for (let i = 0; flat !== undefined && i < flat.length; i += 3) states.push([flat[i], flat[i + 1], flat[i + 2]]);
  return states;
}

// Begin and end of the times that it was down.
export const downOf = (flat: number[] | undefined) =>
  statesOf(flat).flatMap(([begin, end, rate]) => (rate === 0 ? [begin, end] : []));

// "12 ms – 20 ms, 30 ms – 31 ms and 2 more": of pairs of begin and end.
export function periods(flat: number[]): string {
  const shown: string[] = [];
  for (let i = 0; i < Math.min(flat.length, 6); i += 2) shown.push(`${time(flat[i])} – ${time(flat[i + 1])}`);
  return shown.join(", ") + (flat.length > 6 ? ` and ${flat.length / 2 - 3} more` : "");
}

export function isWithin(flat: number[] | undefined, ps: number): boolean {
  for (let i = 0; flat !== undefined && i < flat.length; i += 2) if (flat[i] <= ps && ps < flat[i + 1]) return true;
  return false;
}
