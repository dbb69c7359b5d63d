// SPDX-License-Identifier: Apache-2.0
// Which curves are one line to the eye.

import type { Curves } from "../api/types";

/** Miss ratio; less than half a pixel of the chart. */
const APART = 0.0015;

/**
 * Policies whose curves are nowhere told apart, a list per line that is drawn. The first of a list
 * comes first in `order`, and every other of it is as near to the first.
 */
export function alike(curves: Curves, order: readonly string[]): string[][] {
  const found: { values: number[]; names: string[] }[] = [];
  for (const name of order) {
    const values = curves.miss_ratio[curves.policies.indexOf(name)] ?? [];
    const same = found.find((one) =>
      one.values.every((value, at) => Math.abs(value - (values[at] ?? NaN)) < APART),
    );
    if (same === undefined) found.push({ values, names: [name] });
    else same.names.push(name);
  }
  return found.map((one) => one.names);
}
