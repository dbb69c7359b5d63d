// SPDX-License-Identifier: Apache-2.0
// The colour of a policy: by its name alone, so that it is the same wherever it is shown.

/** Of a hash (FNV-1a) begun so, the names in bpf/policies have hues of 13 degrees apart and more. */
const HASH_BEGIN = 1238230;
const HASH_PRIME = 16777619;

function hue(policy: string): number {
  let hash = HASH_BEGIN;
  for (let at = 0; at < policy.length; at++)
    hash = Math.imul(hash ^ policy.charCodeAt(at), HASH_PRIME) >>> 0;
  return hash % 360;
}

/** A colour of CSS, as light or dark as the theme wants it; the kernel's own is grey. */
export function tint(policy: string): string {
  if (policy === "default" || policy === "") return "var(--c8)";
  return `oklch(var(--policy-lightness) var(--policy-chroma) ${hue(policy)})`;
}
