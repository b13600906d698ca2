// Spans by track in flat arrays, so that what is on the screen is found by bisection.
import type { PageData } from "./data";
import { marksOf, statesOf, type Mark, type State } from "./marks";

export interface TrackRow {
  type: "track";
  rank: string;
  stream: string;
  job: number;
  first: boolean; // the first track of its rank
  begin: Float64Array;
  end: Float64Array;
  name: Uint32Array;
  kind: Uint8Array;
}

export interface LinkRow {
  type: "link";
  rank: string;
  stream: string;
  series: string; // may be empty
  states: State[];
  first: boolean;
  line?: number;
}

export type Row = TrackRow | LinkRow;

export interface Hit {
  row: TrackRow;
  span: number;
}

export class TimelineModel {
  readonly rows: Row[] = [];
  readonly marks: Mark[];
  readonly end: number;
  readonly spans: number;

  constructor(readonly data: PageData) {
    let before = "",
      end = data.time_ps,
      spans = 0;
    for (const track of data.tracks) {
      const count = track.spans.length / 4;
      const row: TrackRow = {
        type: "track",
        rank: track.rank,
        stream: track.stream,
        job: track.job,
        first: track.rank !== before,
        begin: new Float64Array(count),
        end: new Float64Array(count),
        name: new Uint32Array(count),
        kind: new Uint8Array(count),
      };
      let last = 0;
      for (let i = 0; i < count; ++i) {
        row.begin[i] = last + track.spans[4 * i];
        last = row.end[i] = row.begin[i] + track.spans[4 * i + 1];
        row.name[i] = track.spans[4 * i + 2];
        row.kind[i] = track.spans[4 * i + 3];
      }
      end = Math.max(end, last);
      spans += count;
      before = track.rank;
      this.rows.push(row);
    }
    // Those to which something happened come first.
    const shown = data.links.filter((link) => link.series !== undefined || link.states !== undefined);
    shown
      .sort((a, b) => Number(b.states !== undefined) - Number(a.states !== undefined))
      .forEach((link, i) => {
        this.rows.push({
          type: "link",
          rank: link.name,
          stream: "",
          series: link.series ?? "",
          states: statesOf(link.states),
          first: i === 0,
          line: link.line,
        });
      });
    this.marks = marksOf(data);
    this.end = Math.max(1, end);
    this.spans = spans;
  }

  filtered(text: string, type: "all" | Row["type"]): Row[] {
    const wanted = text.trim().toLowerCase();
    const rows = type === "all" ? this.rows : this.rows.filter((row) => row.type === type);
    if (wanted === "") return rows;
    return rows.filter((row) => `${row.rank} ${row.stream}`.toLowerCase().includes(wanted));
  }

  // The names that contain the text; null when nothing is sought.
  matching(text: string): Uint8Array | null {
    const wanted = text.trim().toLowerCase();
    if (wanted === "") return null;
    return Uint8Array.from(this.data.names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
  }

  matches(rows: Row[], wanted: Uint8Array): Hit[] {
    const hits: Hit[] = [];
    for (const row of rows) {
      if (row.type !== "track") continue;
      for (let span = 0; span < row.name.length; ++span) if (wanted[row.name[span]] === 1) hits.push({ row, span });
    }
    return hits.sort((a, b) => a.row.begin[a.span] - b.row.begin[b.span]);
  }

  // How busy the tracks are over the whole time, by kind: the part of them, in so many steps.
  activity(steps: number): Float64Array[] {
    const byKind = this.data.kinds.map(() => new Float64Array(steps));
    const step = this.end / steps;
    let tracks = 0;
    for (const row of this.rows) {
      if (row.type !== "track") continue;
      ++tracks;
      for (let i = 0; i < row.begin.length; ++i) {
        const from = row.begin[i] / step,
          to = row.end[i] / step,
          sums = byKind[row.kind[i]];
        for (let at = Math.floor(from); at < Math.min(steps, to); ++at)
          sums[at] += Math.min(to, at + 1) - Math.max(from, at);
      }
    }
    for (const sums of byKind) for (let i = 0; i < steps; ++i) sums[i] /= Math.max(1, tracks);
    return byKind;
  }
}

// Marks that lie so near one another that they are drawn as one.
export interface MarkGroup {
  marks: Mark[];
  x: number; // where it is drawn
}

// The first place from `low` on whose value is above `value`; values ascend.
export function firstAbove(values: Float64Array, value: number, low = 0): number {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
