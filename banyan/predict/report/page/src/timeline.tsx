import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageData } from "./data";
import { count, counted, moment, time } from "./format";
import { useTheme, useWidth } from "./hooks";
import { isStroked, markKinds, markNames, markShapes, type Mark, type MarkKind } from "./marks";
import { TimelineCanvas } from "./timeline_canvas";
import { TimelineModel, type Hit } from "./timeline_model";

const kTallest = 520,
  kRow = 20,
  kThin = 5,
  kMostListed = 500;

export function MarkSign({ kind }: { kind: MarkKind }) {
  const colour = useTheme().marks[kind];
  return (
    <svg class="sign" viewBox="-6 -6 12 12" aria-hidden="true">
      <path
        d={markShapes[kind]}
        fill={isStroked(kind) ? "none" : colour}
        stroke={isStroked(kind) ? colour : "none"}
        stroke-width="2.4"
        stroke-linecap="round"
      />
    </svg>
  );
}

// The whole time at a glance: how many tracks are busy with what, and which part of it is shown below.
function Overview({
  model,
  view,
  move,
}: {
  model: TimelineModel;
  view: [number, number];
  move: (t0: number, t1: number) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const now = useTheme();
  const width = useWidth(canvas);
  const activity = useMemo(
    () => (width > 0 ? model.activity(Math.max(1, Math.floor(width / 2))) : null),
    [model, width],
  );
  useLayoutEffect(() => {
    if (activity === null) return;
    const element = canvas.current!,
      ratio = devicePixelRatio || 1,
      height = element.clientHeight;
    element.width = width * ratio;
    element.height = height * ratio;
    const context = element.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const steps = activity[0].length,
      step = width / steps;
    let highest = 0;
    for (let i = 0; i < steps; ++i)
      highest = Math.max(
        highest,
        activity.reduce((sum, kind) => sum + kind[i], 0),
      );
    for (let i = 0; i < steps; ++i) {
      let y = height;
      activity.forEach((sums, kind) => {
        const tall = highest > 0 ? (sums[i] / highest) * (height - 2) : 0;
        context.fillStyle = now.kinds[model.data.kinds[kind]] ?? now.dim;
        context.fillRect(i * step, (y -= tall), step + 0.3, tall);
      });
    }
    for (const mark of model.marks) {
      if (mark.kind === "start" || mark.kind === "end") continue;
      context.fillStyle = now.marks[mark.kind];
      context.fillRect(Math.min(width - 2, (mark.at / model.end) * width), 0, 2, 6);
    }
    const [left, right] = view.map((ps) => (ps / model.end) * width);
    context.fillStyle = now.page;
    context.globalAlpha = 0.72;
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
    context.globalAlpha = 1;
    context.strokeStyle = now.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), height - 1.5);
  }, [activity, view, now, width]);
  const drag = (event: PointerEvent) => {
    if ((event.buttons & 1) === 0) return;
    const at = (event.offsetX / width) * model.end,
      half = (view[1] - view[0]) / 2;
    const middle = Math.min(Math.max(at, half), model.end - half);
    move(middle - half, middle + half);
  };
  return <canvas class="overview" ref={canvas} onPointerDown={drag} onPointerMove={drag} aria-hidden="true" />;
}

