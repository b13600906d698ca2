// The timeline on a canvas: draws only what is on the screen, and per pixel no more than a few spans, so that its cost
// depends on the screen and not on how many spans there are.
import { level } from "./data";
import { count, counted, moment as momentText, percent, rate, tickStep, time } from "./format";
import { isStroked, markKinds, markShapes, type Mark, type MarkKind, type State } from "./marks";
import { moment, shownLine } from "./state";
import { loadColour, theme } from "./theme";
import { firstAbove, type Hit, type LinkRow, type MarkGroup, type Row, type TimelineModel, type TrackRow } from "./timeline_model";
import { hideTooltip, showTooltip } from "./tooltip";

const kAxis = 24,
  kMarks = 20; // height of the strip of marks, where there are any
const kNear = 9; // pixels: marks closer than that are drawn as one
const kListed = 10; // in a tooltip
const kFont = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

// A shade per name, so that neighbours of one kind are told apart.
function shadeOf(name: number): number {
  return (((name * 2654435761) >>> 24) % 5) - 2;
}
const shadeCache = new Map<string, string>();
function shaded(colour: string, shade: number): string {
  const key = colour + shade;
  let found = shadeCache.get(key);
  if (found === undefined) {
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    const toward = shade > 0 ? 255 : 0,
      by = Math.abs(shade) * 0.055;
    found = "rgb(" + parts.map((c) => Math.round(c + (toward - c) * by)).join(",") + ")";
    shadeCache.set(key, found);
  }
  return found;
}

export class TimelineCanvas {
  readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d")!;
  readonly top: number; // where the rows begin
  private readonly paths = new Map<MarkKind, Path2D>();
  private groups: MarkGroup[] = []; // of marks, as they are drawn
  private rows: Row[];
  private rowHeight = 20;
  private wanted: Uint8Array | null = null;
  private selected: Hit | null = null;
  private t0 = 0;
  private t1: number;
  private scrollTop = 0;
  private width = 0;
  private height = 0;
  private gutter = 150;
  private cursor: number | null = null;
  private range: [number, number] | null = null; // of times, while shift is held
  private frame = 0;
  onView: (t0: number, t1: number) => void = () => {};
  onSelect: (hit: Hit | null) => void = () => {};
  onMark: (mark: Mark) => void = () => {};

  constructor(private readonly model: TimelineModel) {
    this.top = kAxis + (model.marks.length > 0 ? kMarks : 0);
    for (const kind of markKinds) this.paths.set(kind, new Path2D(markShapes[kind]));
    this.rows = model.rows;
    this.t1 = model.end;
    this.canvas.tabIndex = 0;
    this.canvas.className = "timeline-canvas";
    this.canvas.setAttribute("role", "img");
    this.canvas.dataset.rows = String(this.rows.length);
    this.canvas.dataset.spans = String(model.spans);
    this.canvas.dataset.marks = String(model.marks.length);
    this.listen();
  }

  resize(width: number, height: number) {
    this.width = width;
    this.height = height;
    this.gutter = Math.min(190, Math.max(96, width * 0.16));
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = width + "px";
    this.canvas.style.height = height + "px";
    this.draw(); // at once: whoever prints or photographs the page does not wait for a frame
  }
  setRows(rows: Row[], rowHeight: number) {
    this.rows = rows;
    this.rowHeight = rowHeight;
    this.canvas.dataset.rows = String(rows.length);
    this.redraw();
  }
  scrollTo(top: number) {
    this.scrollTop = top;
    hideTooltip();
    this.redraw();
  }
  highlight(wanted: Uint8Array | null) {
    this.wanted = wanted;
    this.redraw();
  }
  select(hit: Hit | null, reveal = false) {
    this.selected = hit;
    if (hit !== null && reveal) {
      const begin = hit.row.begin[hit.span],
        end = hit.row.end[hit.span];
      const room = Math.min(this.t1 - this.t0, Math.max((end - begin) * 20, 1000));
      if (begin < this.t0 || end > this.t1 || (end - begin) * 200 < this.t1 - this.t0)
        this.view((begin + end - room) / 2, (begin + end + room) / 2);
    }
    this.onSelect(hit);
    this.redraw();
  }
  rowTop(row: Row): number {
    return this.rows.indexOf(row) * this.rowHeight;
  }

