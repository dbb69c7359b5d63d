// SPDX-License-Identifier: Apache-2.0
// What the controller answers of the past: changes, comparisons, error budgets, time series.

import type { SloKind } from "./types";

export type ChangeKind = "policy" | "memory" | "recommendation" | "objective" | "pin" | "refusal";

export type ChangeState =
  "live" | "confirmed" | "undone" | "abandoned" | "refused" | "recommended" | "done";

export interface Change {
  id: number;
  kind: ChangeKind;
  state: ChangeState;
  node: string;
  cgroup: string;
  begun_s: number;
  ended_s: number | null;
  epoch: number;
  by_kind: string;
  by: string;
  from_policy: string | null;
  to_policy: string | null;
  from_limit_bytes: number | null;
  to_limit_bytes: number | null;
  baseline_ops: number | null;
  predicted_ops: number | null;
  measured_ops: number | null;
  baseline_miss_ratio: number | null;
  predicted_miss_ratio: number | null;
  measured_miss_ratio: number | null;
  text: string;
  why: string;
  outcome: string;
  count: number;
  in_force: boolean;
}

type Column = (number | null)[];

export interface Evidence {
  unit: string;
  time_s: number[];
  gained: Column;
  predicted: Column;
  bound: Column;
  throughput_ops: Column;
  miss_ratio: Column;
}

export interface ChangeDetail {
  change: Change;
  evidence: Evidence | null;
}

export interface Ratio {
  ratio: number;
  low: number;
  high: number;
  source: "measured" | "predicted";
  tenants: number;
}

export interface Sum {
  node: string;
  tenants: number;
  gain: number;
  pay: number;
  same: number;
  unknown: number;
  versus_default: Ratio | null;
  versus_before: Ratio | null;
}

export interface Measured {
  throughput_ops: number;
  miss_ratio: number | null;
  policy: string;
  limit_bytes: number;
  since_s: number;
  until_s: number;
}

export interface Predicted {
  /** Measured if the tenant has the setting now. */
  source: "measured" | "predicted";
  throughput_ops: number;
  low_ops: number;
  high_ops: number;
  miss_ratio: number;
  policy: string;
  limit_bytes: number;
}

export type Verdict = "gains" | "pays" | "same" | "unknown";

export interface TenantComparison {
  node: string;
  cgroup: string;
  weight: number;
  has_slo: boolean;
  now: Measured | null;
  default: Predicted | null;
  before: Measured | null;
  versus_default: Ratio | null;
  versus_before: Ratio | null;
  verdict: Verdict;
  why: string;
}

export interface Comparison {
  fleet: Sum;
  nodes: Sum[];
  gains: TenantComparison[];
  pays: TenantComparison[];
}

export interface BudgetSpan {
  span: string;
  seconds: number;
  windows: number;
  met: number;
  attainment: number | null;
  budget_left: number | null;
}

export interface Budget {
  node: string;
  cgroup: string;
  kind: SloKind;
  target: number;
  goal: number;
  since_s: number;
  measured: number | null;
  met: boolean | null;
  spans: BudgetSpan[];
  burn_short_s: number;
  burn_short: number | null;
  burn_long_s: number;
  burn_long: number | null;
  state: "safe" | "burning" | "exhausted" | "unknown";
  why: string;
}

/** Columns of one length, the oldest first. */
export interface Series {
  time_s: number[];
  policy: string[];
  limit_bytes: Column;
  current_bytes: Column;
  throughput_ops: Column;
  predicted_ops: Column;
  miss_ratio: Column;
  latency_p99_us: Column;
  refaults_per_s: Column;
  evictions_per_s: Column;
  memory_stall_share: Column;
  io_stall_share: Column;
  ahead_pages_per_s: Column;
  ahead_used_per_s: Column;
  ahead_wasted_per_s: Column;
  since_s: number;
  until_s: number;
  step_s: number;
  /** Of the last minute, whatever time is shown. */
  latency: { elapsed_s: number; lower_bounds_us: number[]; counts: number[] } | null;
}
