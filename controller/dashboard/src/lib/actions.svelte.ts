// SPDX-License-Identifier: Apache-2.0
// What an operator does, and the line that says what came of it.

import { post, Refused, remove } from "./api";
import { bytes } from "./format";
import type { Decision, Objective } from "./types";

class Notice {
  text = $state("");
  isError = $state(false);

  say(text: string, isError = false): void {
    this.text = text;
    this.isError = isError;
  }
}

export const notice = new Notice();

/** Does it and says so; false when it was refused, which is said too. */
export async function attempt(what: string, act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    notice.say(what);
    return true;
  } catch (error) {
    notice.say(error instanceof Refused ? error.message : String(error), true);
    return false;
  }
}

export interface Setting {
  policy?: string;
  limit_bytes?: number;
}

export function settingText(setting: Setting): string {
  const parts = [];
  if (setting.policy !== undefined) parts.push(`policy ${setting.policy}`);
  if (setting.limit_bytes !== undefined) parts.push(`limit ${bytes(setting.limit_bytes)}`);
  return parts.join(", ");
}

export function pin(node: string, cgroup: string, setting: Setting): Promise<boolean> {
  return attempt(`${cgroup}: pinned to ${settingText(setting)}`, () =>
    post("pins", { node, cgroup, ...setting }),
  );
}

/** Pins of one node and those of all nodes look alike in a tenant; the first that is there goes. */
export function unpin(node: string, cgroup: string): Promise<boolean> {
  return attempt(`${cgroup}: the autopilot decides again`, async () => {
    try {
      await remove("pins", { node, cgroup });
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      await remove("pins", { cgroup });
    }
  });
}

export function setObjective(objective: Objective): Promise<boolean> {
  return attempt(`${objective.cgroup}: the objective is set`, () => post("objectives", objective));
}

export function deleteObjective(cgroup: string): Promise<boolean> {
  return attempt(`${cgroup}: the objective is gone`, () => remove("objectives", { cgroup }));
}

/** What a decision changed, as it was before. */
export function before(decision: Decision): Setting {
  const found: Setting = {};
  if (decision.from_policy !== decision.to_policy) found.policy = decision.from_policy;
  if (decision.from_limit_bytes !== decision.to_limit_bytes)
    found.limit_bytes = decision.from_limit_bytes;
  return found;
}

/** What a decision led to, or would have. */
export function after(decision: Decision): Setting {
  const found: Setting = {};
  if (decision.from_policy !== decision.to_policy) found.policy = decision.to_policy;
  if (decision.from_limit_bytes !== decision.to_limit_bytes)
    found.limit_bytes = decision.to_limit_bytes;
  return "policy" in found || "limit_bytes" in found ? found : { policy: decision.to_policy };
}
