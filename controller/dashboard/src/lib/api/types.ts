// SPDX-License-Identifier: Apache-2.0
// What the controller answers: the shapes of /openapi.json that the page uses.

export interface Access {
  role: "viewer" | "operator";
  may_change: boolean;
}

export interface Fleet {
  nodes: number;
  connected: number;
  frozen: number;
  stale: number;
  tenants: number;
  trials: number;
  pinned: number;
  untrusted: number;
  budget_bytes: number;
  limits_bytes: number;
  saved_bytes: number;
  throughput_ops: number;
  slos: number;
  slos_met: number;
  slos_unmeasured: number;
  attainment: number | null;
}

export interface Node {
  name: string;
  kind: string;
  kernel: string;
  agent_version: string;
  capabilities: string[];
  policies: string[];
  connected: boolean;
  last_seen_s: number;
  epoch: number;
  budget_bytes: number;
  limits_bytes: number;
  free_bytes: number;
  sure_free_bytes: number;
  free_for_s: number;
  free_confidence: number;
  device_capacity_iops: number;
  device_iops: number | null;
  tenants: number;
  dropped_events_total: number;
  problem: string;
  conditions: Condition[];
  /** No snapshot came for five control intervals: nothing that was measured of it is told. */
  stale: boolean;
  /** The controller's time of its last snapshot. */
  heard_s: number | null;
}

export interface Slo {
  kind: SloKind;
  target: number;
  measured: number | null;
  predicted: number | null;
  attainable: number | null;
  attainable_ops: number | null;
  state: string;
  met: boolean | null;
  attainment: number | null;
  why: string;
  verdict: "met" | "missed" | "not measured" | "stale";
}

export type SloKind = "throughput_ops" | "latency_p99_us" | "hit_ratio";

export interface Trial {
  started_s: number;
  ends_s: number;
  from_policy: string;
  to_policy: string;
  from_limit_bytes: number;
  to_limit_bytes: number;
  baseline_ops: number;
  predicted_ops: number;
}

export interface Condition {
  kind: "limit_asserted" | "limit_yielded" | "other_manager" | "name_taken";
  message: string;
  since_s: number;
}

export interface Workload {
  namespace: string;
  pod: string;
  container: string;
  labels: Record<string, string>;
}

export interface Tenant {
  node: string;
  cgroup: string;
  policy: string;
  limit_bytes: number;
  target_limit_bytes: number;
  floor_bytes: number;
  least_limit_bytes: number | null;
  current_bytes: number;
  file_bytes: number | null;
  hit_ratio: number | null;
  throughput_ops: number | null;
  indicator: string;
  latency_p99_us: number | null;
  device_iops: number | null;
  mode: string;
  priority: number;
  weight: number;
  pinned_policy: string | null;
  pinned_limit_bytes: number | null;
  pinned_until_s: number | null;
  trusted: boolean;
  distrust: string;
  interference: string;
  slos: Slo[];
  trial: Trial | null;
  last_decision: string;
  last_decision_s: number | null;
  readahead_policy: string | null;
  conditions: Condition[];
  workload: Workload | null;
  /** In mode `recommend`, once there are curves. */
  recommendation: Recommendation | null;
  /** Its node is stale: readings, and whether SLOs are met, are null. */
  stale: boolean;
}

export interface Recommendation {
  policy: string;
  limit_bytes: number;
  lower_bytes: number;
  upper_bytes: number;
  throughput_ops: number;
  throughput_low_ops: number;
  throughput_high_ops: number;
  present_ops: number;
  /** What its SLO takes, or what it does or keeps without one. */
  at_least_ops: number | null;
  /** The chance that it does `at_least_ops`. */
  confidence: number | null;
  /** Null: it never was another than what the tenant has. */
  since_s: number | null;
}

export interface Curves {
  policies: string[];
  sizes_bytes: number[];
  miss_ratio: number[][];
  error_bar: number[][];
  sampled: number;
  rate: number;
}

export interface Detail {
  tenant: Tenant;
  curves: Curves | null;
  demand: {
    service_us: number;
    accesses_per_op: number;
    concurrency: number;
    error_pct: number | null;
  } | null;
  predicted_miss_ratio: number | null;
  predicted_ops: number | null;
  best_policy: string | null;
  why: string;
  needed_for_slo_bytes: number | null;
  needed_policy: string | null;
  policies: {
    policy: string;
    miss_ratio: number;
    error_bar: number;
    allowed: boolean;
    note: string;
  }[];
  prediction_error: number | null;
  stated: Objective | null;
  inherited: Objective | null;
}

