// SPDX-License-Identifier: Apache-2.0
// Server-sent events by fetch, for EventSource cannot carry a token. An event says what changed;
// pages then ask again for what they show.

import { get, headers } from "./requests";
import { session } from "./session.svelte";
import type { Access } from "./types";

const RETRY_MS = 1000;
const RETRY_MAX_MS = 4_000;
/** The controller beats every 15 s. */
const SILENCE_MS = 40_000;

class Live {
  status = $state<"connecting" | "live" | "lost">("connecting");
  /** Each grows whenever something of its kind changed. */
  node = $state(0);
  decisions = $state(0);
  asked = $state(0);

  all(): void {
    this.node += 1;
    this.decisions += 1;
    this.asked += 1;
  }
}

export const live = new Live();

function apply(event: string, data: string): void {
  if (event === "hello" || event === "reload") live.all();
  if (event !== "change") return;
  const changed = JSON.parse(data) as { node?: string[]; decisions?: string[]; asked?: string[] };
  if (changed.node) live.node += 1;
  if (changed.decisions) live.decisions += 1;
  if (changed.asked) live.asked += 1;
}

function takeEvents(text: string): string {
  const parts = text.split("\n\n");
  const rest = parts.pop() ?? "";
  for (const part of parts) {
    let event = "";
    let data = "";
    for (const line of part.split("\n")) {
      if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (event !== "") apply(event, data);
  }
  return rest;
}

async function read(ending: AbortController): Promise<void> {
  const sent = session.token;
  const answer = await fetch("/api/v1/events", { headers: headers(), signal: ending.signal });
  if (answer.status === 401 && session.token === sent) session.forget("the token is not known");
  if (!answer.ok || answer.body === null) throw new Error(`events: ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  live.status = "live";
  let rest = "";
  for (;;) {
    const silence = setTimeout(() => ending.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    rest = takeEvents(rest + value);
  }
}

/** Listens until the returned function is called; begins anew whenever the stream ends. */
export function listen(): () => void {
  let stopped = false;
  let ending = new AbortController();
  const run = async (): Promise<void> => {
    let wait = RETRY_MS;
    while (!stopped) {
      try {
        const access = await get<Access>("access");
        if (stopped) return;
        session.role = access.role;
        session.mayChange = access.may_change;
        ending = new AbortController();
        wait = RETRY_MS;
        await read(ending);
      } catch {
        wait = Math.min(RETRY_MAX_MS, wait * 1.5);
      }
      if (stopped || session.needsToken) return;
      live.status = "lost";
      await new Promise((done) => setTimeout(done, wait));
    }
  };
  void run();
  return () => {
    stopped = true;
    ending.abort();
  };
}
