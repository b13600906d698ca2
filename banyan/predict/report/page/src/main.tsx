import { render } from "preact";
import { useState } from "preact/hooks";
import { readData, type PageData } from "./data";
import { Fabric } from "./fabric";
import { counted, percent, rate, size, time } from "./format";
import { useTheme } from "./hooks";
import { Bar, partNames, Ranks } from "./ranks";
import { Jobs, Links, WhatIf } from "./tables";
import { chooseTheme, startTheme } from "./theme";
import { Throughput } from "./throughput";
import { Timeline } from "./timeline";

function ThemeButton() {
  const now = useTheme();
  return (
    <button
      type="button"
      class="theme"
      onClick={() => chooseTheme(now.dark ? "light" : "dark")}
      aria-label={now.dark ? "Light colours" : "Dark colours"}
    >
      {now.dark ? "Light" : "Dark"}
    </button>
  );
}

function Figures({ data }: { data: PageData }) {
  const first = data.links.find((link) => link.full >= 0.0005) ?? data.links[0];
  const lever = [...data.what_if].sort((a, b) => b.gain - a.gain)[0];
  const top = data.points.reduce<PageData["points"][number] | null>(
    (best, point) => (best === null || point.algbw > best.algbw ? point : best),
    null,
  );
  return (
    <div class="figures">
      {data.time_ps > 0 && (
        <div class="figure">
          <span>{data.complete ? "Time" : "Time so far"}</span>
          <strong data-figure="time">{time(data.time_ps)}</strong>
        </div>
      )}
      {data.ranks.length > 0 && (
        <div class="figure wide">
          <span>Ranks, on average</span>
          <Bar
            parts={data.shares.map((share) => share * data.time_ps)}
            whole={data.time_ps}
            label="Ranks, on average"
          />
          <span class="shares">
            {data.shares.map(
              (share, i) =>
                share >= 0.0005 && (
                  <span key={i}>
                    <i class={"part" + i} />
                    {partNames[i]} <b>{percent(share)}</b>
                  </span>
                ),
            )}
          </span>
        </div>
      )}
      {first !== undefined && data.time_ps > 0 && (
        <div class="figure wide">
          <span>{first.full >= 0.0005 ? "Biggest bottleneck" : "Busiest link"}</span>
          <strong class="name" data-figure="bottleneck" title={first.name}>
            {first.name}
          </strong>
          <small>
            {first.full >= 0.0005
              ? `full for ${percent(first.full)} of the time${data.tight_links > 1 ? `, like ${counted(data.tight_links - 1, "other")}` : ""}`
              : `load ${percent(first.load)}, never full`}
          </small>
        </div>
      )}
      {lever !== undefined && (
        <div class="figure">
          <span>Best doubled</span>
          <strong class="name" title={lever.resource}>
            {lever.resource}
          </strong>
          <small>saves {percent(lever.gain)}</small>
        </div>
      )}
      {data.time_ps === 0 && top !== null && (
        <div class="figure">
          <span>Highest algbw</span>
          <strong>{rate(top.algbw)}</strong>
          <small>
            {top.plan} at {size(top.bytes)}
          </small>
        </div>
      )}
    </div>
  );
}

function Page({ data }: { data: PageData }) {
  const has = {
    fabric: data.drawing !== null,
    timeline: data.tracks.length > 0 ||
      data.events.length > 0 ||
      data.links.some((link) => link.series !== undefined || link.states !== undefined),
    ranks: data.ranks.length > 0,
    // One unnamed job that ran from beginning to end says nothing new.
    jobs: data.jobs.length > 1 || data.jobs.some((job) => job.alone_ps !== null || job.failed_at_ps !== null),
    links: data.link_count > 0,
    whatIf: data.what_if.length > 0,
    throughput: data.points.length > 0,
  };
  const sections: [boolean, string, string][] = [
    [has.fabric, "fabric", "Fabric"],
    [has.links, "links", "Bottlenecks"],
    [has.whatIf, "what-if", "What would help"],
    [has.timeline, "timeline", "Timeline"],
    [has.ranks, "ranks", "Ranks"],
    [has.jobs, "jobs", "Jobs"],
    [has.throughput, "throughput", "Throughput"],
  ];
  const present = sections.filter(([there]) => there);
  return (
    <>
      <div class="top">
        <span class="brand">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path d="M12 22V9M12 12 5 7M12 12l7-5M5 7V3M19 7V3M12 9V3M7 22v-8l-2-2M17 22v-8l2-2" />
          </svg>
          Banyan prediction
        </span>
        {present.length > 1 && (
          <nav aria-label="Parts of this page">
            {present.map(([, id, label]) => (
              <a key={id} href={"#" + id}>
                {label}
              </a>
            ))}
          </nav>
        )}
        <span class="grow" />
        <ThemeButton />
      </div>
      <main>
        <div class="head">
          <h1>
            {data.title || "Prediction"}
            {!data.complete && (
              <span class="badge" title="The simulation was stopped; everything is as of then">
                Partial result
              </span>
            )}
          </h1>
          <p class="sentence">{data.sentence}</p>
          <Figures data={data} />
          {data.facts.length > 0 && (
            <dl class="facts">
              {data.facts.map(([what, text], i) => (
                <div key={i}>
                  <dt>{what}</dt>
                  <dd>{text}</dd>
                </div>
              ))}
            </dl>
          )}
          {data.notes.length > 0 && (
            <ul class="notes">
              {data.notes.map((note) => (
                <li key={note}>{note}</li>
              ))}
            </ul>
          )}
          {data.window_error > 0 && (
            <p class="dim small">
              Completions were gathered in windows; sizes differ by {percent(data.window_error)} in all.
            </p>
          )}
        </div>
        <div class="columns">
          {has.fabric && <Fabric data={data} />}
          {(has.links || has.whatIf) && (
            <div class="side">
              {has.whatIf && <WhatIf data={data} />}
              {has.links && <Links data={data} />}
            </div>
          )}
        </div>
        {has.timeline && <Timeline data={data} />}
        {has.ranks && <Ranks data={data} />}
        {has.jobs && <Jobs data={data} />}
        {has.throughput && <Throughput data={data} />}
      </main>
    </>
  );
}

function Broken({ error }: { error: unknown }) {
  const [text] = useState(String(error));
  return (
    <main>
      <div class="head">
        <h1>This page cannot be shown</h1>
        <p>{text}</p>
      </div>
    </main>
  );
}

startTheme();
const root = document.getElementById("page")!;
try {
  const data = readData();
  document.title = (data.title || "Prediction") + " · Banyan";
  render(<Page data={data} />, root);
  root.dataset.ready = "yes";
} catch (error) {
  render(<Broken error={error} />, root);
  throw error;
}
