// SPDX-License-Identifier: Apache-2.0
// A change in words: what it did, how it stands, and what there is to undo or to keep of it.

import type { Mark } from "../../parts/charts/Chart.svelte";
import { settingText, type Setting } from "../api/actions.svelte";
import { bytes, moved } from "./format";
import type { Change, ChangeKind, ChangeState } from "../api/past_types";

export const kindNames: Record<ChangeKind, string> = {
  policy: "policy",
  memory: "memory",
  recommendation: "recommendation",
  objective: "SLO or objective",
  pin: "pin",
  refusal: "refused request",
};

export const stateNames: Record<ChangeState, string> = {
  live: "live",
  confirmed: "confirmed",
  undone: "rolled back",
  abandoned: "abandoned",
  refused: "refused",
  recommended: "recommended",
  done: "done",
};

/** Class of CSS by how a change stands. */
export const stateTones: Record<ChangeState, string> = {
  live: "warn",
  confirmed: "good",
  undone: "bad",
  abandoned: "bad",
  refused: "bad",
  recommended: "dim",
  done: "",
};

const isOfTenant = (one: Change): boolean =>
  ["policy", "memory", "recommendation"].includes(one.kind);

/** What it changed, a part each: policy and limit, or what the controller says of it. */
export function partsOf(one: Change): string[] {
  const found = [];
  if (one.from_policy !== null && one.to_policy !== null && one.from_policy !== one.to_policy)
    found.push(moved(one.from_policy, one.to_policy));
  if (
    one.from_limit_bytes !== null &&
    one.to_limit_bytes !== null &&
    one.from_limit_bytes !== one.to_limit_bytes
  )
    found.push(moved(bytes(one.from_limit_bytes), bytes(one.to_limit_bytes)));
  return isOfTenant(one) && found.length > 0 ? found : [one.text || kindNames[one.kind]];
}

/** Who made it: the name, and how it is known unless the name says so itself. */
export function byWhom(one: Change): string {
  return one.by === "" || one.by === one.by_kind ? one.by_kind : `${one.by} (${one.by_kind})`;
}

function setting(one: Change, side: "from" | "to"): Setting {
  const found: Setting = {};
  const policy = one[`${side}_policy`];
  const limit = one[`${side}_limit_bytes`];
  if (policy !== null && one.from_policy !== one.to_policy) found.policy = policy;
  if (limit !== null && one.from_limit_bytes !== one.to_limit_bytes) found.limit_bytes = limit;
  return found;
}

/** What a change replaced. */
export const before = (one: Change): Setting => setting(one, "from");

/** What the tenant has since, or would have; null where there is nothing to keep. */
export function ledTo(one: Change): Setting | null {
  if (!isOfTenant(one) || one.state === "refused") return null;
  const isBack = one.state === "undone" || one.state === "abandoned";
  const found = setting(one, isBack ? "from" : "to");
  return settingText(found) === "" ? null : found;
}

const markColors: Partial<Record<ChangeState, string>> = {
  live: "var(--warn)",
  confirmed: "var(--good)",
  undone: "var(--bad)",
  abandoned: "var(--bad)",
  done: "var(--accent)",
};

/** Changes that did something, as marks of a chart over these times. */
export function marksOf(changes: Change[], times: number[]): Mark[] {
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0];
  return changes.flatMap((one) => {
    const color = markColors[one.state];
    if (color === undefined || one.begun_s < first || one.begun_s > last) return [];
    const text = `${partsOf(one).join(", ")}, ${stateNames[one.state]}, by ${byWhom(one)}`;
    return [{ x: one.begun_s, text, color }];
  });
}
