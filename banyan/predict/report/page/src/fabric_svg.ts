// The drawing of the fabric as SVG: built once, recoloured and moved afterwards.
import { level, type Drawing, type Lane, type Unit } from "./data";
import { bytes, count, counted, percent, rate } from "./format";
import { isWithin, periods } from "./marks";
import { chosenUnit, shownLine } from "./state";
import { loadColour, theme } from "./theme";
import { hideTooltip, showTooltip, type Row } from "./tooltip";

export type Metric = "load" | "full" | "moment";

interface Stroke {
  path: SVGPathElement;
  lane: Lane;
  line: number;
}

const space = "http://www.w3.org/2000/svg";
function make<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Record<string, string | number>,
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

// The path, pushed to the right of its direction, so that both directions of a cable lie side by side.
function pathOf(points: number[], push: number, curved: boolean): string {
  const at: [number, number][] = [];
  for (let i = 0; i < points.length; i += 2) at.push([points[i], points[i + 1]]);
  const [x1, y1] = at[0],
    [x2, y2] = at[at.length - 1];
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const straight = at.length === 2 || curved;
  // Around corners of right angles one diagonal step keeps all pieces apart.
  const dx = straight ? (-(y2 - y1) / length) * push : push;
  const dy = straight ? ((x2 - x1) / length) * push : -push;
  const words = at.map(([x, y]) => `${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)}`);
  return curved ? `M${words[0]} Q${words[1]} ${words[2]}` : "M" + words.join(" L");
}

// Half of the way along the line.
function middleOf(points: number[], curved: boolean): [number, number] {
  // Of a curve with one control point: a quarter, a half and a quarter of its three points.
  if (curved)
    return [
      points[0] / 4 + points[2] / 2 + points[4] / 4,
      points[1] / 4 + points[3] / 2 + points[5] / 4,
    ];
  const lengths: number[] = [];
  for (let i = 2; i < points.length; i += 2)
    lengths.push(Math.hypot(points[i] - points[i - 2], points[i + 1] - points[i - 1]));
  let left = lengths.reduce((sum, length) => sum + length, 0) / 2,
    piece = 0;
  while (piece + 1 < lengths.length && left > lengths[piece]) left -= lengths[piece++];
  const part = lengths[piece] > 0 ? left / lengths[piece] : 0,
    at = 2 * piece;
  return [
    points[at] + (points[at + 2] - points[at]) * part,
    points[at + 1] + (points[at + 3] - points[at + 1]) * part,
  ];
}

const shortened = (text: string, most: number) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

export class FabricView {
  readonly svg = make("svg", { class: "fabric", tabindex: 0, role: "group" });
  private readonly world = make("g", { class: "world" });
  private readonly strokes: Stroke[] = [];
  private readonly crosses: { cross: SVGPathElement; lanes: Lane[] }[] = []; // on lines that were down
  private readonly bodies: { shape: SVGElement; lane: Lane | null }[] = [];
  private readonly unitGroups: SVGGElement[] = [];
  private readonly halo = make("path", { class: "halo", fill: "none" });
  private scale = 1;
  private x = 0;
  private y = 0;
  private fitted = true;
  private metric: Metric = "load";
  private step = 0;

