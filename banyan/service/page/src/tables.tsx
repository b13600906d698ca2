import { useState } from "preact/hooks";
import { clock, count, counted, duration, frequency, percent, rate, size } from "./format";
import { isSteward, type Rates, sum, tenantRows, waitedFor } from "./history";
import { colourOf } from "./links";
import type { ClusterView, CommunicatorView, RankView } from "./view";

const kMostRows = 200;

export function Findings({ view }: { view: ClusterView }) {
  if (view.findings.length === 0) return <p class="well">Nothing is late, stalled or slow.</p>;
  return (
    <ul class="findings" aria-live="polite">
      {view.findings.slice(0, 50).map((finding) => (
        <li key={finding.words} data-kind={finding.kind}>
          <b>{finding.kind}</b>
          <span>{finding.words}</span>
        </li>
      ))}
      {view.findings.length > 50 && <li>and {view.findings.length - 50} more</li>}
    </ul>
  );
}

export function Tenants({ view, rates }: { view: ClusterView; rates: Rates | null }) {
  const rows = tenantRows(view, rates);
  const ofWhat = view.links.length > 0 ? "of the traffic on all links" : "of what ranks send";
  return (
    <section id="tenants">
      <header>
        <h2>Tenants</h2>
        <span class="dim">share {ofWhat}; the mark is the share by weight among those that have traffic</span>
      </header>
      {rows.length === 0 ? (
        <p class="nothing">No communicators are open.</p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Tenant</th>
                <th class="share">Share</th>
                <th class="number">Traffic</th>
                <th class="number wide">Weight</th>
                <th class="wide">Class</th>
                <th class="number wide">Cap</th>
                <th class="number">Calls</th>
                <th class="number wide">Communicators</th>
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, kMostRows).map((row) => (
                <tr key={row.tenant}>
                  <td class="name">
                    <i style={{ background: colourOf(row.tenant) }} />
                    {row.tenant}
                  </td>
                  <td class="share">
                    <div
                      class="bar"
                      role="img"
                      aria-label={`${percent(row.share)}${row.fairShare === null ? "" : `, by weight ${percent(row.fairShare)}`}`}
                    >
                      <i style={{ width: `${row.share * 100}%`, background: colourOf(row.tenant) }} />
                      {row.fairShare !== null && <b style={{ left: `${row.fairShare * 100}%` }} />}
                    </div>
                    <b data-share>{percent(row.share)}</b>{" "}
                    <span class="dim">{row.fairShare === null ? "" : `(${percent(row.fairShare)} by weight)`}</span>
                  </td>
                  <td class="number">{rate(row.traffic)}</td>
                  <td class="number wide">{row.weight === null ? "–" : count(row.weight)}</td>
                  <td class="wide">
                    {row.weight === null ? "–" : <span class={"class " + row.shareClass}>{row.shareClass}</span>}
                  </td>
                  <td class="number wide">{row.cap === null ? "–" : rate(row.cap)}</td>
                  <td class="number">{frequency(row.calls)}</td>
                  <td class="number wide">{count(row.communicators)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {rows.length > kMostRows && <p class="dim">and {rows.length - kMostRows} more</p>}
        </div>
      )}
    </section>
  );
}

function Ranks({ ranks }: { ranks: RankView[] }) {
  return (
    <table class="ranks">
      <thead>
        <tr>
          <th class="number">Rank</th>
          <th>Host</th>
          <th>Program</th>
          <th class="number">Calls</th>
          <th>Under way</th>
          <th class="number">Waits for</th>
          <th class="number">Plans</th>
        </tr>
      </thead>
      <tbody>
        {ranks.slice(0, kMostRows).map((rank) => (
          <tr key={rank.rank}>
            <td class="number">{rank.rank}</td>
            <td class="name">{rank.host}</td>
            <td class="name">
              {rank.program} <span class="dim">{rank.process}</span>
            </td>
            <td class="number">
              {count(rank.calls_over)} of {count(rank.calls_begun)}
            </td>
            <td class="name">
              {rank.error !== "" ? (
                <span class="wrong">{rank.error}</span>
              ) : rank.call !== "" ? (
                `${rank.call} for ${duration(rank.call_seconds)}${rank.stalled_seconds >= 1 ? `, nothing moves for ${duration(rank.stalled_seconds)}` : ""}`
              ) : (
                <span class="dim">idle for {duration(rank.idle_seconds)}</span>
              )}
            </td>
            <td class="number">{rank.waiting_for ?? "–"}</td>
            <td class="number">
              {rank.generation}
              {rank.reroutes > 0 && `, ${counted(rank.reroutes, "reroute")}`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Communicator({ view, rates, isWrong }: { view: CommunicatorView; rates: Rates | null; isWrong: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const now = rates?.communicators.get(view.id);
  const oldest = view.ranks.reduce<RankView | null>(
    (found, rank) => (rank.call !== "" && rank.call_seconds > (found?.call_seconds ?? -1) ? rank : found),
    null,
  );
  const waited = waitedFor(view);
  const error = view.ranks.find((rank) => rank.error !== "")?.error;
  return (
    <>
      <tr class={isWrong || error !== undefined ? "is-wrong" : ""} data-communicator={view.id}>
        <td class="name">
          <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {view.name || "(no name)"}
          </button>
        </td>
        <td class="name">
          <i style={{ background: colourOf(view.tenant) }} />
          {view.tenant}
        </td>
        <td class="number wide" title={view.hosts.join(", ")}>
          {count(view.size)} <span class="dim">on {counted(view.hosts.length, "host")}</span>
        </td>
        <td class="number">{now === undefined ? "–" : frequency(now.calls)}</td>
        <td class="number wide">{now === undefined ? "–" : rate(now.sent)}</td>
        <td class="number wide">{view.rate === null ? "–" : rate(view.rate)}</td>
        <td class="call">
          {error !== undefined ? (
            <span class="wrong">{error}</span>
          ) : oldest === null ? (
            <span class="dim">no call</span>
          ) : (
            <>
              {!view.is_direct && (
                <div class="bar" role="img" aria-label={percent(view.progress)}>
                  <i style={{ width: `${Math.min(1, Math.max(0, view.progress)) * 100}%` }} />
                </div>
              )}
              <span>{oldest.call}</span> <span class="dim">{duration(oldest.call_seconds)}</span>
            </>
          )}
        </td>
        <td data-waits>
          {waited === null ? (
            <span class="dim">–</span>
          ) : (
            `${counted(waited.waiting, "rank")} for rank ${waited.rank}`
          )}
        </td>
      </tr>
      {isOpen && (
        <tr class="detail">
          <td colSpan={8}>
            <Ranks ranks={view.ranks} />
            {view.ranks.length > kMostRows && <p class="dim">and {view.ranks.length - kMostRows} more</p>}
            <p class="dim">
              {view.is_direct
                ? "exchanges in the memory of its host"
                : `rule ${view.rule}, weight ${count(view.weight)}, class ${view.share_class}`}
              {view.cap !== null && `, cap ${rate(view.cap)}`}, id {view.id}
            </p>
          </td>
        </tr>
      )}
    </>
  );
}

// Those with findings first, then in the order of the view.
export function Communicators({ view, rates }: { view: ClusterView; rates: Rates | null }) {
  const [filter, setFilter] = useState("");
  const wrong = new Set(view.findings.map((finding) => finding.communicator));
  const wanted = filter.toLowerCase();
  const rows = view.communicators.filter((each) => `${each.name} ${each.tenant}`.toLowerCase().includes(wanted));
  const order = [...rows.filter((each) => wrong.has(each.id)), ...rows.filter((each) => !wrong.has(each.id))];
  return (
    <section id="communicators">
      <header>
        <h2>Communicators</h2>
        <span class="dim">{rows.length > kMostRows ? `the first ${kMostRows} of ${count(rows.length)}` : ""}</span>
        <span class="grow" />
        <input
          type="search"
          placeholder="Name or tenant"
          aria-label="Name or tenant"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </header>
      {order.length === 0 ? (
        <p class="nothing">{view.communicators.length === 0 ? "No communicators are open." : "None has this name."}</p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Communicator</th>
                <th>Tenant</th>
                <th class="number wide">Ranks</th>
                <th class="number">Calls</th>
                <th class="number wide">Sent by ranks</th>
                <th class="number wide">Allowed on a link</th>
                <th>Call under way</th>
                <th>Who waits</th>
              </tr>
            </thead>
            <tbody>
              {order.slice(0, kMostRows).map((each) => (
                <Communicator key={each.id} view={each} rates={rates} isWrong={wrong.has(each.id)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

export function Hosts({ view, rates }: { view: ClusterView; rates: Rates | null }) {
  return (
    <section id="hosts">
      <header>
        <h2>Hosts</h2>
      </header>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Host</th>
              <th class="wide">Node</th>
              <th class="number">Up</th>
              <th class="number">Programs</th>
              <th class="number">Memory</th>
              <th class="number">Cores</th>
              <th class="number wide">New plans</th>
              <th class="number">Refused</th>
              <th class="number wide">Rules</th>
              <th class="wide">Version</th>
            </tr>
          </thead>
          <tbody>
            {view.unreachable.slice(0, kMostRows).map((host) => (
              <tr key={"unreachable " + host.host} class="is-wrong">
                <td class="name">
                  {host.host} <span class="badge wrong">unreachable</span>
                </td>
                <td colSpan={9}>{host.why}</td>
              </tr>
            ))}
            {view.hosts.slice(0, kMostRows).map((host) => (
              <tr key={host.host}>
                <td class="name">
                  {host.name} {isSteward(host) && <span class="badge">steward</span>}
                  {host.is_draining && <span class="badge warn">draining</span>}
                </td>
                <td class="name wide">{host.node || "–"}</td>
                <td class="number">{duration(host.up_seconds)}</td>
                <td class="number">{count(host.clients)}</td>
                <td class="number">{size(host.memory_bytes)}</td>
                <td class="number">{rates === null ? "–" : (rates.cores.get(host.host) ?? 0).toFixed(2)}</td>
                <td class="number wide">{count(host.replans)}</td>
                <td
                  class="number"
                  title={Object.entries(host.refused)
                    .map(([reason, times]) => `${reason}: ${times}`)
                    .join(", ")}
                >
                  {count(sum(Object.values(host.refused)))}
                </td>
                <td class="number wide">{host.rules_version}</td>
                <td class="wide">{host.version}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {view.hosts.length > kMostRows && <p class="dim">and {view.hosts.length - kMostRows} more</p>}
      </div>
    </section>
  );
}

export function Events({ view }: { view: ClusterView }) {
  const dropped = sum(view.hosts.map((host) => host.events_dropped));
  return (
    <section id="events">
      <header>
        <h2>Events</h2>
        <span class="dim">the latest first{dropped > 0 && `; ${count(dropped)} are kept no more`}</span>
      </header>
      {view.events.length === 0 ? (
        <p class="nothing">Nothing has happened.</p>
      ) : (
        <ol>
          {[...view.events]
            .reverse()
            .slice(0, 100)
            .map((event, i) => (
              <li key={i}>
                <time>{clock(event.at)}</time> <b>{event.host}</b> <span>{event.words}</span>
              </li>
            ))}
        </ol>
      )}
    </section>
  );
}
