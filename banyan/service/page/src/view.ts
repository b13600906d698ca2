// What /v1/cluster says: docs/formats/service-view.md. Only what is shown.

export interface RankView {
  rank: number;
  host: string;
  process: number;
  program: string;
  calls_begun: number;
  calls_over: number;
  sent_tcp_bytes: number;
  sent_shared_memory_bytes: number;
  call: string;
  call_seconds: number;
  stalled_seconds: number;
  idle_seconds: number;
  waiting_for: number | null;
  generation: number;
  reroutes: number;
  error: string;
}

export interface CommunicatorView {
  id: string;
  name: string;
  tenant: string;
  size: number;
  hosts: string[];
  is_direct?: boolean; // its ranks exchange in the memory of one host; missing: false
  rule: string;
  sharer: string; // whom the weight belongs to
  weight: number;
  share_class: "high" | "normal" | "low";
  cap: number | null;
  rate: number | null;
  progress: number;
  ranks: RankView[];
}

export interface LinkView {
  name: string;
  capacity: number;
  bytes_by_tenant: Record<string, number>;
}

export interface HostView {
  host: string;
  name: string;
  node: string;
  version: string;
  up_seconds: number;
  steward: string;
  is_draining: boolean;
  rules_version: number;
  clients: number;
  memory_bytes: number;
  core_seconds: number;
  refused: Record<string, number>;
  replans: number;
  events_dropped: number;
}

export interface ClusterView {
  at: number;
  hosts: HostView[];
  unreachable: { host: string; why: string }[];
  communicators: CommunicatorView[];
  links: LinkView[];
  events: { at: number; host: string; words: string }[];
  findings: { kind: string; communicator: string; words: string }[];
}
