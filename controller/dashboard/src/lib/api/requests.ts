// SPDX-License-Identifier: Apache-2.0
// Requests to the controller that served this page.

import { session } from "./session.svelte";

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | undefined>;

export function address(path: string, query: Query = {}): string {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const words = new URLSearchParams(known.map(([key, value]) => [key, String(value)])).toString();
  return `/api/v1/${path}${words === "" ? "" : `?${words}`}`;
}

export function headers(): Record<string, string> {
  return session.token === "" ? {} : { Authorization: `Bearer ${session.token}` };
}

async function reason(answer: Response): Promise<string> {
  try {
    return ((await answer.json()) as { error: string }).error;
  } catch {
    return `the controller answered ${answer.status}`;
  }
}

async function request(
  method: string,
  path: string,
  query?: Query,
  body?: unknown,
): Promise<Response> {
  // What is answered to a token says nothing of one that was entered meanwhile.
  const sent = session.token;
  let answer: Response;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers:
        body === undefined ? headers() : { ...headers(), "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new Refused(0, "the controller does not answer");
  }
  if (answer.ok) return answer;
  const why = await reason(answer);
  if (answer.status === 401 && session.token === sent) session.forget(why);
  throw new Refused(answer.status, why);
}

export async function get<T>(path: string, query?: Query): Promise<T> {
  return (await (await request("GET", path, query)).json()) as T;
}

/** One page of a list, and how many there are on all pages. */
export async function page<T>(path: string, query: Query): Promise<{ rows: T[]; total: number }> {
  const answer = await request("GET", path, query);
  const rows = (await answer.json()) as T[];
  return { rows, total: Number(answer.headers.get("X-Total-Count") ?? rows.length) };
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return (await (await request("POST", path, undefined, body)).json()) as T;
}

export async function remove(path: string, query: Query): Promise<void> {
  await request("DELETE", path, query);
}
