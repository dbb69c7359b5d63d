// SPDX-License-Identifier: Apache-2.0
// What an operator does, and the line that says what came of it.

import { get, post, Refused, remove } from "./requests";
import type { Asked } from "../page/asked";
import { bytes, sloNames } from "../words/format";
import { question } from "../page/question.svelte";
import type { Detail, Objective, SloKind } from "./types";

class Notice {
  text = $state("");
  isError = $state(false);
  /** What takes back what the text says was done. */
  undo = $state.raw<(() => Promise<boolean>) | null>(null);

  say(text: string, isError = false, undo: (() => Promise<boolean>) | null = null): void {
    this.text = text;
    this.isError = isError;
    this.undo = undo;
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

/** An order that would cost an SLO is refused with what it costs, until that is accepted. */
const COSTS_SLOS = 409;
/** With it such a refusal ends; one without it is of another conflict. */
const HINT = " (accept_missed_slos: true accepts it)";

async function order<T>(path: string, body: object): Promise<T> {
  try {
    return await post<T>(path, body);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== COSTS_SLOS) throw error;
    if (!error.message.endsWith(HINT)) throw error;
    const cost = error.message.slice(0, -HINT.length);
    if (!(await question.ask(cost))) throw new Refused(error.status, cost);
    return await post<T>(path, { ...body, accept_missed_slos: true });
  }
}

interface Applied {
  /** Null where nothing is other than it was. */
  change: number | null;
  what: string;
}

/** Puts what a what-if question asks into force, as one change; null: until it is unpinned. */
export async function applyWhatIf(
  node: string,
  asked: Asked,
  hold_s: number | null,
): Promise<boolean> {
  try {
    const done = await order<Applied>("what-if/apply", { node, ...asked, hold_s });
    const { change } = done;
    notice.say(done.what, false, change === null ? null : () => undo(change));
    return true;
  } catch (error) {
    notice.say(error instanceof Refused ? error.message : String(error), true);
    return false;
  }
}

/** Takes a change of pins and objectives back as a whole, if nobody changed them since. */
function undo(change: number): Promise<boolean> {
  return attempt("it is as it was before", () => order("undo", { change }));
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
    order("pins", { node, cgroup, ...setting }),
  );
}

/** Puts back what a change replaced, for an hour. */
export function revert(change: number, cgroup: string, to: Setting): Promise<boolean> {
  return attempt(`${cgroup}: back to ${settingText(to)}`, () => order("reverts", { change }));
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
 * Deletes one SLO and nothing else. The objective of the cgroup itself is deleted with it where what
 * is left would hold anyway.
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
