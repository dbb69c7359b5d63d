// SPDX-License-Identifier: Apache-2.0
// Stretches of time up to now, as they are chosen and as an address says them.

const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;

export const RANGES: Record<string, { name: string; seconds: number }> = {
  "5m": { name: "5 min", seconds: 5 * MINUTE_S },
  "1h": { name: "1 h", seconds: HOUR_S },
  "6h": { name: "6 h", seconds: 6 * HOUR_S },
  "24h": { name: "24 h", seconds: DAY_S },
  "7d": { name: "7 days", seconds: 7 * DAY_S },
};

/** When a range begins, in seconds since 1970; undefined for one that is not known: all. */
export function since(range: string, now_s = Date.now() / 1000): number | undefined {
  const found = RANGES[range];
  return found === undefined ? undefined : now_s - found.seconds;
}

/** A time as a field of a form for local time has it, to the minute. */
export function local(time_s: number): string {
  const at = new Date(1000 * time_s);
  return new Date(at.getTime() - 60_000 * at.getTimezoneOffset()).toISOString().slice(0, 16);
}

/** Seconds since 1970 of such a field; null when it is empty. */
export function ofLocal(text: string): number | null {
  const found = new Date(text).getTime() / 1000;
  return Number.isFinite(found) ? found : null;
}
