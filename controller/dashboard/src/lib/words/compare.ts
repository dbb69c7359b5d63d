// SPDX-License-Identifier: Apache-2.0
// Throughput against another: what is said of a ratio and of its error.

import type { Figure } from "../../parts/basic/Figures.svelte";
import type { Ratio, Verdict } from "../api/past_types";

const signed = (ratio: number): string => {
  const share = 100 * (ratio - 1);
  const digits = Math.abs(share) >= 9.95 ? 0 : 1;
  const text = Math.abs(share).toFixed(digits);
  return `${share < 0 && Number(text) > 0 ? "−" : "+"}${text}%`;
};

/** 1.25 as "+25%"; a dash where it is not known. */
export const ratioText = (one: Ratio | null): string => (one === null ? "–" : signed(one.ratio));

/** The range of its error. */
export const errorText = (one: Ratio | null): string =>
  one === null ? "" : `${signed(one.low)} to ${signed(one.high)}`;

/** Only what its error leaves no doubt of is good or bad. */
export function tone(one: Ratio | null): "good" | "bad" | "" {
  if (one === null) return "";
  return one.low > 1 ? "good" : one.high < 1 ? "bad" : "";
}

export function ratioFigure(name: string, one: Ratio | null, missing: string): Figure {
  return {
    name,
    value: ratioText(one),
    note: one === null ? missing : `${errorText(one)}, ${one.source}`,
    tone: tone(one),
  };
}

export const verdictNames: Record<Verdict, string> = {
  gains: "gains",
  pays: "pays",
  same: "no difference",
  unknown: "not known yet",
};

export const verdictTones: Record<Verdict, string> = {
  gains: "good",
  pays: "bad",
  same: "",
  unknown: "dim",
};
