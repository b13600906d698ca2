// Links and tenants over time: for each of the busiest links a chart of stacked rates, up to what the link can carry.

import { counted, percent, rate } from "./format";
import { type History, kLongest, sum } from "./history";
import type { ClusterView, LinkView } from "./view";

const kColours = 8;

// Who has a colour keeps it: the tenants that come first. All others share one.
const coloured = new Map<string, number>();
export function colourOf(tenant: string): string {
  if (!coloured.has(tenant) && coloured.size < kColours) coloured.set(tenant, coloured.size);
  return `var(--tenant${coloured.get(tenant) ?? "s"})`;
}

const kWidth = 300,
  kHeight = 84;

interface Chart {
  areas: { tenant: string; path: string }[]; // the lowest first
  most: number; // the rate at the upper edge
}

// A step for each moment; where nothing is known, nothing is drawn.
function chartOf(history: History, link: LinkView): Chart {
  const moments = history.moments;
  const tenants = new Set<string>();
  let most = link.capacity;
  for (const moment of moments) {
    const traffic = moment.links.get(link.name);
    traffic?.forEach((_, tenant) => tenants.add(tenant));
    if (traffic !== undefined) most = Math.max(most, sum(traffic.values()));
  }
  const end = moments.length > 0 ? moments[moments.length - 1].at : 0;
  const x = (at: number) => (kWidth * (1 - (end - at) / kLongest)).toFixed(1);
  const y = (value: number) => (kHeight * (1 - value / (most || 1))).toFixed(1);
  const floor = moments.map(() => 0);
  const areas = [...tenants].sort().map((tenant) => {
    let path = "";
    moments.forEach((moment, i) => {
      const value = moment.links.get(link.name)?.get(tenant) ?? 0;
      if (value === 0) return;
      const before = i > 0 ? moments[i - 1].at : moment.at - 1;
      const from = Math.max(before, moment.at - 5); // after a gap, only what was measured
      path += `M${x(from)} ${y(floor[i])}V${y(floor[i] + value)}H${x(moment.at)}V${y(floor[i])}Z`;
      floor[i] += value;
    });
    return { tenant, path };
  });
  return { areas, most };
}

function LinkChart({ history, link }: { history: History; link: LinkView }) {
  const { areas, most } = chartOf(history, link);
  const now = sum((history.rates?.links.get(link.name) ?? new Map<string, number>()).values());
  const limit = kHeight * (1 - link.capacity / (most || 1));
  return (
    <figure class="link" data-link={link.name}>
      <figcaption>
        <span class="name" title={link.name}>
          {link.name}
        </span>
        <b data-load>{percent(now / (link.capacity || 1))}</b>
        <span class="dim">
          {rate(now)} of {rate(link.capacity)}
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${kWidth} ${kHeight}`} preserveAspectRatio="none" role="img" aria-label={`Load of ${link.name}`}>
        {areas.map(({ tenant, path }) => (
          <path key={tenant} data-tenant={tenant} d={path} style={{ fill: colourOf(tenant) }}>
            <title>{tenant}</title>
          </path>
        ))}
        <line class="capacity" x1="0" x2={kWidth} y1={limit} y2={limit} />
      </svg>
    </figure>
  );
}

export function Links({ history, view, most, more }: Props) {
  const links = history.busiestLinks(view.links, most);
  const tenants = [...new Set(links.flatMap((link) => Object.keys(link.bytes_by_tenant)))].sort();
  return (
    <section id="links">
      <header>
        <h2>Links</h2>
        <span class="dim">
          {view.links.length === 0
            ? ""
            : `the busiest of ${counted(view.links.length, "link")}, over the last ${kLongest / 60} minutes`}
        </span>
        <span class="grow" />
        {view.links.length > most && links.length === most && (
          <button type="button" onClick={more}>
            More
          </button>
        )}
      </header>
      {view.links.length === 0 ? (
        <p class="nothing">No link is known. Daemons that are given a fabric (--fabric) count what goes over its links.</p>
      ) : links.length === 0 ? (
        <p class="nothing">Nothing has gone over links since this page was opened.</p>
      ) : (
        <>
          <p class="legend">
            {tenants.slice(0, 16).map((tenant) => (
              <span key={tenant}>
                <i style={{ background: colourOf(tenant) }} />
                <span class="name">{tenant}</span>
              </span>
            ))}
            {tenants.length > 16 && <span class="dim">and {tenants.length - 16} more</span>}
          </p>
          <div class="charts">
            {links.map((link) => (
              <LinkChart key={link.name} history={history} link={link} />
            ))}
          </div>
          <p class="axis dim">
            <span>{kLongest / 60} min ago</span>
            <span>the line is what a link can carry</span>
            <span>now</span>
          </p>
        </>
      )}
    </section>
  );
}

interface Props {
  history: History;
  view: ClusterView;
  most: number;
  more: () => void;
}
