// SPDX-License-Identifier: Apache-2.0
// How a rehearsal stands, in words.

import type { Rehearsal, Rehearsed } from "../api/types";
import { bytes, count, elapsed, percent, sloNames, sloValue, when } from "./format";

const doing: Partial<Record<Rehearsal["state"], string>> = {
  measuring: "all tenants are measured with their present memory",
  settling: "memory was taken, page caches settle",
  judged: "SLOs are judged with the planned memory",
};

export const tones: Partial<Record<Rehearsal["state"], string>> = {
  passed: "good",
  missed: "bad",
};

/** What is measured of a rehearsal, without what is predicted of it. */
export function state(one: Rehearsal): string {
  const over = one.over_s === null ? "" : ` at ${when(one.over_s)}`;
  switch (one.state) {
    case "not begun":
      return one.why === "" ? "not rehearsed yet" : `not rehearsed: ${one.why}`;
    case "ended":
      return "given up before it was over";
    case "passed":
      return `passed${over}`;
    case "missed":
      return `missed${over}: ${one.why}`;
    default:
      return `${one.since_s === null ? "now" : `since ${when(one.since_s)}`}: ${doing[one.state]}`;
  }
}

/** How long it takes yet, which is predicted; empty once it is over. */
export function left(one: Rehearsal): string {
  return one.left_s === null ? "" : `${elapsed(one.left_s)} to go if all is met, predicted`;
}

/** What a tenant is to do. */
export function target(one: Rehearsed): string {
  if (one.kind === null) return "–";
  if (one.kind === "keep") return `keeps ${count(one.target)} op/s`;
  return `${sloNames[one.kind]} ${sloValue(one.kind, one.target)}`;
}

/** By how much a tenant missed, and until when that is not tried again. */
export function missed(one: Rehearsed): string {
  const intervals = `${one.met} of ${one.windows} intervals met`;
  const short =
    one.short === null ? intervals : `${percent(one.short)} below its target, ${intervals}`;
  if (one.least_bytes === null || one.until_s === null) return `${one.cgroup}: ${short}`;
  return `${one.cgroup}: ${short}; not tried with less than ${bytes(one.least_bytes)} until ${when(one.until_s)}`;
}

/** Which tenants were judged with more memory than they will have. */
export function unproven(one: Rehearsal): string[] {
  const told = one.tenants
    .filter((tenant) => tenant.unproven)
    .map((tenant) => {
      const had = tenant.most_bytes ? `up to ${bytes(tenant.most_bytes)}` : "no limit";
      return `${tenant.cgroup}: not proven, it had ${had}`;
    });
  return [...new Set(told)];
}
