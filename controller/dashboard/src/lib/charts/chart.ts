// SPDX-License-Identifier: Apache-2.0
// How charts are drawn, as options of uPlot.

import uPlot from "uplot";
import type { Line, Mark, Point } from "../../parts/charts/Chart.svelte";

interface Wanted {
  lines: Line[];
  time: boolean;
  logX: boolean;
  height: number;
  width: number;
  yMax: number | undefined;
  signed: boolean;
  xText: (value: number) => string;
  yText: (value: number) => string;
  yBinary: boolean;
  /** What a colour of CSS is on this page now; mixed with nothing for a share below 1. */
  color: (css: string, share?: number) => string;
  point: () => Point | null;
  marks: () => readonly Mark[];
  onCursor: (at: number | null) => void;
}

/** Steps of an axis of bytes, 1 byte to 1 PiB. */
const BINARY = Array.from({ length: 51 }, (_, power) => 2 ** power);
const FONT = "11px Inter, Segoe UI, Noto Sans, Liberation Sans, Arial, sans-serif";

function series(wanted: Wanted): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const found: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const line of wanted.lines) {
    found.push({
      stroke: wanted.color(line.color),
      width: line.width ?? 1.25,
      dash: line.dash,
      points: { show: false },
      fill: line.bars ? wanted.color(line.color, 0.33) : undefined,
      paths: line.bars ? uPlot.paths.bars?.({ size: [0.9, 60], align: 1 }) : undefined,
      spanGaps: false,
    });
    if (line.band !== undefined) {
      const edge = { width: 0, points: { show: false } };
      const fill = wanted.color(line.color, 0.15);
      bands.push({ series: [found.length, found.length + 1], fill });
      found.push({ ...edge }, { ...edge });
    }
  }
  return { series: found, bands };
}

function axis(wanted: Wanted, text: (value: number) => string): uPlot.Axis {
  const grid = { stroke: wanted.color("var(--line-soft)"), width: 1 };
  return {
    stroke: wanted.color("var(--dim)"),
    font: FONT,
    grid,
    ticks: { ...grid, size: 4 },
    values: (_, values) => values.map((value) => (value === null ? "" : text(value))),
  };
}

function drawPoint(chart: uPlot, wanted: Wanted): void {
  const point = wanted.point();
  if (point === null) return;
  const [left, top] = [
    chart.valToPos(point.x, "x", true),
    chart.valToPos(point.y, "y", true),
  ] as const;
  const { ctx, bbox } = chart;
  const size = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = wanted.color("var(--text)");
  ctx.setLineDash([3 * size, 3 * size]);
  ctx.lineWidth = size;
  ctx.beginPath();
  ctx.moveTo(left, bbox.top);
  ctx.lineTo(left, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.fillStyle = wanted.color(point.color);
  ctx.lineWidth = 1.5 * size;
  ctx.beginPath();
  ctx.arc(left, top, 5 * size, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
  ctx.restore();
}

/** A line from top to bottom with a triangle at its top. */
function drawMark(chart: uPlot, wanted: Wanted, mark: Mark): void {
  const { ctx, bbox } = chart;
  const left = chart.valToPos(mark.x, "x", true);
  if (left < bbox.left || left > bbox.left + bbox.width) return;
  const size = devicePixelRatio;
  const color = wanted.color(mark.color);
  ctx.save();
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = size;
  ctx.setLineDash([2 * size, 2 * size]);
  ctx.beginPath();
  ctx.moveTo(left, bbox.top);
  ctx.lineTo(left, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.moveTo(left - 4 * size, bbox.top);
  ctx.lineTo(left + 4 * size, bbox.top);
  ctx.lineTo(left, bbox.top + 7 * size);
  ctx.fill();
  ctx.restore();
}

export function options(wanted: Wanted): uPlot.Options {
  const top = wanted.yMax;
  const xAxis = axis(wanted, wanted.xText);
  const x = wanted.logX ? { distr: 3 as const, log: 2 as const } : {};
  return {
    width: wanted.width,
    height: wanted.height,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: wanted.time, ...x },
      y: {
        range: (_, low, high) => [
          wanted.signed ? Math.min(0, 1.08 * low) : 0,
          top ?? Math.max(high > 0 ? 1.08 * high : wanted.signed && low < 0 ? 0 : 1, 1e-6),
        ],
      },
    },
    axes: [
      { ...xAxis, size: 26, space: 72 },
      { ...axis(wanted, wanted.yText), size: 64, ...(wanted.yBinary ? { incrs: BINARY } : {}) },
    ],
    ...series(wanted),
    hooks: {
      draw: [
        (chart) => wanted.marks().forEach((one) => drawMark(chart, wanted, one)),
        (chart) => drawPoint(chart, wanted),
      ],
      setCursor: [(chart) => wanted.onCursor(chart.cursor.idx ?? null)],
    },
  };
}