  // `stepTime` is how long a step of a series lasts, in ps.
  constructor(
    private readonly drawing: Drawing,
    private readonly stepTime: number,
  ) {
    const lines = drawing.lines.length;
    this.svg.dataset.units = String(drawing.units.length);
    this.svg.setAttribute(
      "aria-label",
      `Fabric with ${counted(drawing.ranks, "rank")}, ${counted(drawing.switches, "switch")} and ` +
        `${counted(drawing.links, "link")}, coloured by load. Plus and minus zoom, arrows move, 0 shows all.`,
    );
    const panels = make("g", { class: "panels" }),
      cables = make("g", { class: "lines" }),
      crosses = make("g", { class: "crosses" }),
      units = make("g", { class: "units" });
    for (const [x, y, width, height] of drawing.panels)
      panels.append(make("rect", { class: "panel", x, y, width, height, rx: 8 }));
    const tiled = drawing.units.some((unit) => unit.kind === "tile");
    const widest = Math.max(
      1,
      ...drawing.lines.flatMap((line) => [line.forth?.bytes_per_second ?? 0, line.back?.bytes_per_second ?? 0]),
    );
    const thick = lines > 1500 ? 1.6 : tiled ? 1.8 : drawing.ranks > 32 ? 3 : 5;
    drawing.lines.forEach((line, number) => {
      if (line.a === line.b) return;
      for (const [lane, side] of [
        [line.forth, 1],
        [line.back, -1],
      ] as const) {
        if (lane === null) continue;
        const width = Math.max(tiled ? 1.6 : 1.4, thick * Math.sqrt(lane.bytes_per_second / widest));
        const both = line.forth !== null && line.back !== null;
        const d = pathOf(line.path, both ? side * (width / 2 + 0.35) : 0, line.curved);
        const path = make("path", { class: "line", d, fill: "none", "stroke-width": width.toFixed(2) });
        path.dataset.line = String(number);
        path.dataset.side = side > 0 ? "forth" : "back";
        cables.append(path);
        this.strokes.push({ path, lane, line: number });
      }
      const fallen = [line.forth, line.back].filter((lane) => lane?.down !== undefined) as Lane[];
      if (fallen.length > 0) {
        const [x, y] = middleOf(line.path, line.curved);
        const cross = make("path", {
          class: "cross",
          d: "M-6 -6L6 6M-6 6L6 -6",
          transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
        });
        crosses.append(cross);
        this.crosses.push({ cross, lanes: fallen });
      }
    });
    const inside = new Map(drawing.lines.filter((line) => line.a === line.b).map((line) => [line.a, line.forth]));
    drawing.units.forEach((unit, number) => units.append(this.drawUnit(unit, number, inside.get(number) ?? null)));
    this.world.append(panels, this.halo, cables, crosses, units);
    this.svg.append(this.world);
    this.listen();
  }

  private drawUnit(unit: Unit, number: number, lane: Lane | null): SVGGElement {
    const [x, y, width, height] = unit.at;
    const group = make("g", { class: "unit " + unit.kind });
    group.dataset.unit = String(number);
    const shape = make("rect", {
      class: "body",
      x: x - width / 2,
      y: y - height / 2,
      width,
      height,
      rx: unit.kind === "rank" ? Math.min(11, height / 2) : 4,
    });
    group.append(shape);
    this.bodies.push({ shape, lane: unit.kind === "tile" ? lane : null });
    if (unit.kind === "tile") {
      const label = make("text", { class: "title", x, y: y - height / 2 + 9.5 });
      label.textContent = shortened(unit.name, Math.floor((width - 4) / 4));
      group.append(label);
      const cells = unit.cells ?? "";
      const columns = Math.ceil(Math.sqrt(cells.length)),
        left = x - (columns * 12) / 2,
        top = y - height / 2 + 20;
      [...cells].forEach((_, i) => {
        const cell = make("rect", {
          class: "cell",
          x: left + (i % columns) * 12 + 1,
          y: top + Math.floor(i / columns) * 12 - 1,
          width: 10,
          height: 10,
          rx: 2,
        });
        cell.dataset.load = String(level(cells, i));
        group.append(cell);
      });
      if (cells === "") {
        const text = make("text", { class: "count", x, y: y + 6 });
        text.textContent = count(unit.ranks);
        group.append(text);
      }
    } else if (unit.label) {
      const text = make("text", { class: "title", x, y });
      text.textContent = shortened(
        unit.switches > 1 ? counted(unit.switches, "switch") : unit.name,
        Math.max(3, Math.floor((width - 4) / 6)),
      );
      group.append(text);
    }
    this.unitGroups.push(group);
    return group;
  }

  private value(lane: Lane): number {
    if (this.metric === "moment") return level(lane.series, this.step);
    return this.metric === "full" ? lane.full : lane.load;
  }

  // The end of the colour scale: loads of 7 and of 10 % are told apart where nothing is above 10 %.
  highest(metric: Metric): number {
    const lanes = [...this.strokes, ...this.bodies].flatMap(({ lane }) => (lane === null ? [] : [lane]));
    if (metric === "moment") return 1; // comparable from one moment to the next
    const most = Math.max(0, ...lanes.map((lane) => (metric === "full" ? lane.full : lane.load)));
    return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((top) => most <= top) ?? 1;
  }

  // At the moment that is looked at.
  private isDown(lane: Lane): boolean {
    return this.metric === "moment" && isWithin(lane.down, (this.step + 0.5) * this.stepTime);
  }

