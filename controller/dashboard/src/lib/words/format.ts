// SPDX-License-Identifier: Apache-2.0
// Numbers as they are read: units in the text, a dash for what is not known.

import type { Slo, Workload } from "../api/types";

const NONE = "–";
const MIB = 2 ** 20;

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const [unit, name] =
    size >= 2 ** 40
      ? [2 ** 40, "TiB"]
      : size >= 2 ** 30
        ? [2 ** 30, "GiB"]
        : size >= MIB
          ? [MIB, "MiB"]
          : [1024, "KiB"];
  const scaled = value / unit;
  return `${scaled.toFixed(Math.abs(scaled) >= 100 || Number.isInteger(scaled) ? 0 : 1)} ${name}`;
}

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const digits = Math.abs(value) >= 100 || value === 0 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function percent(value: number | null | undefined, digits = 1): string {
  return value === null || value === undefined ? NONE : `${(100 * value).toFixed(digits)}%`;
}

/** Of measured against predicted: by how much in percent, with its sign. */
export function change(from: number | null, to: number | null): string {
  if (from === null || to === null || from === 0) return NONE;
  const share = 100 * (to / from - 1);
  return `${share >= 0 ? "+" : "−"}${Math.abs(share).toFixed(Math.abs(share) >= 100 ? 0 : 1)}%`;
}

export function micros(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} s`;
  return value >= 1000
    ? `${(value / 1000).toFixed(value >= 1e5 ? 0 : 1)} ms`
    : `${count(value)} µs`;
}

export function clock(time_s: number): string {
  return new Date(1000 * time_s).toLocaleTimeString("en-GB");
}

export function date(time_s: number): string {
  const when = new Date(1000 * time_s);
  const pad = (value: number): string => String(value).padStart(2, "0");
  const day = `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())}`;
  return `${day} ${when.toLocaleTimeString("en-GB")}`;
}

/** The time alone of today's, the day too of any other. */
export function when(time_s: number): string {
  const isToday = new Date(1000 * time_s).toDateString() === new Date().toDateString();
  return isToday ? clock(time_s) : date(time_s).slice(0, 16);
}

/** How long, in its greatest units. */
export function elapsed(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const [whole, part, names] =
    seconds < 3600
      ? [60, 1, ["min", "s"]]
      : seconds < 86_400
        ? [3600, 60, ["h", "min"]]
        : [86_400, 3600, ["d", "h"]];
  const rest = Math.floor((seconds % whole) / part);
  return `${Math.floor(seconds / whole)} ${names[0]}${rest > 0 ? ` ${rest} ${names[1]}` : ""}`;
}

/** As `kubectl` and objectives name it. */
export function workloadName(workload: Workload): string {
  const { namespace, pod, container } = workload;
  return [namespace, pod, container].filter((part) => part !== "").join("/");
}

export const sloNames = {
  throughput_ops: "throughput",
  latency_p99_us: "p99 latency",
  hit_ratio: "hit ratio",
} as const;

/** What is predicted of an SLO, by the controller's words for it. */
export const sloStates: Record<string, string> = {
  met: "predicted to be met",
  approaching: "predicted to be met once memory has moved",
  outbid: "predicted to be missed, other SLOs come first",
  unattainable: "predicted to be unattainable on this node",
  held: "predicted to be missed at a fixed setting",
  unknown: "not predicted",
  stale: "unknown: its node sends nothing",
};

/** What is predicted of an SLO, or was before confidence in the curves was lost. */
export function prediction(slo: Slo): string {
  const told = sloStates[slo.state] ?? slo.state;
  return isEarlier(slo) ? `last ${told}` : told;
}

/** Whether what is predicted of an SLO is the last prediction, since there is none now. */
export function isEarlier(slo: Slo): boolean {
  return slo.state === "unattainable" && slo.predicted === null;
}

/** How a move stands, where the controller's word for it is another. */
export const moveStates: Record<string, string> = {
  kept: "confirmed",
  returning: "being undone",
  returned: "undone",
};

/** States of an SLO that is predicted to be missed. */
export const missedStates = ["outbid", "unattainable", "held"];

export function sloValue(kind: keyof typeof sloNames, value: number | null): string {
  if (kind === "throughput_ops") return value === null ? NONE : `${count(value)} op/s`;
  return kind === "latency_p99_us" ? micros(value) : percent(value);
}

/** A policy and a limit that became others; what stayed is said once. */
export function moved(from: string, to: string): string {
  return from === to ? to : `${from} → ${to}`;
}
