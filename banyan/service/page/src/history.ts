// What views that follow each other say together: rates, from differences of counters.
//
// Between two views there are rates only where the same daemons have answered both and none has begun anew; else what a
// daemon has counted before would seem to have happened just now.

import type { ClusterView, CommunicatorView, HostView, LinkView } from "./view";

export const kLongest = 300; // seconds that are kept of links
const kWindow = 5; // seconds over which a rate of now is taken
const kMostLinks = 400; // that are kept of each view: the busiest

type Traffic = Map<string, number>; // bytes per second, by tenant

export interface Moment {
  at: number;
  links: Map<string, Traffic>;
}

export interface CommunicatorRates {
  calls: number; // per second
  sent: number; // bytes per second, of all ranks
}

// Of now.
export interface Rates {
  links: Map<string, Traffic>;
  tenants: Traffic; // over all links; where none are known, what their ranks have sent
  communicators: Map<string, CommunicatorRates>; // by id
  cores: Map<string, number>; // cores in use, by host
}

export const sum = (values: Iterable<number>) => [...values].reduce((all, value) => all + value, 0);

function isContinued(now: ClusterView, before: ClusterView): boolean {
  const former = new Map(before.hosts.map((host) => [host.host, host.up_seconds]));
  return (
    now.at > before.at &&
    now.hosts.length === former.size &&
    now.hosts.every((host) => host.up_seconds >= (former.get(host.host) ?? Infinity))
  );
}

// Who has sent nothing is left out.
function linkRates(now: LinkView[], before: LinkView[], seconds: number): Map<string, Traffic> {
  const former = new Map(before.map((link) => [link.name, link.bytes_by_tenant]));
  const all = new Map<string, Traffic>();
  for (const link of now) {
    const traffic: Traffic = new Map();
    for (const [tenant, bytes] of Object.entries(link.bytes_by_tenant)) {
      // Links and tenants are listed from their first byte on.
      const rise = bytes - (former.get(link.name)?.[tenant] ?? 0);
      if (rise > 0) traffic.set(tenant, rise / seconds);
    }
    if (traffic.size > 0) all.set(link.name, traffic);
  }
  return all;
}

function communicatorRates(now: CommunicatorView, before: CommunicatorView, seconds: number): CommunicatorRates {
  const former = new Map(before.ranks.map((rank) => [rank.rank, rank]));
  let calls = 0,
    sent = 0;
  for (const rank of now.ranks) {
    const was = former.get(rank.rank);
    if (was === undefined) continue;
    calls = Math.max(calls, rank.calls_over - was.calls_over);
    sent += Math.max(0, rank.sent_tcp_bytes - was.sent_tcp_bytes);
    sent += Math.max(0, rank.sent_shared_memory_bytes - was.sent_shared_memory_bytes);
  }
  return { calls: calls / seconds, sent: sent / seconds };
}

function ratesBetween(now: ClusterView, before: ClusterView): Rates {
  const seconds = now.at - before.at;
  const rates: Rates = {
    links: linkRates(now.links, before.links, seconds),
    tenants: new Map(),
    communicators: new Map(),
    cores: new Map(),
  };
  const former = new Map(before.communicators.map((each) => [each.id, each]));
  for (const each of now.communicators) {
    const was = former.get(each.id);
    if (was !== undefined) rates.communicators.set(each.id, communicatorRates(each, was, seconds));
  }
  const add = (tenant: string, rate: number) => rates.tenants.set(tenant, (rates.tenants.get(tenant) ?? 0) + rate);
  if (now.links.length > 0) {
    for (const traffic of rates.links.values()) traffic.forEach((rate, tenant) => add(tenant, rate));
  } else {
    for (const each of now.communicators) add(each.tenant, rates.communicators.get(each.id)?.sent ?? 0);
  }
  const cores = new Map(before.hosts.map((host) => [host.host, host.core_seconds]));
  for (const host of now.hosts) {
    rates.cores.set(host.host, Math.max(0, host.core_seconds - (cores.get(host.host) ?? 0)) / seconds);
  }
  return rates;
}

function busiest(links: Map<string, Traffic>): Map<string, Traffic> {
  if (links.size <= kMostLinks) return links;
  const order = [...links].sort((a, b) => sum(b[1].values()) - sum(a[1].values()));
  return new Map(order.slice(0, kMostLinks));
}

export class History {
  moments: Moment[] = []; // the oldest first
  rates: Rates | null = null; // null until two views that continue each other are known
  private views: ClusterView[] = []; // of the window