  colour(metric: Metric, step: number) {
    this.metric = metric;
    this.step = step;
    const top = this.highest(metric);
    for (const { path, lane } of this.strokes) {
      const value = this.value(lane);
      const down = this.isDown(lane);
      path.setAttribute("stroke", down ? theme().marks.down : loadColour(value / top));
      path.classList.toggle("down", down);
      path.classList.toggle("was-down", lane.down !== undefined && metric !== "moment");
      path.dataset.load = value.toFixed(3);
    }
    for (const { cross, lanes } of this.crosses) {
      const down = metric !== "moment" || lanes.some((lane) => this.isDown(lane));
      cross.setAttribute("visibility", down ? "visible" : "hidden");
      cross.setAttribute("stroke", theme().marks.down);
    }
    for (const { shape, lane } of this.bodies) {
      if (lane === null) continue;
      const value = this.value(lane);
      (shape as SVGRectElement).style.stroke = loadColour(value / top);
      shape.dataset.load = value.toFixed(3);
    }
    for (const cell of this.svg.querySelectorAll<SVGRectElement>(".cell"))
      cell.style.fill = loadColour(Number(cell.dataset.load) / this.highest("load"));
  }

  private apply() {
    this.world.setAttribute(
      "transform",
      `translate(${this.x.toFixed(2)} ${this.y.toFixed(2)}) scale(${this.scale.toFixed(4)})`,
    );
    this.svg.dataset.view = `${this.x.toFixed(1)} ${this.y.toFixed(1)} ${this.scale.toFixed(4)}`;
  }

  // From where to where the drawing reaches: a unit with a long name may be wider than the drawing.
  private extent(axis: 0 | 1, size: number): [number, number] {
    const ends = (side: number) => this.drawing.units.map((unit) => unit.at[axis] + (side * unit.at[axis + 2]) / 2);
    return [Math.min(0, ...ends(-1)), Math.max(size, ...ends(1))];
  }

  fit() {
    const width = this.svg.clientWidth,
      height = this.svg.clientHeight,
      margin = 14;
    if (width === 0 || height === 0) return;
    this.fitted = true;
    const [left, right] = this.extent(0, this.drawing.width),
      [top, bottom] = this.extent(1, this.drawing.height);
    this.scale = Math.min(2, (width - 2 * margin) / (right - left), (height - 2 * margin) / (bottom - top));
    this.x = (width - (left + right) * this.scale) / 2;
    this.y = (height - (top + bottom) * this.scale) / 2;
    this.apply();
  }

  zoom(factor: number, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const next = Math.min(20, Math.max(0.02, this.scale * factor));
    this.x = x - ((x - this.x) * next) / this.scale;
    this.y = y - ((y - this.y) * next) / this.scale;
    this.scale = next;
    this.fitted = false;
    this.apply();
  }

