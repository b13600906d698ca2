// Jobs, bottleneck links, and what doubling a resource would give.
import { useMemo, useState } from "preact/hooks";
import type { PageData } from "./data";
import { bytes, count, counted, percent, rate, time } from "./format";
import { useShared, useTheme } from "./hooks";
import { downOf, periods } from "./marks";
import { Bar, PartLegend } from "./ranks";
import { chosenUnit, shownLine } from "./state";
import { loadColour } from "./theme";

export function Jobs({ data }: { data: PageData }) {
  return (
    <section class="card" id="jobs" aria-labelledby="jobs-title">
      <header>
        <h2 id="jobs-title">Jobs</h2>
        <span class="dim">{counted(data.jobs.length, "job")}</span>
      </header>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Job</th>
              <th>Tenant</th>
              <th class="n">Ranks</th>
              <th class="n">Begin</th>
              <th class="n">Takes</th>
              <th class="n">Alone</th>
              <th class="n">Slow-down</th>
              <th class="wide">Its ranks, on average</th>
            </tr>
          </thead>
          <tbody>
            {data.jobs.map((job, i) => {
              const takes = job.end_ps - job.begin_ps,
                slow = job.alone_ps ? takes / job.alone_ps : null;
              return (
                <tr key={i}>
                  <td>{job.name}</td>
                  <td class="dim">{job.tenant || "–"}</td>
                  <td class="n">{count(job.ranks)}</td>
                  <td class="n">{time(job.begin_ps)}</td>
                  <td class="n">{time(takes)}</td>
                  <td class="n">{job.alone_ps === null ? "–" : time(job.alone_ps)}</td>
                  <td class="n">
                    {job.failed_at_ps !== null ? (
                      <strong class="failed" title="A link that it used failed, and the rest of it was given up">
                        failed
                      </strong>
                    ) : slow === null ? (
                      "–"
                    ) : ( <strong class={slow > 1.005 ? "slow" : ""}>{slow.toFixed(2)} ×</strong>
                    )}
                  </td>
                  <td class="wide">
                    <Bar parts={job.parts_ps} whole={data.time_ps} label={job.name} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <footer>
        <PartLegend />
      </footer>
    </section>
  );
}

function Meter({ value, colour }: { value: number; colour: string }) {
  return (
    <span class="meter">
      <span>
        <i style={{ width: 100 * Math.min(1, value) + "%", background: colour }} />
      </span>
      <b>{percent(value)}</b>
    </span>
  );
}

export function Links({ data }: { data: PageData }) {
  const [text, setText] = useState(""),
    [most, setMost] = useState(12);
  const unit = useShared(chosenUnit),
    line = useShared(shownLine);
  useTheme();
  const rows = useMemo(
    () =>
      data.links.filter((row) => {
        if (text.trim() !== "" && !row.name.toLowerCase().includes(text.trim().toLowerCase())) return false;
        if (unit === null) return true;
        const ends = row.line === undefined ? null : data.drawing!.lines[row.line];
        return ends !== null && (ends.a === unit || ends.b === unit);
      }),
    [data, text, unit],
  );
  return (
    <section class="card" id="links" aria-labelledby="links-title">
      <header>
        <h2 id="links-title">Bottleneck links</h2>
        <span class="dim">
          {unit === null ? `${count(data.busy_links)} of ${counted(data.link_count, "link")} carried bytes` : ""}
        </span>
        {unit !== null && (
          <button
            type="button"
            class="chip"
            onClick={() => chosenUnit.set(null)}
            aria-label="Show the links of all parts"
          >
            {data.drawing!.units[unit].name} ×
          </button>
        )}
        <span class="grow" />
        <input
          type="search"
          placeholder="Filter"
          aria-label="Show only links with"
          value={text}
          onInput={(event) => setText((event.target as HTMLInputElement).value)}
        />
      </header>
      <div class="scroll tall">
        <table>
          <thead>
            <tr>
              <th>Link</th>
              <th class="meters">Bottleneck</th>
              <th class="meters">Load</th>
              <th class="n">Carried</th>
              <th class="n">Bandwidth</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((row) => (
              <tr
                key={row.name}
                class={row.line !== undefined && row.line === line ? "shown" : ""}
                onPointerEnter={() => shownLine.set(row.line ?? null)}
                onPointerLeave={() => shownLine.set(null)}
              >
                <td>
                  <button
                    type="button"
                    class="plain"
                    title={row.name}
                    onFocus={() => shownLine.set(row.line ?? null)}
                    onBlur={() => shownLine.set(null)}
                  >
                    {row.name}
                  </button>
                  {row.states?.some((value, i) => i % 3 === 2 && value === 0) && (
                    <span class="failed" title={`Down ${periods(downOf(row.states))}`}>
                      {" "}
                      was down
                    </span>
                  )}
                </td>
                <td class="meters">
                  <Meter value={row.full} colour={loadColour(row.full)} />
                </td>
                <td class="meters">
                  <Meter value={row.load} colour={loadColour(row.load)} />
                </td>
                <td class="n">{bytes(row.bytes)}</td>
                <td class="n">{row.bytes_per_second === undefined ? "–" : rate(row.bytes_per_second)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {rows.length === 0 && (
          <p class="empty">{data.links.length === 0 ? "No link carried anything." : "None of the busiest links."}</p>
        )}
      </div>
      {(rows.length > most || data.busy_links > data.links.length) && (
        <footer>
          {rows.length > most && (
            <button type="button" onClick={() => setMost(most === 12 ? 60 : most + 120)}>
              More of {count(rows.length)}
            </button>
          )}
          {data.busy_links > data.links.length && (
            <span class="dim">This page holds the {count(data.links.length)} busiest.</span>
          )}
        </footer>
      )}
    </section>
  );
}

export function WhatIf({ data }: { data: PageData }) {
  const rows = [...data.what_if].sort((a, b) => b.gain - a.gain);
  const best = Math.max(0.01, ...rows.map((row) => Math.abs(row.gain)));
  return (
    <section class="card" id="what-if" aria-labelledby="what-if-title">
      <header>
        <h2 id="what-if-title">What would help</h2>
        <span class="dim">each resource doubled, alone</span>
      </header>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Resource</th>
              <th class="n">Time</th>
              <th class="meters">Saved</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={i}>
                <td>{row.resource}</td>
                <td class="n">{time(row.time_ps)}</td>
                <td class="meters">
                  <span class="meter">
                    <span>
                      <i
                        class={row.gain < 0 ? "loss" : "gain"}
                        style={{ width: (100 * Math.abs(row.gain)) / best + "%" }}
                      />
                    </span>
                    <b>{percent(row.gain)}</b>
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