  view(t0: number, t1: number) {
    const span = Math.min(this.model.end, Math.max(100, t1 - t0));
    this.t0 = Math.min(Math.max(0, (t0 + t1 - span) / 2), this.model.end - span);
    this.t1 = this.t0 + span;
    this.onView(this.t0, this.t1);
    this.redraw();
  }
  fit() {
    this.view(0, this.model.end);
  }
  zoom(factor: number, at = (this.t0 + this.t1) / 2) {
    const span = Math.min(this.model.end, Math.max(100, (this.t1 - this.t0) / factor));
    const part = (at - this.t0) / (this.t1 - this.t0);
    const t0 = Math.min(Math.max(0, at - part * span), this.model.end - span);
    this.view(t0, t0 + span);
  }
  pan(part: number) {
    const by = Math.min(Math.max(-this.t0, (this.t1 - this.t0) * part), this.model.end - this.t1);
    this.view(this.t0 + by, this.t1 + by);
  }

  redraw() {
    if (this.frame === 0)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
  }

  private xOf(ps: number): number {
    return this.gutter + ((ps - this.t0) / (this.t1 - this.t0)) * (this.width - this.gutter);
  }
  private timeAt(x: number): number {
    return this.t0 + ((x - this.gutter) / (this.width - this.gutter)) * (this.t1 - this.t0);
  }

  private draw() {
    const started = performance.now(),
      { context } = this,
      now = theme(),
      ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = kFont;
    context.textBaseline = "middle";
    context.fillStyle = now.panel;
    context.fillRect(0, 0, this.width, this.height);
    const first = Math.max(0, Math.floor(this.scrollTop / this.rowHeight));
    const last = Math.min(this.rows.length, Math.ceil((this.scrollTop + this.height - this.top) / this.rowHeight));
    let drawn = 0;
    context.save();
    context.beginPath();
    context.rect(0, this.top, this.width, this.height - this.top);
    context.clip();
    this.drawGrid(now.line);
    for (let i = first; i < last; ++i) {
      const y = this.top + i * this.rowHeight - this.scrollTop,
        row = this.rows[i];
      drawn += row.type === "track" ? this.drawTrack(row, y) : this.drawLink(row, y);
      if (row.first && i > 0) {
        context.fillStyle = now.line;
        context.fillRect(0, y, this.width, row.type === "link" ? 2 : 1);
      }
    }
    this.groups = this.groupMarks();
    this.drawGuides();
    this.drawLabels(first, last);
    context.restore();
    this.drawAxis();
    this.drawMarks();
    this.drawCursor();
    this.canvas.dataset.view = `${this.t0} ${this.t1}`;
    this.canvas.dataset.drawn = String(drawn);
    this.canvas.dataset.drawMs = (performance.now() - started).toFixed(2);
  }

  private ticks(): [number, number] {
    const step = tickStep(this.t1 - this.t0, (this.width - this.gutter) / 110);
    return [Math.ceil(this.t0 / step) * step, step];
  }
  private drawGrid(colour: string) {
    const [from, step] = this.ticks();
    this.context.fillStyle = colour;
    this.context.globalAlpha = 0.6;
    for (let at = from; at <= this.t1; at += step)
      this.context.fillRect(Math.round(this.xOf(at)), this.top, 1, this.height);
    this.context.globalAlpha = 1;
  }
  private drawAxis() {
    const { context } = this,
      now = theme(),
      [from, step] = this.ticks();
    context.fillStyle = now.panel;
    context.fillRect(0, 0, this.width, kAxis);
    context.fillStyle = now.line;
    context.fillRect(0, kAxis - 1, this.width, 1);
    context.fillStyle = now.dim;
    context.textAlign = "left";
    for (let at = from; at <= this.t1; at += step) {
      const x = this.xOf(at);
      context.fillRect(Math.round(x), kAxis - 6, 1, 6);
      if (x < this.width - 30) context.fillText(momentText(at, step), x + 4, kAxis / 2 - 1);
    }
  }
  private drawCursor() {
    const { context } = this,
      now = theme();
    if (this.range !== null) {
      const [a, b] = this.range.map((ps) => this.xOf(ps));
      context.fillStyle = now.accent;
      context.globalAlpha = 0.16;
      context.fillRect(Math.min(a, b), 0, Math.abs(b - a), this.height);
      context.globalAlpha = 1;
      context.fillText(time(Math.abs(this.range[1] - this.range[0])), Math.min(a, b) + 6, this.top + 10);
    }
    if (this.cursor === null) return;
    const x = this.xOf(this.cursor);
    if (x < this.gutter || x > this.width) return;
    context.fillStyle = now.accent;
    context.fillRect(Math.round(x), 0, 1, this.height);
    const text = momentText(this.cursor, (this.t1 - this.t0) / 2000),
      width = context.measureText(text).width + 10;
    const left = Math.min(x, this.width - width);
    context.fillRect(left, 1, width, kAxis - 5);
    context.fillStyle = now.panel;
    context.textAlign = "left";
    context.fillText(text, left + 5, kAxis / 2 - 1);
  }

