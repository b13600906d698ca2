// The page asks its daemon for the view of the cluster each second, or every ?period=MILLISECONDS.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, count, frequency, rate } from "./format";
import { History, sum } from "./history";
import { Links } from "./links";
import { Communicators, Events, Findings, Hosts, Tenants } from "./tables";
import type { ClusterView } from "./view";

const kAnswerTime = 10_000; // milliseconds
const kAside = 10; // so many times more seldom while nobody looks

function period(): number {
  const asked = Number(new URLSearchParams(location.search).get("period"));
  return asked > 0 ? Math.min(60_000, Math.max(50, asked)) : 1000;
}

async function ask(): Promise<ClusterView> {
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), kAnswerTime);
  try {
    const answer = await fetch("v1/cluster", { signal: end.signal, cache: "no-store" });
    const said = await answer.json();
    if (!answer.ok) throw new Error(String(said.error ?? answer.status));
    return said;
  } finally {
    clearTimeout(timer);
  }
}

type Theme = "light" | "dark";

function ThemeButton() {
  const preferred: Theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const [chosen, choose] = useState<Theme | null>(null);
  useEffect(() => {
    if (chosen !== null) document.documentElement.dataset.theme = chosen;
  }, [chosen]);
  const next = (chosen ?? preferred) === "dark" ? "light" : "dark";
  return (
    <button type="button" class="theme" onClick={() => choose(next)}>
      {next === "dark" ? "Dark" : "Light"}
    </button>
  );
}

function Figures({ view, history }: { view: ClusterView; history: History }) {
  const rates = history.rates;
  const each = rates === null ? [] : [...rates.communicators.values()];
  const figures: [string, string][] = [
    ["hosts", count(view.hosts.length)],
    ["tenants", count(new Set(view.communicators.map((communicator) => communicator.tenant)).size)],
    ["communicators", count(view.communicators.length)],
    ["calls", rates === null ? "–" : frequency(sum(each.map((one) => one.calls)))],
    ["sent by ranks", rates === null ? "–" : rate(sum(each.map((one) => one.sent)))],
  ];
  return (
    <dl class="figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd data-figure={name}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Page() {
  const history = useRef(new History()).current;
  const [view, setView] = useState<ClusterView | null>(null);
  const [problem, setProblem] = useState("");
  const [isPaused, setPaused] = useState(false);
  const [links, setLinks] = useState(6);
  useEffect(() => {
    if (isPaused) return;
    let timer = 0,
      isOver = false;
    const once = async () => {
      const begin = performance.now();
      try {
        const said = await ask();
        if (isOver) return;
        history.add(said);
        setView(said);
        setProblem("");
      } catch (error) {
        if (isOver) return;
        setProblem(error instanceof DOMException ? "it says nothing" : error instanceof Error ? error.message : "");
      }
      const pause = period() * (document.hidden ? kAside : 1);
      timer = setTimeout(once, Math.max(pause / 2, pause - (performance.now() - begin)));
    };
    once();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isPaused]);
  return (
    <>
      <nav>
        <b>Banyan service</b>
        <span class={problem !== "" ? "state wrong" : isPaused ? "state" : "state live"} data-state>
          {problem !== "" ? "no answer" : isPaused ? "paused" : view === null ? "asking" : "live"}
        </span>
        <span class="dim">{view !== null && clock(view.at)}</span>
        <span class="grow" />
        <button type="button" class="pause" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Pause"}
        </button>
        <ThemeButton />
      </nav>
      <main>
        {problem !== "" && (
          <p class="problem" role="alert">
            The daemon does not answer: {problem}. {view !== null && `What follows is of ${clock(view.at)}. `}
            It is asked again and again.
          </p>
        )}
        {view !== null && (
          <>
            <Findings view={view} />
            <Figures view={view} history={history} />
            <Tenants view={view} rates={history.rates} />
            <Links history={history} view={view} most={links} more={() => setLinks(links * 2)} />
            <Communicators view={view} rates={history.rates} />
            <div class="columns">
              <Hosts view={view} rates={history.rates} />
              <Events view={view} />
            </div>
          </>
        )}
      </main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);
