// SPDX-License-Identifier: Apache-2.0
// Why there is no prediction.

import type { Detail } from "../api/types";

/** Why the throughput of a tenant is not predicted. */
export function whyNotPredicted(found: Detail): string {
  const { trusted, distrust } = found.tenant;
  if (found.curves === null) return `there are no curves yet${distrust && `: ${distrust}`}`;
  if (!trusted) return `low confidence in the curves${distrust && `: ${distrust}`}`;
  if (found.predicted_miss_ratio === null) return "its policy has no curve";
  return "its throughput is not measured yet";
}