  // Spans narrower than a pixel share one with their neighbours: the longest among the first of them gives its colour.
  private drawTrack(row: TrackRow, y: number): number {
    const { context } = this,
      now = theme(),
      kinds = this.model.data.kinds;
    const height = this.rowHeight > 8 ? this.rowHeight - 3 : Math.max(1, this.rowHeight - 1),
      top = y + (this.rowHeight > 8 ? 2 : 0);
    const perPixel = (this.t1 - this.t0) / (this.width - this.gutter);
    let drawn = 0;
    let i = Math.max(0, firstAbove(row.begin, this.t0) - 1);
    for (; i < row.begin.length && row.begin[i] < this.t1; ++i) {
      let best = i,
        end = row.end[i];
      if (end < this.t0) continue;
      const x = Math.max(this.gutter, this.xOf(row.begin[i]));
      if (end - row.begin[i] < perPixel) {
        const next = firstAbove(row.begin, row.begin[i] + perPixel, i + 1);
        for (let k = i + 1; k < Math.min(next, i + 32); ++k) {
          const better = this.wanted !== null && this.wanted[row.name[k]] > this.wanted[row.name[best]];
          if (better || row.end[k] - row.begin[k] > row.end[best] - row.begin[best]) best = k;
        }
        i = Math.max(i, next - 1);
        end = Math.max(row.end[i], row.end[best]);
        if (row.end[best] - row.begin[best] > perPixel) end = row.end[best];
      }
      const right = Math.min(this.width, this.xOf(end)),
        width = Math.max(1, right - x);
      const kind = kinds[row.kind[best]],
        lit = this.wanted === null || this.wanted[row.name[best]] === 1;
      context.globalAlpha = lit ? 1 : 0.16;
      context.fillStyle = shaded(now.kinds[kind] ?? now.dim, shadeOf(row.name[best]));
      // Whole pixels: a row of many small spans must not turn into a haze.
      const left = Math.round(x),
        wide = Math.max(1, Math.round(right) - left);
      context.fillRect(left, top, wide > 3 ? wide - 1 : wide, height);
      ++drawn;
      if (width > 26 && height > 11) {
        context.fillStyle = now.onKind[kind] ?? now.text;
        this.fillText(this.model.data.names[row.name[best]], x + 4, top + height / 2 + 0.5, width - 8);
      }
    }
    context.globalAlpha = 1;
    if (this.selected !== null && this.selected.row === row) {
      const left = Math.max(this.gutter, this.xOf(row.begin[this.selected.span])),
        right = Math.min(this.width, this.xOf(row.end[this.selected.span]));
      context.strokeStyle = now.text;
      context.lineWidth = 2;
      if (right >= this.gutter && left <= this.width)
        context.strokeRect(left, top - 1, Math.max(3, right - left), height + 2);
    }
    return drawn;
  }

  private drawLink(row: LinkRow, y: number): number {
    const drawn = this.drawSeries(row.series, y);
    for (const state of row.states) this.drawState(state, y);
    return drawn;
  }

  // Down: hatched. Another bandwidth: a bar along the top.
  private drawState([begin, end, bandwidth]: State, y: number) {
    const { context } = this,
      now = theme();
    const left = Math.max(this.gutter, this.xOf(begin)),
      right = Math.min(this.width, this.xOf(end));
    if (right <= left) return;
    const wide = Math.max(2, right - left),
      high = this.rowHeight - 1;
    if (bandwidth > 0) {
      context.fillStyle = now.marks.bandwidth;
      context.fillRect(left, y + 1, wide, this.rowHeight > 8 ? 2.5 : 1);
      return;
    }
    context.fillStyle = context.strokeStyle = now.marks.down;
    context.globalAlpha = 0.14;
    context.fillRect(left, y + 1, wide, high);
    context.globalAlpha = 1;
    // A thin row has no room for hatching: a line along its middle.
    if (this.rowHeight <= 8) {
      context.fillRect(left, y + this.rowHeight / 2 - 0.5, wide, 1.5);
      return;
    }
    context.save();
    context.beginPath();
    context.rect(left, y + 1, wide, high);
    context.clip();
    context.beginPath();
    for (let x = left - (left % 7) - high; x < right; x += 7) {
      context.moveTo(x, y + 1 + high);
      context.lineTo(x + high, y + 1);
    }
    context.lineWidth = 1.3;
    context.stroke();
    context.restore();
  }

