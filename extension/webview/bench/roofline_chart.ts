/** The kernels and the device's limits: FLOP per byte to the right, TFLOP/s upwards, both logarithmic. */

import type { Roofline } from "../../src/messages/page_types";
import { axis, type ChartSpec } from "../measured/chart";
import { colorOf, type Theme } from "../measured/theme";
import { number, placeOf, shorten, time } from "../measured/words";
import { kernelName } from "./explained";
import {
  type Ceiling,
  ceilings,
  intensities,
  memoryLimit,
  type Range,
  rates,
  ridge,
  shownPoints,
} from "./roofline";

const named = 3;

export function rooflineChart(roofline: Roofline): ChartSpec {
  const points = shownPoints(roofline).toSorted((left, right) => right.us - left.us);
  const most = points[0]?.us ?? 1;
  return {
    key: "roofline",
    name: "Roofline",
    about: `Roofline, ${points.length} kernels by FLOP per byte and TFLOP/s`,
    height: () => 380,
    items: points.map(({ name, intensity, tflops, us, place }, index) => ({
      key: name,
      words: [
        shorten(kernelName(name), 70),
        `${number(intensity)} FLOP per byte, ${number(tflops)} TFLOP/s, ${time(us)}`,
        ...(place === null ? [] : [placeOf(place)]),
      ],
      place,
      series: 0,
      index,
    })),
    option(theme) {
      const [across, up] = [intensities(roofline), rates(roofline)];
      return {
        grid: { left: 72, right: 16 + widest(roofline) * theme.size * 0.56, top: 28, bottom: 52 },
        xAxis: { ...logarithmic(theme, "FLOP per byte", across), nameGap: 30 },
        yAxis: { ...logarithmic(theme, "TFLOP/s", up), nameGap: 48 },
        series: [
          {
            type: "scatter",
            data: points.map(({ intensity, tflops }) => ({
              value: [intensity, tflops],
              label: { position: isRight(intensity, across) ? "left" : "right" },
            })),
            symbolSize: (_: unknown, { dataIndex }: { dataIndex: number }) =>
              8 + 20 * Math.sqrt((points[dataIndex]?.us ?? 0) / most),
            cursor: "pointer",
            z: 3,
            itemStyle: { color: colorOf(theme, 0), opacity: 0.8, borderColor: theme.text, borderWidth: 1 },
            emphasis: { itemStyle: { borderWidth: 3, opacity: 1 } },
            label: {
              show: true,
              position: "right",
              color: theme.text,
              textBorderColor: theme.background,
              textBorderWidth: 3,
              formatter: ({ dataIndex }: { dataIndex: number }) =>
                dataIndex < named ? shorten(kernelName(points[dataIndex]?.name ?? ""), 28) : "",
            },
            labelLayout: { hideOverlap: true },
          },
          ...limits(roofline, theme, across, up),
        ],
      };
    },
  };
}

/** The memory limit up to the highest ridge, and each rate from its ridge. */
function limits(roofline: Roofline, theme: Theme, across: Range, up: Range): readonly object[] {
  const rows = ceilings(roofline);
  const from = Math.max(across.start, ridge(roofline, up.start));
  const to = rows.length > 0 ? ridge(roofline, Math.max(...rows.map(({ tflops }) => tflops))) : across.end;
  const slope = [from, Math.sqrt(from * to), to].map((at): Point => [at, memoryLimit(roofline, at)]);
  return [
    limit(theme, 1, slope, `memory ${number(roofline.bandwidth_gbs)} GB/s`, "left"),
    ...rows.map((row) => {
      const flat: readonly Point[] = [
        [ridge(roofline, row.tflops), row.tflops],
        [across.end, row.tflops],
      ];
      return limit(theme, 2, flat, ceilingWords(row), "right");
    }),
  ];
}

/** Whether a label to the right of the point would be cut off. */
function isRight(intensity: number, { start, end }: Range): boolean {
  return Math.log(intensity / start) > 0.6 * Math.log(end / start);
}

type Point = readonly [number, number];

function ceilingWords({ dtypes, tflops }: Ceiling): string {
  return `${dtypes.join(", ")} ${number(tflops)} TFLOP/s`;
}

/** The length of the longest label next to the chart. */
function widest(roofline: Roofline): number {
  return Math.max(0, ...ceilings(roofline).map((ceiling) => ceilingWords(ceiling).length));
}

/** A line through `points`, with `words` at the second of them. */
function limit(
  theme: Theme,
  color: number,
  points: readonly Point[],
  words: string,
  position: string,
): object {
  const halo = { textBorderColor: theme.background, textBorderWidth: 3 };
  const label = { show: true, formatter: words, color: theme.text, position, ...halo };
  return {
    type: "line",
    data: points.map((value, index) => ({ value, ...(index === 1 ? { label } : {}) })),
    symbol: "circle",
    symbolSize: 0.1, // a label needs a symbol
    silent: true,
    tooltip: { show: false },
    lineStyle: { color: colorOf(theme, color), width: 2, type: color === 1 ? "solid" : "dashed" },
  };
}

function logarithmic(theme: Theme, name: string, { start, end }: Range): object {
  return {
    type: "log",
    min: start,
    max: end,
    ...axis(theme, name, { formatter: number }),
  };
}
