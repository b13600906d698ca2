// Throughput by size: a line per plan, and a strip that says which plan is fastest where.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { PageData, Point } from "./data";
import { rate, size, time } from "./format";
import { useTheme } from "./hooks";

type Measure = "algbw" | "busbw" | "time_ps";
const measures: [Measure, string][] = [
  ["algbw", "algbw"],
  ["busbw", "busbw"],
  ["time_ps", "Time"],
];
const dashes = [[], [6, 3], [2, 3], [9, 3, 2, 3]];

export function Throughput({ data }: { data: PageData }) {
  const host = useRef<HTMLDivElement>(null);
  const now = useTheme();
  const [measure, setMeasure] = useState<Measure>("algbw"),
    [log, setLog] = useState(false),
    [at, setAt] = useState<number | null>(null);
  const { sizes, plans, cells, best } = useMemo(() => {
    const sizes = [...new Set(data.points.map((point) => point.bytes))].sort((a, b) => a - b);
    const plans = [...new Set(data.points.map((point) => point.plan))];
    const cells = plans.map((plan) => {
      const own = new Map(data.points.filter((point) => point.plan === plan).map((point) => [point.bytes, point]));
      return sizes.map((bytes): Point | null => own.get(bytes) ?? null);
    });
    const best = sizes.map((_, i) => {
      let found = -1;
      cells.forEach((row, plan) => {
        if (row[i] !== null && (found < 0 || row[i]!.time_ps < cells[found][i]!.time_ps)) found = plan;
      });
      return found;
    });
    return { sizes, plans, cells, best };
  }, [data]);
  const show = (value: number) => (measure === "time_ps" ? time(value) : rate(value));
  const logarithmic = log || measure === "time_ps";
  const colour = (plan: number) => now.plans[plan % now.plans.length];

  useEffect(() => {
    const element = host.current!;
    const axis = {
      stroke: now.dim,
      font: '11px system-ui, "DejaVu Sans", sans-serif',
      grid: { stroke: now.line, width: 1 },
      ticks: { stroke: now.line, width: 1 },
    };
    const plot = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: 300,
        legend: { show: false },
        padding: [12, 28, 0, 4],
        scales: {
          x: { time: false, distr: 3, log: 2 },
          y: logarithmic ? { distr: 3, log: 10 } : { range: (_, __, most) => [0, (most || 1) * 1.05] },
        },
        axes: [
          {
            ...axis,
            size: 30,
            values: (_, splits) => splits.map((value) => (value === null ? null : size(value))),
            space: 64,
            filter: (_, splits, __, found) => {
              const every = Math.max(1, Math.ceil(splits.length / Math.max(2, Math.floor(element.clientWidth / 80))));
              return found < 0 ? splits : splits.map((value, i) => (i % every === 0 ? value : null));
            },
          },
          { ...axis, size: 76, values: (_, splits) => splits.map((value) => (value === null ? null : show(value))) },
        ],
        series: [
          {},
          ...plans.map((plan, i) => ({
            label: plan,
            stroke: colour(i),
            width: 2,
            dash: dashes[Math.floor(i / now.plans.length) % dashes.length],
            points: { show: sizes.length < 60, size: 5, fill: colour(i), stroke: colour(i) },
            spanGaps: true,
          })),
        ],
        cursor: { y: false, points: { size: 8 } },
        hooks: { setCursor: [(self) => setAt(self.cursor.idx ?? null)] },
      },
      [sizes, ...cells.map((row) => row.map((point) => (point === null ? null : point[measure])))] as uPlot.AlignedData,
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(200, element.clientWidth), height: 300 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [sizes, cells, measure, log, now]);

  const shown = at ?? sizes.length - 1;
  return (
    <section class="card" id="throughput" aria-labelledby="throughput-title">
      <header>
        <h2 id="throughput-title">Throughput by size</h2>
        <span class="grow" />
        <div class="choices" role="radiogroup" aria-label="What is shown">
          {measures.map(([value, label]) => (
            <label key={value}>
              <input type="radio" name="measure" checked={measure === value} onChange={() => setMeasure(value)} />
              <span>{label}</span>
            </label>
          ))}
        </div>
        <label class="check">
          <input type="checkbox" checked={logarithmic} disabled={measure === "time_ps"} onChange={() => setLog(!log)} />
          Logarithmic
        </label>
      </header>
      <div
        class="chart"
        ref={host}
        data-plans={plans.length}
        data-sizes={sizes.length}
        role="img"
        aria-label={`${plans.join(", ")} by size; the values are in the table below`}
      />
      {plans.length > 1 && (
        <div class="best" aria-hidden="true">
          {best.map((plan, i) => (
            <i
              key={i}
              style={{ background: plan < 0 ? "none" : colour(plan) }}
              title={plan < 0 ? "" : `${size(sizes[i])}: ${plans[plan]} is fastest`}
            />
          ))}
        </div>
      )}
      <footer>
        <strong>{size(sizes[shown] ?? 0)}</strong>
        {plans.map((plan, i) => {
          const point = cells[i][shown];
          return (
            <span class="reading" key={plan}>
              <i style={{ background: colour(i) }} />
              {plan} <b>{point === null || point === undefined ? "–" : show(point[measure])}</b>
              {best[shown] === i && plans.length > 1 ? " · fastest" : ""}
            </span>
          );
        })}
      </footer>
      <details>
        <summary>All values</summary>
        <div class="scroll tall">
          <table>
            <thead>
              <tr>
                <th class="n">Size</th>
                <th>Plan</th>
                <th class="n">Time</th>
                <th class="n">algbw</th>
                <th class="n">busbw</th>
              </tr>
            </thead>
            <tbody>
              {sizes.flatMap((bytes, i) =>
                cells.map(
                  (row, plan) =>
                    row[i] && (
                      <tr key={bytes + " " + plan} class={best[i] === plan ? "best-row" : ""}>
                        <td class="n">{size(bytes)}</td>
                        <td>{plans[plan]}</td>
                        <td class="n">{time(row[i]!.time_ps)}</td>
                        <td class="n">{rate(row[i]!.algbw)}</td>
                        <td class="n">{rate(row[i]!.busbw)}</td>
                      </tr>
                    ),
                ),
              )}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}