  // Marks that are in view, those close together as one.
  private groupMarks(): MarkGroup[] {
    const groups: MarkGroup[] = [];
    let lastX = -Infinity;
    for (const mark of this.model.marks) {
      if (mark.at < this.t0 || mark.at > this.t1) continue;
      // At the ends of the time their shapes are still whole.
      const x = Math.min(this.width - 7, Math.max(this.gutter + 7, this.xOf(mark.at)));
      if (groups.length > 0 && x - lastX < kNear) groups[groups.length - 1].marks.push(mark);
      else groups.push({ marks: [mark], x: (lastX = x) });
    }
    return groups;
  }
  private static foremost(group: MarkGroup): Mark {
    return group.marks.reduce((best, mark) =>
      markKinds.indexOf(mark.kind) < markKinds.indexOf(best.kind) ? mark : best,
    );
  }

  // Down through the rows, what happens to links and failures; not starts and ends of jobs, whose rows show them.
  private drawGuides() {
    const { context } = this,
      now = theme();
    context.setLineDash([3, 3]);
    context.lineWidth = 1;
    for (const group of this.groups) {
      const mark = TimelineCanvas.foremost(group);
      if (mark.kind === "start" || mark.kind === "end") continue;
      const x = Math.round(this.xOf(mark.at)) + 0.5;
      context.strokeStyle = now.marks[mark.kind];
      context.globalAlpha = 0.65;
      context.beginPath();
      context.moveTo(x, this.top);
      context.lineTo(x, this.height);
      context.stroke();
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  private drawMarks() {
    if (this.top === kAxis) return;
    const { context } = this,
      now = theme(),
      middle = kAxis + kMarks / 2;
    context.fillStyle = now.panel;
    context.fillRect(0, kAxis, this.width, kMarks);
    context.fillStyle = now.line;
    context.fillRect(0, this.top - 1, this.width, 1);
    context.fillRect(this.gutter - 1, kAxis, 1, kMarks);
    context.fillStyle = now.dim;
    this.fillText("events", 8, middle, this.gutter - 16);
    for (const group of this.groups) {
      const { kind } = TimelineCanvas.foremost(group),
        path = this.paths.get(kind)!;
      context.save();
      context.translate(group.x, middle - 0.5);
      context.fillStyle = context.strokeStyle = now.marks[kind];
      context.lineWidth = 2.4;
      context.lineCap = "round";
      if (isStroked(kind)) context.stroke(path);
      else context.fill(path);
      // That there is more than one: a second mark looks out from behind.
      if (group.marks.length > 1) {
        context.lineWidth = 1.2;
        context.globalAlpha = 0.75;
        context.strokeRect(-7.5, -7.5, 15, 15);
      }
      context.restore();
    }
    this.canvas.dataset.groups = this.groups.map((group) => `${group.x.toFixed(1)}:${group.marks.length}`).join(" ");
  }

  private groupAt(x: number, y: number): MarkGroup | undefined {
    if (y < kAxis || y >= this.top) return undefined;
    const near = [...this.groups].sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x))[0];
    return near !== undefined && Math.abs(near.x - x) <= kNear ? near : undefined;
  }
  private describeGroup(group: MarkGroup): [string, [string, string][]] {
    const step = (this.t1 - this.t0) / 2000,
      [first] = group.marks;
    if (group.marks.length === 1) return [first.text, [["At", momentText(first.at, step)]]];
    const rows = group.marks.slice(0, kListed).map((mark): [string, string] => [momentText(mark.at, step), mark.text]);
    if (group.marks.length > kListed) rows.push(["", `and ${count(group.marks.length - kListed)} more`]);
    return [counted(group.marks.length, "event"), rows];
  }
  // To the next mark, or the one before: it comes to the middle if it was not in view, and is told of.
  private goToMark(by: number) {
    const { marks } = this.model,
      at = this.cursor ?? (by > 0 ? this.t0 - 1 : this.t1 + 1);
    const next = by > 0 ? marks.find((mark) => mark.at > at) : [...marks].reverse().find((mark) => mark.at < at);
    if (next !== undefined) this.showMark(next);
  }
  showMark(mark: Mark) {
    const half = (this.t1 - this.t0) / 2;
    if (mark.at < this.t0 || mark.at > this.t1) this.view(mark.at - half, mark.at + half);
    this.cursor = mark.at;
    moment.set(mark.at);
    this.onMark(mark);
    this.redraw();
  }

