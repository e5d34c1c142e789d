/** The phases of compiles as a flame chart: time to the right, nesting downwards. Ctrl+wheel and keys zoom. */

import type { CustomSeriesRenderItem } from "echarts";
import type { EChartsType } from "echarts/core";
import type { StepRow } from "../../src/messages/page_types";
import { axis, type ChartSpec, legend, zoomOf } from "./chart";
import { type FlameBox, flameRows, type Stage, stageOf, stages, stageTimes } from "./flame";
import { colorOf, readableOn, type Theme } from "./theme";
import { stepWords, time } from "./words";

/** Indexes into the theme's palette. */
const colors: Readonly<Record<Stage, number>> = {
  Dynamo: 0,
  AOTAutograd: 1,
  Inductor: 2,
  "Compilers and caches": 3,
  Other: 9,
};
const rowHeight = 20;
const foot = 84;
const zoomStep = 0.7;

/** Where its times count from, and what it shows. */
export interface FlameWords {
  readonly axis: string;
  readonly about: string;
}

const ofBenchmark: FlameWords = {
  axis: "time since the start of the first call",
  about: "Phases of the cold compile",
};

export function flameChart(steps: readonly StepRow[], words: FlameWords = ofBenchmark): ChartSpec {
  const boxes = flameRows(steps);
  const times = stageTimes(boxes);
  const groups = stages
    .map((stage) => boxes.filter(({ step }) => stageOf(step) === stage))
    .map((group, index) => {
      const stage = stages[index] ?? "Other";
      return { group, name: `${stage} ${time(times.get(stage) ?? 0)}`, color: colors[stage] };
    })
    .filter(({ group }) => group.length > 0);
  const rows = Math.max(0, ...boxes.map(({ row }) => row + 1));
  const end = Math.max(1, ...steps.map(({ start_us, us }) => start_us + us));
  const names = groups.map(({ name }) => name);
  const head = (width: number, theme: Theme) => legend(theme, width, names).height + 8;
  const inOrder = groups
    .flatMap(({ group }, series) => group.map((box, index) => ({ box, series, index })))
    .toSorted(
      (left, right) => left.box.row - right.box.row || left.box.step.start_us - right.box.step.start_us,
    );
  return {
    key: "compile",
    name: "Compile phases",
    about: `${words.about}, ${time(end)} in ${steps.length} steps. Plus and minus zoom, 0 shows all`,
    height: (width, theme) => head(width, theme) + rows * rowHeight + foot,
    items: inOrder.map(({ box: { step }, series, index }) => ({
      key: `${step.compile_id ?? ""} ${step.name}`,
      words: stepWords(step),
      place: step.place,
      series,
      index,
    })),
    option: (theme, width) => ({
      grid: { left: 16, right: 24, top: head(width, theme), bottom: foot },
      legend: legend(theme, width, names).option,
      dataZoom: [
        {
          type: "inside",
          zoomOnMouseWheel: "ctrl",
          moveOnMouseWheel: false,
          moveOnMouseMove: true,
          filterMode: "none",
        },
        slider(theme),
      ],
      xAxis: {
        type: "value",
        min: 0,
        max: end,
        ...axis(theme, words.axis, {
          showMaxLabel: true,
          alignMaxLabel: "right",
          formatter: time,
        }),
        nameGap: 26,
      },
      yAxis: { type: "value", min: 0, max: Math.max(1, rows), inverse: true, show: false },
      series: groups.map(({ group, name, color }) => ({
        type: "custom",
        name,
        clip: true,
        itemStyle: { color: colorOf(theme, color), borderColor: theme.background, borderWidth: 1 },
        encode: { x: [0, 1], y: 2 },
        data: group.map(({ step, row }) => [step.start_us, step.start_us + step.us, row]),
        renderItem: rectangles(group, colorOf(theme, color), theme),
      })),
    }),
    keys: (chart) => ({
      "+": () => zoom(chart, zoomStep),
      "=": () => zoom(chart, zoomStep),
      "-": () => zoom(chart, 1 / zoomStep),
      "0": () => zoom(chart, Number.POSITIVE_INFINITY),
    }),
  };
}

function rectangles(group: readonly FlameBox[], color: string, theme: Theme): CustomSeriesRenderItem {
  return (params, api) => {
    const area = params.coordSys as unknown as { readonly x: number; readonly width: number };
    const [start = 0, top = 0] = api.coord([api.value(0), api.value(2)]);
    const [end = 0] = api.coord([api.value(1), 0]);
    const box = group[params.dataIndex];
    const left = Math.max(area.x, start);
    const width = Math.min(area.x + area.width, end) - left;
    if (box === undefined || width <= 0) {
      return null;
    }
    const text = {
      text: box.step.name,
      fill: readableOn(color),
      width: width - 8,
      overflow: "truncate",
      ellipsis: "\u2026",
      fontSize: theme.size - 2,
    };
    const dashed = box.step.sampled ? { lineDash: [3, 2], stroke: theme.text } : {};
    return {
      type: "rect",
      shape: { x: left, y: top + 1, width: Math.max(1, width), height: rowHeight - 2 },
      style: { fill: color, stroke: theme.background, lineWidth: 1, ...dashed },
      emphasis: { style: { stroke: theme.text, lineWidth: 2 } },
      textContent: width < 32 ? undefined : { style: text },
      textConfig: { position: "insideLeft", distance: 4 },
    } as ReturnType<CustomSeriesRenderItem>;
  };
}

function slider(theme: Theme): object {
  return {
    type: "slider",
    height: 16,
    bottom: 8,
    filterMode: "none",
    showDetail: false,
    borderColor: theme.muted,
    fillerColor: theme.grid,
    handleStyle: { color: theme.background, borderColor: theme.text },
    moveHandleStyle: { color: theme.muted },
    dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
    selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
  };
}

/** Zooms around the middle of the visible range. */
function zoom(chart: EChartsType, factor: number): void {
  const { start, end } = zoomOf(chart);
  const [middle, half] = [(start + end) / 2, Math.min(50, ((end - start) / 2) * factor)];
  const from = Math.max(0, Math.min(100 - 2 * half, middle - half));
  chart.dispatchAction({ type: "dataZoom", start: from, end: from + 2 * half });
}