export function Timeline({ data }: { data: PageData }) {
  const model = useMemo(() => new TimelineModel(data), [data]);
  const timeline = useMemo(() => new TimelineCanvas(model), [model]);
  const scroller = useRef<HTMLDivElement>(null),
    stage = useRef<HTMLDivElement>(null);
  const [view, setView] = useState<[number, number]>([0, model.end]);
  const [filter, setFilter] = useState(""),
    [sought, setSought] = useState("");
  const [thin, setThin] = useState(model.rows.length > 150);
  const [hit, setHit] = useState<Hit | null>(null);
  const [place, setPlace] = useState(-1);
  const [mark, setMark] = useState<Mark | null>(null);
  const now = useTheme();

  const [type, setType] = useState<"all" | "track" | "link">("all");
  const rows = useMemo(() => model.filtered(filter, type), [model, filter, type]);
  const wanted = useMemo(() => model.matching(sought), [model, sought]);
  const matches = useMemo(() => (wanted === null ? [] : model.matches(rows, wanted)), [wanted, rows]);
  const rowHeight = thin ? kThin : kRow;
  const height = Math.min(kTallest, Math.max(3 * kRow, rows.length * rowHeight) + timeline.top + 4);

  useLayoutEffect(() => {
    stage.current!.append(timeline.canvas);
    timeline.onView = (t0, t1) => setView([t0, t1]);
    timeline.onSelect = (chosen) => {
      setHit(chosen);
      setMark(null);
    };
    timeline.onMark = setMark;
    const measure = () => timeline.resize(scroller.current!.clientWidth, scroller.current!.clientHeight);
    timeline.setRows(rows, rowHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, [timeline]);
  useEffect(() => timeline.setRows(rows, rowHeight), [timeline, rows, rowHeight]);
  useEffect(() => {
    timeline.highlight(wanted);
    setPlace(-1);
  }, [timeline, wanted, rows]);
  useEffect(() => timeline.redraw(), [timeline, now]);

  const go = (by: number) => {
    if (matches.length === 0) return;
    const next = (place + by + matches.length) % matches.length,
      match = matches[next];
    setPlace(next);
    timeline.select(match, true);
    const top = timeline.rowTop(match.row);
    if (top < scroller.current!.scrollTop || top > scroller.current!.scrollTop + height - timeline.top - rowHeight)
      scroller.current!.scrollTop = top - height / 3;
  };
  const kinds = data.kinds.filter((_, kind) =>
    data.tracks.some((track) => track.spans.some((value, i) => i % 4 === 3 && value === kind)),
  );
  const links = model.rows.filter((row) => row.type === "link").length;
  timeline.canvas.setAttribute(
    "aria-label",
    `Timeline of ${counted(model.rows.length - links, "stream")} with ${counted(model.spans, "span")} and of ${counted(links, "link")}. ` +
      "W and S zoom, A and D move, 0 shows all, comma and full stop go from span to span" +
      (model.marks.length > 0 ? `, square brackets through its ${counted(model.marks.length, "event")}.` : "."),
  );
  const marked = markKinds.filter((kind) => model.marks.some((one) => one.kind === kind));
  const [name, details] = hit === null ? ["", []] : timeline.describe(hit);
  return (
    <section class="card" id="timeline" aria-labelledby="timeline-title">
      <header>
        <h2 id="timeline-title">Timeline</h2>
        <span class="dim">{counted(model.spans, "span")}</span>
        {marked.length > 0 && <span class="dim">{counted(model.marks.length, "event")}</span>}
        <span class="legend kinds">
          {kinds.map((kind) => (
            <span key={kind}>
              <i style={{ background: now.kinds[kind] }} />
              {kind}
            </span>
          ))}
          {marked.map((kind) => (
            <span key={kind} data-mark={kind}>
              <MarkSign kind={kind} />
              {markNames[kind]}
            </span>
          ))}
          {model.rows.some((row) => row.type === "link" && row.states.some((state) => state[2] === 0)) && (
            <span>
              <i class="hatched" style={{ "--hatch": now.marks.down }} />
              link is down
            </span>
          )}
        </span>
        <span class="grow" />
        {links > 0 && links < model.rows.length && (
          <select
            aria-label="Kind of rows"
            value={type}
            onChange={(event) => setType((event.target as HTMLSelectElement).value as typeof type)}
          >
            <option value="all">Ranks and links</option>
            <option value="track">Ranks</option>
            <option value="link">Links</option>
          </select>
        )}
        <input
          type="search"
          placeholder="Filter rows"
          aria-label="Show only rows with"
          value={filter}
          onInput={(event) => setFilter((event.target as HTMLInputElement).value)}
        />
        <span class="finder">
          <input
            type="search"
            placeholder="Find spans"
            aria-label="Find spans by name"
            value={sought}
            onInput={(event) => setSought((event.target as HTMLInputElement).value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
            }}
          />
          {wanted !== null && (
            <output class="dim">
              {matches.length === 0 ? "none" : `${place >= 0 ? count(place + 1) + " / " : ""}${count(matches.length)}`}
            </output>
          )}
        </span>
        <div class="buttons">
          <button
            type="button"
            aria-pressed={thin}
            title="Thin rows: more ranks at a glance"
            onClick={() => setThin(!thin)}
          >
            Thin
          </button>
          <button type="button" aria-label="Zoom the timeline in" onClick={() => timeline.zoom(2)}>
            +
          </button>
          <button type="button" aria-label="Zoom the timeline out" onClick={() => timeline.zoom(0.5)}>
            −
          </button>
          <button type="button" onClick={() => timeline.fit()}>
            Fit
          </button>
        </div>
      </header>
      {data.tracks.length > 0 && <Overview model={model} view={view} move={(t0, t1) => timeline.view(t0, t1)} />}
      <div
        class="timeline"
        ref={scroller}
        style={{ height: height + "px" }}
        onScroll={() => timeline.scrollTo(scroller.current!.scrollTop)}
      >
        <div style={{ height: Math.max(height, rows.length * rowHeight + timeline.top) + "px" }}>
          <div class="stage" ref={stage} />
        </div>
      </div>
      <footer aria-live="polite">
        {mark !== null ? (
          <span class="details">
            <MarkSign kind={mark.kind} />
            <strong>{mark.text}</strong>
            <span>
              <em>At</em> {moment(mark.at, mark.at / 10000)}
            </span>
          </span>
        ) : hit === null ? (
          <span class="dim hint">
            Drag to move, Ctrl + wheel to zoom, Shift + drag to zoom to a range, double-click a span to fill the view;
            keys W A S D 0{marked.length > 0 ? " and [ ] from event to event" : ""}.
          </span>
        ) : (
          <span class="details">
            <strong>{name}</strong>
            {details.map(([what, value]) => (
              <span key={what}>
                <em>{what}</em> {value}
              </span>
            ))}
          </span>
        )}
      </footer>
      {marked.length > 0 && (
        <details class="events">
          <summary>List of {counted(model.marks.length, "event")}</summary>
          <div class="scroll tall">
            <table>
              <thead>
                <tr>
                  <th class="n">At</th>
                  <th>Event</th>
                </tr>
              </thead>
              <tbody>
                {model.marks.slice(0, kMostListed).map((one, i) => (
                  <tr key={i}>
                    <td class="n">{time(one.at)}</td>
                    <td>
                      <button
                        type="button"
                        class="plain"
                        title="Show it in the timeline"
                        onClick={() => timeline.showMark(one)}
                      >
                        <MarkSign kind={one.kind} /> {one.text}
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {model.marks.length > kMostListed && <p class="dim">The first {count(kMostListed)}.</p>}
        </details>
      )}
    </section>
  );
}