  private drawSeries(series: string, y: number): number {
    const { context } = this,
      step = this.model.data.series.step_ps,
      steps = series.length;
    const top = y + 1,
      height = Math.max(1, this.rowHeight - 2);
    const from = Math.max(0, Math.floor(this.t0 / step)),
      to = Math.min(steps, Math.ceil(this.t1 / step));
    const perPixel = Math.max(1, Math.floor((to - from) / (this.width - this.gutter)));
    let drawn = 0;
    for (let i = from; i < to;) {
      // Equal neighbours are one rectangle.
      let next = i + perPixel;
      while (next < to && series[next] === series[i]) next += perPixel;
      const load = level(series, i),
        x = Math.max(this.gutter, this.xOf(i * step)),
        right = Math.min(this.width, this.xOf(Math.min(next, to) * step));
      if (load > 0) {
        context.fillStyle = loadColour(load);
        const tall = this.rowHeight > 8 ? Math.max(2, height * load) : height;
        context.fillRect(x, top + height - tall, right - x + 0.4, tall);
        ++drawn;
      }
      i = next;
    }
    return drawn;
  }

  private fillText(text: string, x: number, y: number, room: number) {
    const { context } = this;
    context.textAlign = "left";
    const width = context.measureText(text).width;
    if (width <= room) return context.fillText(text, x, y);
    const letters = Math.floor((text.length * room) / width) - 1;
    if (letters >= 2) context.fillText(text.slice(0, letters) + "…", x, y);
    return undefined;
  }

  private drawLabels(first: number, last: number) {
    const { context } = this,
      now = theme();
    context.fillStyle = now.panel;
    context.fillRect(0, this.top, this.gutter - 1, this.height);
    context.fillStyle = now.line;
    context.fillRect(this.gutter - 1, this.top, 1, this.height);
    let free = -Infinity; // where the last label ends, when rows are thin
    for (let i = first; i < last; ++i) {
      const row = this.rows[i],
        middle = this.top + i * this.rowHeight - this.scrollTop + this.rowHeight / 2;
      const y = this.rowHeight < 12 ? Math.max(middle, this.top + 7) : middle;
      const half = this.gutter * 0.5;
      if (this.rowHeight < 12) {
        if (!row.first && row.type === "track") continue;
        if (y < free) continue;
        context.fillStyle = now.text;
        this.fillText(row.rank, 8, y, this.gutter - 16);
        free = y + 13;
        continue;
      }
      const shown = row.first || i === first || row.type === "link";
      context.fillStyle = now.text;
      if (shown) this.fillText(row.rank, 8, y, row.stream === "" ? this.gutter - 16 : half - 10);
      context.fillStyle = now.dim;
      this.fillText(row.stream, half, y, this.gutter - half - 8);
    }
  }

  private rowAt(y: number): Row | undefined {
    return y < this.top ? undefined : this.rows[Math.floor((y - this.top + this.scrollTop) / this.rowHeight)];
  }
  private hitAt(x: number, y: number): Hit | null {
    const row = this.rowAt(y);
    if (row === undefined || row.type !== "track" || x < this.gutter) return null;
    const at = this.timeAt(x),
      slack = ((this.t1 - this.t0) / (this.width - this.gutter)) * 2;
    const last = firstAbove(row.begin, at + slack) - 1;
    for (let span = last; span >= Math.max(0, last - 8); --span) if (row.end[span] >= at - slack) return { row, span };
    return null;
  }

  describe(hit: Hit): [string, [string, string][]] {
    const { row, span } = hit,
      data = this.model.data,
      step = Math.max(1, (row.end[span] - row.begin[span]) / 1000);
    const rows: [string, string][] = [
      ["Rank", row.rank],
      ["Stream", row.stream],
      ["Kind", data.kinds[row.kind[span]]],
      ["Duration", time(row.end[span] - row.begin[span])],
      ["Begin", momentText(row.begin[span], step)],
      ["End", momentText(row.end[span], step)],
    ];
    if (data.jobs.length > 1) rows.unshift(["Job", data.jobs[row.job]?.name ?? ""]);
    return [data.names[row.name[span]], rows];
  }