export interface Objective {
  cgroup: string;
  throughput_ops?: number | null;
  latency_p99_us?: number | null;
  hit_ratio?: number | null;
  [key: string]: unknown;
}

export interface Question {
  node: string;
  budget_bytes?: number;
  policy: Record<string, string>;
  limit_bytes: Record<string, number>;
  throughput_ops: Record<string, number>;
}

export interface Answer {
  node: string;
  tenants: {
    cgroup: string;
    policy: string;
    limit_bytes: number;
    miss_ratio: number;
    throughput_ops: number;
    to_policy: string;
    to_limit_bytes: number;
    to_miss_ratio: number;
    to_throughput_ops: number;
    predicted: boolean;
    slos: Slo[];
  }[];
  unallocated_bytes: number;
  device_share: number;
  notes: string[];
}

/** A tenant that goes to another node; all that is said of it there is predicted. */
export interface Move {
  cgroup: string;
  from_node: string;
  to_node: string;
  limit_bytes: number;
  policy: string;
  /** 0 where not known. */
  predicted_ops: number;
  cold_pages: number;
  cold_s: number;
  why: string;
  /** The most that it needed in the last day, as it would be there. */
  peak_bytes: number;
  /** Since when; null where it needs most now. */
  peak_s: number | null;
  /** CPUs that it needs now; null where that is not known. */
  cpus: number | null;
  /** Memory that it needs there now; null where that is all that it gets. */
  need_bytes: number | null;
}

export interface Drain {
  node: string;
  /** In the order in which they are to be made. */
  moves: Move[];
  /** 0 where tenants stay on it. */
  freed_bytes: number;
  /** What the node is short of, where tenants stay on it. */
  why: string;
}

/** Nodes without room for what their tenants need next, and which tenants should leave them. */
export interface Spread {
  drains: Drain[];
  notes: string[];
  /** Nodes that stay short as no other has room, and what of. */
  left: Record<string, string>;
}

export interface Consolidation {
  nodes: number;
  tenants: {
    node: string;
    cgroup: string;
    policy: string;
    limit_bytes: number;
    least_policy: string;
    least_bytes: number;
    has_slo: boolean;
    known: boolean;
    kept: boolean;
    more_of_this_kind: number;
    /** What is said of the row. */
    note: string;
    /** The most that it needed in the last day. */
    peak_bytes: number;
    peak_s: number | null;
    cpus: number | null;
  }[];
  drains: Drain[];
  notes: string[];
}

/** One tenant in a rehearsal, and one of its SLOs, or what it keeps. */
export interface Rehearsed {
  cgroup: string;
  node: string;
  /** Null for one that stays. */
  to_node: string | null;
  limit_bytes: number | null;
  predicted_ops: number | null;
  before_ops: number | null;
  /** Null before it is judged. */
  kind: SloKind | "keep" | null;
  target: number | null;
  after_ops: number | null;
  windows: number;
  met: number;
  verdict: "open" | "met" | "missed";
  /** The share of its target by which it is below it. */
  short: number | null;
  /** It is planned with no less until then. */
  least_bytes: number | null;
  until_s: number | null;
  /** Of one that goes: the largest limit with which it was judged; 0: none. */
  most_bytes: number | null;
  /** It was judged with more memory than it will have. */
  unproven: boolean;
}

export interface Rehearsal {
  node: string;
  state: "not begun" | "measuring" | "settling" | "judged" | "passed" | "missed" | "ended";
  since_s: number | null;
  begun_s: number | null;
  ready_s: number | null;
  over_s: number | null;
  /** Predicted: until it is over if all is met from now on. */
  left_s: number | null;
  why: string;
  tenants: Rehearsed[];
}

/** A consolidation that is or was carried out; what it tells of tenants is measured. */
export interface Rollout {
  id: number;
  /** Whether it moves tenants off nodes without room, and empties none. */
  spreads: boolean;
  state: string;
  moves: {
    move: Move;
    state: string;
    checks: {
      cgroup: string;
      kind: string;
      before_ops: number | null;
      after_ops: number | null;
      windows: number;
      met: number;
      verdict: string;
    }[];
  }[];
  why: string;
  /** What came to be other than it was ordered. */
  changes: string[];
  /** One per node that is to be drained. */
  rehearsals: Rehearsal[];
}
