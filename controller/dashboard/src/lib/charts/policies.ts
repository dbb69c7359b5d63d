// SPDX-License-Identifier: Apache-2.0
// The look of a policy: a colour and a dash pattern by its name alone, so that it is the same
// wherever it is shown, and told apart without its colour.

/**
 * Of a hash (FNV-1a, its bits mixed) begun so, no two names in bpf/policies share both colour and
 * pattern, and those that the autopilot may choose share neither.
 */
const HASH_BEGIN = 740;
const HASH_PRIME = 16777619;
/** Degrees in OKLCH. */
const HUES = [25, 60, 100, 145, 195, 240, 285, 335];
/** Pixels drawn and left out in turn; a line without gaps is the kernel's own. */
const DASHES = [
  [16, 3],
  [9, 4],
  [5, 3],
  [2, 3],
  [11, 3, 2, 3],
  [11, 3, 2, 3, 2, 3],
];

export interface Look {
  /** A colour of CSS, as light or dark as the theme wants it. */
  color: string;
  dash: number[];
}

function hash(policy: string): number {
  let found = HASH_BEGIN;
  for (let at = 0; at < policy.length; at++)
    found = Math.imul(found ^ policy.charCodeAt(at), HASH_PRIME) >>> 0;
  found = Math.imul(found ^ (found >>> 15), 0x2c1b3c6d) >>> 0;
  return (found ^ (found >>> 12)) >>> 0;
}

export function look(policy: string): Look {
  if (policy === "default" || policy === "") return { color: "var(--c8)", dash: [] };
  const found = hash(policy);
  const hue = HUES[found % HUES.length] ?? 0;
  return {
    color: `oklch(var(--policy-lightness) var(--policy-chroma) ${hue})`,
    dash: DASHES[Math.floor(found / HUES.length) % DASHES.length] ?? [],
  };
}
