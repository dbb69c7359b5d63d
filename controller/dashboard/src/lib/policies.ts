// SPDX-License-Identifier: Apache-2.0
// One look per policy on a page: by its place among those that are there.

export interface Look {
  color: number;
  dash: boolean;
}

const COLORS = 8;

/** The kernel's own is grey; the others take colours in the order of their names. */
export function looks(policies: readonly string[]): Map<string, Look> {
  const others = [...new Set(policies)].filter((name) => name !== "default").sort();
  const found = new Map<string, Look>([["default", { color: COLORS, dash: false }]]);
  others.forEach((name, at) =>
    found.set(name, { color: 1 + (at % (COLORS - 1)), dash: at >= COLORS - 1 }),
  );
  return found;
}