  private hover(event: PointerEvent) {
    const x = event.offsetX,
      y = event.offsetY;
    this.cursor = x >= this.gutter ? this.timeAt(x) : null;
    moment.set(this.cursor);
    this.redraw();
    const hit = this.hitAt(x, y),
      row = this.rowAt(y),
      group = this.groupAt(x, y);
    if (group !== undefined) return showTooltip(event.clientX, event.clientY, ...this.describeGroup(group));
    if (hit !== null) return showTooltip(event.clientX, event.clientY, ...this.describe(hit));
    if (row?.type === "link" && x >= this.gutter) {
      const at = this.timeAt(x),
        load = level(row.series, Math.min(row.series.length - 1, Math.floor(at / this.model.data.series.step_ps))),
        state = row.states.find(([begin, end]) => begin <= at && at < end);
      shownLine.set(row.line ?? null);
      const rows: [string, string][] = [["At", time(at)]];
      if (state?.[2] === 0) rows.unshift(["Down", `${time(state[0])} – ${time(state[1])}`]);
      else rows.unshift(["Load", percent(load)]);
      if (state !== undefined && state[2] > 0)
        rows.splice(1, 0, ["Bandwidth", `${rate(state[2])} from ${time(state[0])} to ${time(state[1])}`]);
      return showTooltip(event.clientX, event.clientY, row.rank, rows);
    }
    if (row !== undefined && x < this.gutter)
      return showTooltip(
        event.clientX,
        event.clientY,
        `${row.rank} ${row.stream}`.trim(),
        row.type === "track" ? [["Spans", count(row.begin.length)]] : [],
      );
    hideTooltip();
  }

  private listen() {
    let drag: { x: number; from: number; moved: boolean } | null = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      drag = { x: event.offsetX, from: this.timeAt(event.offsetX), moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag === null) return this.hover(event);
      if (!drag.moved && Math.abs(event.offsetX - drag.x) < 4) return;
      drag.moved = true;
      hideTooltip();
      if (event.shiftKey || this.range !== null) {
        this.range = [drag.from, this.timeAt(event.offsetX)];
        return this.redraw();
      }
      this.pan((drag.x - event.offsetX) / (this.width - this.gutter));
      drag.x = event.offsetX;
    });
    canvas.addEventListener("pointerup", (event) => {
      if (this.range !== null) this.view(Math.min(...this.range), Math.max(...this.range));
      else if (drag !== null && !drag.moved) this.select(this.hitAt(event.offsetX, event.offsetY));
      this.range = drag = null;
      this.redraw();
    });
    canvas.addEventListener("pointercancel", () => {
      this.range = drag = null;
      this.redraw();
    });
    canvas.addEventListener("pointerleave", () => {
      this.cursor = null;
      hideTooltip();
      this.redraw();
    });
    canvas.addEventListener("dblclick", (event) => {
      const hit = this.hitAt(event.offsetX, event.offsetY);
      if (hit === null) return this.zoom(2, this.timeAt(event.offsetX));
      const begin = hit.row.begin[hit.span],
        end = hit.row.end[hit.span],
        room = (end - begin) * 0.1;
      this.view(begin - room, end + room);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          this.zoom(Math.exp(-event.deltaY * 0.006), this.timeAt(Math.max(this.gutter, event.offsetX)));
        } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          event.preventDefault();
          this.pan((event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX) / (this.width - this.gutter));
        }
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const at = this.cursor ?? (this.t0 + this.t1) / 2;
      const step = (by: number) => {
        if (this.selected === null) return;
        const { row, span } = this.selected,
          next = span + by;
        if (next >= 0 && next < row.begin.length) this.select({ row, span: next }, true);
      };
      const keys: Record<string, () => void> = {
        w: () => this.zoom(1.5, at),
        "+": () => this.zoom(1.5, at),
        "=": () => this.zoom(1.5, at),
        s: () => this.zoom(1 / 1.5, at),
        "-": () => this.zoom(1 / 1.5, at),
        a: () => this.pan(-0.15),
        ArrowLeft: () => this.pan(-0.15),
        d: () => this.pan(0.15),
        ArrowRight: () => this.pan(0.15),
        "0": () => this.fit(),
        ".": () => step(1),
        ",": () => step(-1),
        "]": () => this.goToMark(1),
        "[": () => this.goToMark(-1),
        Escape: () => this.select(null),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}