  pan(dx: number, dy: number) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
    this.apply();
  }

  // The line that somebody looks for elsewhere on the page.
  show(line: number | null) {
    const stroke = this.strokes.find((one) => one.line === line);
    this.halo.setAttribute("d", stroke?.path.getAttribute("d") ?? "");
    const chosen = line === null ? null : this.drawing.lines[line];
    this.unitGroups.forEach((group, number) =>
      group.classList.toggle("shown", chosen !== null && (chosen.a === number || chosen.b === number)),
    );
  }

  choose(unit: number | null) {
    this.unitGroups.forEach((group, number) => group.classList.toggle("chosen", number === unit));
  }

  private describeLine(number: number, side: string): [string, Row[]] {
    const line = this.drawing.lines[number],
      lane = (side === "forth" ? line.forth : line.back)!;
    const [from, to] = side === "forth" ? [line.a, line.b] : [line.b, line.a];
    const title = lane.links === 1 ? lane.hottest : `${this.drawing.units[from].name} -> ${this.drawing.units[to].name}`;
    return [title, this.laneRows(lane)];
  }

  private laneRows(lane: Lane): Row[] {
    const rows: Row[] = [
      ["Bandwidth", rate(lane.bytes_per_second) + (lane.links > 1 ? ` over ${counted(lane.links, "link")}` : "")],
      ["Carried", bytes(lane.bytes)],
    ];
    if (lane.links > 1)
      rows.push(["Mean load", percent(lane.mean)], ["Hottest", `${lane.hottest}: ${percent(lane.load)}`]);
    else rows.push(["Load", percent(lane.load)]);
    rows.push(["Bottleneck for", percent(lane.full) + " of the time"]);
    if (this.metric === "moment")
      rows.push(["Load at the moment", this.isDown(lane) ? "down" : percent(level(lane.series, this.step))]);
    if (lane.down !== undefined) rows.push([lane.links > 1 ? "One of them down" : "Down", periods(lane.down)]);
    return rows;
  }

  private describeUnit(number: number): [string, Row[]] {
    const unit = this.drawing.units[number],
      rows: Row[] = [];
    if (unit.kind === "tile") rows.push(["Ranks", count(unit.ranks)]);
    if (unit.switches > 0 && unit.kind !== "rank") rows.push(["Switches", count(unit.switches)]);
    const inside = this.drawing.lines.find((line) => line.a === number && line.b === number)?.forth;
    if (inside)
      rows.push(
        ["Links inside", count(inside.links)],
        ["Hottest inside", `${inside.hottest}: ${percent(inside.load)}`],
      );
    const around = this.drawing.lines.filter((line) => line.a !== line.b && (line.a === number || line.b === number));
    const lanes = around.flatMap((line) => [line.forth, line.back]).filter((lane) => lane !== null);
    if (lanes.length > 0) {
      const hottest = lanes.reduce((a, b) => (b.load > a.load ? b : a));
      rows.push(["Hottest link", `${hottest.hottest}: ${percent(hottest.load)}`]);
    }
    return [unit.name, rows];
  }

  private listen() {
    let dragging: { x: number; y: number; moved: boolean } | null = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      dragging = { x: event.clientX, y: event.clientY, moved: false };
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (dragging !== null) {
        const dx = event.clientX - dragging.x,
          dy = event.clientY - dragging.y;
        if (!dragging.moved && Math.hypot(dx, dy) < 4) return;
        if (!dragging.moved) this.svg.setPointerCapture(event.pointerId);
        dragging = { x: event.clientX, y: event.clientY, moved: true };
        this.pan(dx, dy);
        hideTooltip();
        return;
      }
      const target = event.target as Element;
      const line = target.closest<SVGElement>("[data-line]"),
        unit = target.closest<SVGElement>("[data-unit]");
      if (line === null && unit === null) return hideTooltip();
      const [title, rows] =
        line !== null
          ? this.describeLine(Number(line.dataset.line), line.dataset.side!)
          : this.describeUnit(Number(unit!.dataset.unit));
      showTooltip(event.clientX, event.clientY, title, rows);
    });
    const end = (event: PointerEvent) => {
      if (dragging !== null && !dragging.moved && event.type === "pointerup") {
        const target = event.target as Element;
        const line = target.closest<SVGElement>("[data-line]"),
          unit = target.closest<SVGElement>("[data-unit]");
        shownLine.set(line === null ? null : Number(line.dataset.line));
        const number = unit === null ? null : Number(unit.dataset.unit);
        chosenUnit.set(number === chosenUnit.value ? null : number);
      }
      dragging = null;
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
    this.svg.addEventListener("pointerleave", hideTooltip);
    this.svg.addEventListener(
      "wheel",
      (event) => {
        // A page must still scroll: the wheel alone zooms only in a drawing that has been clicked on.
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.svg) return;
        event.preventDefault();
        const box = this.svg.getBoundingClientRect();
        this.zoom(
          Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)),
          event.clientX - box.left,
          event.clientY - box.top,
        );
      },
      { passive: false },
    );
    this.svg.addEventListener("keydown", (event) => {
      const keys: Record<string, () => void> = {
        "+": () => this.zoom(1.25),
        "=": () => this.zoom(1.25),
        "-": () => this.zoom(0.8),
        "0": () => this.fit(),
        ArrowLeft: () => this.pan(40, 0),
        ArrowRight: () => this.pan(-40, 0),
        ArrowUp: () => this.pan(0, 40),
        ArrowDown: () => this.pan(0, -40),
        Escape: () => {
          chosenUnit.set(null);
          shownLine.set(null);
        },
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
    new ResizeObserver(() => {
      // The same as no viewBox at all, except on paper, where what was on the screen is scaled.
      this.svg.setAttribute("viewBox", `0 0 ${this.svg.clientWidth} ${this.svg.clientHeight}`);
      if (this.fitted) this.fit();
    }).observe(this.svg);
  }
}
