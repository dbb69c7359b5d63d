// SPDX-License-Identifier: Apache-2.0
// What an operator does, and the line that says what came of it.

import { get, post, Refused, remove } from "./api";
import { bytes, sloNames } from "./format";
import type { Detail, Objective, SloKind } from "./types";

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

/** Puts back what a change replaced, for an hour. */
export function revert(change: number, cgroup: string, to: Setting): Promise<boolean> {
  return attempt(`${cgroup}: back to ${settingText(to)}`, () => post("reverts", { change }));
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

/** Adds an SLO to the objective that applies to this cgroup now, be it stated of its path or of a glob. */
export function setSlo(
  node: string,
  cgroup: string,
  kind: SloKind,
  target: number,
): Promise<boolean> {
  return attempt(`${cgroup}: the SLO of ${sloNames[kind]} is set`, async () => {
    const { stated } = await get<Detail>("tenants/detail", { node, cgroup });
    await post("objectives", { ...stated, cgroup, [kind]: target });
  });
}

/** Two statements that ask the same; a key without a value is one that is not there. */
function isSame(one: Objective, other: Objective): boolean {
  const [first, second] = [one, other].map((statement) =>
    JSON.stringify(
      Object.entries(statement)
        .filter(([, value]) => value !== null && value !== undefined)
        .sort(([a], [b]) => a.localeCompare(b)),
    ),
  );
  return first === second;
}

/**
 * Takes one promise away and nothing else. The statement of the cgroup itself goes with it where
 * what is left is what would hold anyway.
 */
export function dropSlo(node: string, cgroup: string, kind: SloKind): Promise<boolean> {
  return attempt(`${cgroup}: the SLO of ${sloNames[kind]} is gone`, async () => {
    const { stated, inherited } = await get<Detail>("tenants/detail", { node, cgroup });
    if (stated === null || (stated[kind] ?? null) === null) return;
    const left = { ...stated, cgroup, [kind]: null };
    if (stated.cgroup === cgroup && isSame(left, { ...inherited, cgroup }))
      await remove("objectives", { cgroup });
    else await post("objectives", left);
  });
}
