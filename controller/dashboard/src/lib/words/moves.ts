// SPDX-License-Identifier: Apache-2.0
// What the moves off one node cost together.

import type { Drain } from "../api/types";

/** Seconds until all that moves is warm, one tenant after the other. */
export function coldSeconds(drain: Drain): number {
  return drain.moves.reduce((sum, one) => sum + one.cold_s, 0);
}
