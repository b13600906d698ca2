// Where the time of each rank went: labelled bars for a few ranks, a skyline of thin columns for many.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { PageData } from "./data";
import { counted, percent, time } from "./format";
import { useTheme, useWidth } from "./hooks";
import { hideTooltip, showTooltip } from "./tooltip";

export const partNames = ["Compute", "Exposed communication", "Waiting for ranks", "Host", "Bubble"];
const kMostBars = 24;

type RankRow = PageData["ranks"][number];
const partsOf = (row: RankRow) => row.slice(2) as number[];

export function Bar({ parts, whole, label }: { parts: number[]; whole: number; label: string }) {
  const words = parts.map((part, i) => `${partNames[i]} ${percent(whole > 0 ? part / whole : 0)}`).join(", ");
  return (
    <span
      class="bar"
      role="img"
      aria-label={`${label}: ${words}`}
      onPointerMove={(event) =>
        showTooltip(
          event.clientX,
          event.clientY,
          label,
          parts.map((part, i) => [partNames[i], `${time(part)}, ${percent(whole > 0 ? part / whole : 0)}`]),
        )
      }
      onPointerLeave={hideTooltip}
    >
      {parts.map(
        (part, i) =>
          part > 0 && <i key={i} class={"part" + i} style={{ width: (100 * part) / Math.max(1, whole) + "%" }} />,
      )}
    </span>
  );
}

export function PartLegend() {
  return (
    <span class="legend">
      {partNames.map((name, i) => (
        <span key={name}>
          <i class={"part" + i} />
          {name}
        </span>
      ))}
    </span>
  );
}

function Skyline({ rows, whole }: { rows: RankRow[]; whole: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const now = useTheme();
  const width = useWidth(canvas);
  useLayoutEffect(() => {
    if (width === 0) return;
    const element = canvas.current!,
      ratio = devicePixelRatio || 1,
      height = element.clientHeight;
    element.width = width * ratio;
    element.height = height * ratio;
    const context = element.getContext("2d")!;
    context.scale(ratio, ratio);
    const step = width / rows.length;
    rows.forEach((row, place) => {
      let y = height;
      partsOf(row).forEach((part, i) => {
        const tall = (part / Math.max(1, whole)) * height;
        context.fillStyle = now.parts[i];
        context.fillRect(place * step, (y -= tall), step > 3 ? step - 1 : step + 0.3, tall);
      });
    });
  }, [rows, whole, now, width]);
  const hover = (event: PointerEvent) => {
    const row =
      rows[Math.min(rows.length - 1, Math.max(0, Math.floor((event.offsetX / Math.max(1, width)) * rows.length)))];
    showTooltip(
      event.clientX,
      event.clientY,
      row[0],
      partsOf(row).map((part, i) => [partNames[i], `${time(part)}, ${percent(part / Math.max(1, whole))}`]),
    );
  };
  return (
    <div class="skyline">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Share of time by rank, ${rows.length} columns`}
        data-columns={rows.length}
        onPointerMove={hover}
        onPointerLeave={hideTooltip}
      />
      <div class="ends dim">
        <span>{rows[0][0]}</span>
        <span>{rows[rows.length - 1][0]}</span>
      </div>
    </div>
  );
}

export function Ranks({ data }: { data: PageData }) {
  const [job, setJob] = useState(-1),
    [order, setOrder] = useState("place");
  const chosen = data.ranks.filter((row) => job < 0 || row[1] === job);
  const rows =
    order === "place" ? chosen : [...chosen].sort((a, b) => partsOf(b)[Number(order)] - partsOf(a)[Number(order)]);
  return (
    <section class="card" id="ranks" aria-labelledby="ranks-title">
      <header>
        <h2 id="ranks-title">Where the time went</h2>
        <span class="dim">{counted(rows.length, "row")}</span>
        <span class="grow" />
        {data.jobs.length > 1 && (
          <select
            aria-label="Job"
            value={job}
            onChange={(event) => setJob(Number((event.target as HTMLSelectElement).value))}
          >
            <option value={-1}>All jobs</option>
            {data.jobs.map((one, i) => (
              <option key={i} value={i}>
                {one.name}
              </option>
            ))}
          </select>
        )}
        <select
          aria-label="Order of ranks"
          value={order}
          onChange={(event) => setOrder((event.target as HTMLSelectElement).value)}
        >
          <option value="place">In order of ranks</option>
          {partNames.map((name, i) => (
            <option key={name} value={i}>
              Most {name.toLowerCase()} first
            </option>
          ))}
        </select>
      </header>
      {rows.length > kMostBars ? (
        <Skyline rows={rows} whole={data.time_ps} />
      ) : (
        <div class="bars">
          {rows.map((row) => [
            <span class="name" key={"name " + row[0]} title={row[0]}>
              {row[0]}
            </span>,
            <Bar key={"bar " + row[0]} parts={partsOf(row)} whole={data.time_ps} label={row[0]} />,
            <span class="value" key={"value " + row[0]}>
              {percent(row[2] / Math.max(1, data.time_ps))}
            </span>,
          ])}
        </div>
      )}
      {data.uncovered.length > 0 && (
        <div class="uncovered">
          <h3>While nothing computes</h3>
          <p class="dim small">
            Operations under way, or waited for, when a rank neither computes nor moves memory; share of the whole time, mean
            of the ranks in the timeline.
          </p>
          <div class="bars">
            {data.uncovered.map(([name, share]) => [
              <span class="name" key={"name " + name} title={name}>
                {name}
              </span>,
              <span class="bar" key={"bar " + name}>
                <i class="part1" style={{ width: 100 * share + "%" }} />
              </span>,
              <span class="value" key={"value " + name}>
                {percent(share)}
              </span>,
            ])}
          </div>
        </div>
      )}
      <footer>
        <PartLegend />
      </footer>
    </section>
  );
}
