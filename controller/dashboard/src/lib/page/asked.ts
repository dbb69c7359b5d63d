// SPDX-License-Identifier: Apache-2.0
// A what-if question as words of the address: the value first, since a cgroup may have any sign.

import type { Question } from "../api/types";

export type Asked = Pick<Question, "policy" | "limit_bytes" | "throughput_ops">;

export const nothing = (): Asked => ({ policy: {}, limit_bytes: {}, throughput_ops: {} });

function pairs(words: string[]): [string, string][] {
  const found: [string, string][] = [];
  for (const word of words) {
    const at = word.indexOf(":");
    if (at > 0) found.push([word.slice(at + 1), word.slice(0, at)]);
  }
  return found;
}

/** Only what is a number above zero; an address can hold anything. */
function numbers(words: string[]): Record<string, number> {
  const found = pairs(words).map(([cgroup, value]) => [cgroup, Number(value)] as const);
  return Object.fromEntries(found.filter(([, value]) => Number.isFinite(value) && value > 0));
}

export function askedOf(all: (key: string) => string[]): Asked {
  return {
    policy: Object.fromEntries(pairs(all("policy"))),
    limit_bytes: numbers(all("limit")),
    throughput_ops: numbers(all("slo")),
  };
}

export function wordsOf(asked: Asked): Record<string, string[]> {
  const said = (values: Record<string, string | number>): string[] =>
    Object.entries(values).map(([cgroup, value]) => `${value}:${cgroup}`);
  return {
    policy: said(asked.policy),
    limit: said(asked.limit_bytes),
    slo: said(asked.throughput_ops),
  };
}