  add(view: ClusterView) {
    const last = this.views[this.views.length - 1];
    if (last !== undefined && view.at === last.at) return;
    if (last === undefined || !isContinued(view, last)) {
      this.views = [view];
      this.rates = null;
      return;
    }
    this.moments.push({ at: view.at, links: busiest(linkRates(view.links, last.links, view.at - last.at)) });
    this.moments = this.moments.filter((moment) => moment.at >= view.at - kLongest);
    this.views.push(view);
    while (this.views.length > 2 && this.views[1].at <= view.at - kWindow) this.views.shift();
    this.rates = ratesBetween(view, this.views[0]);
  }

  // Of the links that have carried most, relative to what they can, over all that is kept; that first.
  busiestLinks(links: LinkView[], most: number): LinkView[] {
    const loads = new Map<string, number>();
    for (const moment of this.moments) {
      moment.links.forEach((traffic, name) => loads.set(name, (loads.get(name) ?? 0) + sum(traffic.values())));
    }
    const load = (link: LinkView) => (loads.get(link.name) ?? 0) / (link.capacity || 1);
    return links
      .filter((link) => loads.has(link.name))
      .sort((a, b) => load(b) - load(a) || (a.name < b.name ? -1 : 1))
      .slice(0, most);
  }
}

export interface TenantRow {
  tenant: string;
  communicators: number;
  shareClass: string; // the highest of its communicators
  sharer: string; // whom the weight belongs to; empty where there is none
  weight: number | null; // null: it has no communicator any more
  cap: number | null;
  calls: number; // per second
  traffic: number; // bytes per second
  share: number; // of all traffic
  // By the weights of those that have traffic, a sharer's evenly among its tenants; null: it has no traffic or weight.
  fairShare: number | null;
}

const kClasses = ["high", "normal", "low"];

// In the order of their traffic.
export function tenantRows(view: ClusterView, rates: Rates | null): TenantRow[] {
  const rows = new Map<string, TenantRow>();
  const rowOf = (tenant: string) => {
    const row = rows.get(tenant) ?? {
      tenant,
      communicators: 0,
      shareClass: "low",
      sharer: "",
      weight: null,
      cap: null,
      calls: 0,
      traffic: rates?.tenants.get(tenant) ?? 0,
      share: 0,
      fairShare: null,
    };
    rows.set(tenant, row);
    return row;
  };
  for (const each of view.communicators) {
    const row = rowOf(each.tenant);
    row.communicators += 1;
    row.calls += rates?.communicators.get(each.id)?.calls ?? 0;
    if (each.is_direct) continue; // it has no terms
    row.sharer = each.sharer;
    row.weight = Math.max(row.weight ?? 0, each.weight);
    if (kClasses.indexOf(each.share_class) < kClasses.indexOf(row.shareClass)) row.shareClass = each.share_class;
    if (each.cap !== null) row.cap = row.cap === null ? each.cap : Math.min(row.cap, each.cap);
  }
  rates?.tenants.forEach((_, tenant) => rowOf(tenant)); // also of communicators that have just ended
  const all = [...rows.values()];
  const traffic = sum(all.map((row) => row.traffic));
  const sharers = new Map<string, { weight: number; tenants: number }>(); // that have traffic
  for (const row of all) {
    if (row.traffic <= 0 || row.weight === null) continue;
    const known = sharers.get(row.sharer) ?? { weight: 0, tenants: 0 };
    sharers.set(row.sharer, { weight: Math.max(known.weight, row.weight), tenants: known.tenants + 1 });
  }
  const weights = sum([...sharers.values()].map((sharer) => sharer.weight));
  for (const row of all) {
    if (traffic > 0) row.share = row.traffic / traffic;
    const sharer = row.traffic > 0 && row.weight !== null ? sharers.get(row.sharer) : undefined;
    if (sharer !== undefined && weights > 0) row.fairShare = sharer.weight / weights / sharer.tenants;
  }
  return all.sort((a, b) => b.traffic - a.traffic || (a.tenant < b.tenant ? -1 : 1));
}

// Whom most ranks of a communicator wait for.
export function waitedFor(communicator: CommunicatorView): { rank: number; waiting: number } | null {
  const counts = new Map<number, number>();
  for (const rank of communicator.ranks) {
    if (rank.waiting_for !== null) counts.set(rank.waiting_for, (counts.get(rank.waiting_for) ?? 0) + 1);
  }
  const [first] = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  return first === undefined ? null : { rank: first[0], waiting: first[1] };
}

export const isSteward = (host: HostView) => host.steward !== "" && host.steward === host.name;
