import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageData } from "./data";
import { FabricView, type Metric } from "./fabric_svg";
import { counted, percent, time } from "./format";
import { useTheme } from "./hooks";
import { chosenUnit, moment, shownLine } from "./state";
import { scaleGradient } from "./theme";

export function Fabric({ data }: { data: PageData }) {
  const drawing = data.drawing!;
  const host = useRef<HTMLDivElement>(null);
  const view = useMemo(() => new FabricView(drawing, data.series.step_ps), [drawing]);
  const [metric, setMetric] = useState<Metric>("load");
  const [step, setStep] = useState(0);
  const now = useTheme();
  const { steps, step_ps } = data.series;

  useLayoutEffect(() => {
    host.current!.append(view.svg);
    view.fit();
    const stops = [
      shownLine.listen((line) => view.show(line)),
      chosenUnit.listen((unit) => view.choose(unit)),
      moment.listen((ps) => {
        if (ps !== null && steps > 0) setStep(Math.max(0, Math.min(steps - 1, Math.floor(ps / step_ps))));
      }),
    ];
    return () => stops.forEach((stop) => stop());
  }, [view]);
  const top = useMemo(() => view.highest(metric), [view, metric]);
  useLayoutEffect(() => view.colour(metric, step), [view, metric, step, now]);

  const choices: [Metric, string, string][] = [
    ["load", "Average", "Bytes over what the link could have carried"],
    ["full", "Bottleneck", "The part of the time in which the link held something up"],
  ];
  if (steps > 0) choices.push(["moment", "At a moment", "Load at the cursor of the timeline, or of the slider"]);
  return (
    <section class="card" id="fabric" aria-labelledby="fabric-title">
      <header>
        <h2 id="fabric-title">Fabric</h2>
        <span class="dim">
          {counted(drawing.ranks, "rank")}, {counted(drawing.switches, "switch")}, {counted(drawing.links, "link")}
        </span>
        <span class="grow" />
        <div class="choices" role="radiogroup" aria-label="Colour of links">
          {choices.map(([value, label, title]) => (
            <label key={value} title={title}>
              <input
                type="radio"
                name="metric"
                value={value}
                checked={metric === value}
                onChange={() => setMetric(value)}
              />
              <span>{label}</span>
            </label>
          ))}
        </div>
        <div class="buttons">
          <button type="button" onClick={() => view.zoom(1.4)} aria-label="Zoom the drawing in">
            +
          </button>
          <button type="button" onClick={() => view.zoom(1 / 1.4)} aria-label="Zoom the drawing out">
            −
          </button>
          <button type="button" onClick={() => view.fit()}>
            Fit
          </button>
        </div>
      </header>
      <div
        class="fabric-host"
        ref={host}
        style={{
          minHeight: `clamp(250px, ${((100 * (drawing.height + 30)) / (drawing.width + 30)).toFixed(1)}cqw, max(62vh, 460px))`,
        }}
      />
      <footer>
        <span class="legend">
          <span>0 %</span>
          <span class="gradient" style={{ background: scaleGradient() }} />
          <span>{percent(top)} {metric === "full" ? "of the time a bottleneck" : "of bandwidth"}</span>
        </span>
        {drawing.lines.some((line) => line.forth?.down ?? line.back?.down) && (
          <span class="legend">
            <span>
              <svg class="dash" viewBox="0 0 26 10" aria-hidden="true">
                <path d="M1 5H25" stroke={metric === "moment" ? now.marks.down : "currentColor"} />
                <path class="cross" d="M9 1L17 9M9 9L17 1" stroke={now.marks.down} />
              </svg>
              {metric === "moment" ? "down at this moment" : "down for some of the time"}
            </span>
          </span>
        )}
        {metric === "moment" && (
          <label class="slider">
            <input
              type="range"
              min={0}
              max={steps - 1}
              value={step}
              aria-label="Moment"
              onInput={(event) => setStep(Number((event.target as HTMLInputElement).value))}
            />
            <output>{time(step * step_ps)}</output>
          </label>
        )}
        <span class="grow" />
        <span class="dim hint">
          Each direction has its own line. Click a part to list its links; drag to move, Ctrl + wheel to zoom.
        </span>
      </footer>
    </section>
  );
}
