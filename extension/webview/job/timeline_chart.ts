/** The compiles of all ranks over one clock: a row a rank, time to the right. Ctrl+wheel zooms. */

import type { CustomSeriesRenderItem } from "echarts";
import type { JobTimeline } from "../../src/messages/page_types";
import { axis, type ChartSpec } from "../measured/chart";
import { colorOf, readableOn, type Theme } from "../measured/theme";
import { shorten } from "../measured/words";
import { seconds, type TimelineBox, timelineBoxes, timelineNames } from "./shown";

const foot = 44;
const mostHeight = 900;
const mostColors = 9;

export function timelineChart(timeline: JobTimeline): ChartSpec {
  const boxes = timelineBoxes(timeline);
  const names = timelineNames(boxes, mostColors);
  const rows = timeline.rows.length;
  const rowHeight = Math.max(10, Math.min(26, Math.floor(mostHeight / Math.max(1, rows))));
  const end = Math.max(timeline.seconds, 0.001);
  return {
    key: "timeline",
    name: "Timeline of ranks",
    about: `Compiles of ${rows} ranks over ${seconds(end)}`,
    isColored: true,
    height: () => rows * rowHeight + foot + 8,
    items: boxes.map((box, index) => ({
      key: `${box.label} ${box.name} ${box.compile}`,
      words: [
        `${box.label}: ${box.name}`,
        box.isUnfinished
          ? `starts at ${seconds(box.start)}; the log ends before it`
          : `${seconds(box.end - box.start)}, starts at ${seconds(box.start)}`,
        ...(box.compile === "" ? [] : [`compile ${box.compile}`]),
      ],
      place: null,
      series: 0,
      index,
    })),
    option: (theme) => ({
      grid: { left: 76, right: 24, top: 8, bottom: foot },
      dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none" }],
      xAxis: {
        type: "value",
        min: 0,
        max: end,
        ...axis(theme, "time since the first compile of the job", {
          showMaxLabel: true,
          alignMaxLabel: "right",
          formatter: (value: number) => seconds(value),
        }),
        nameGap: 26,
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: timeline.rows.map(({ label, is_cut }) => (is_cut ? `${label} \u2026` : label)),
        axisTick: { show: false },
        axisLine: { lineStyle: { color: theme.muted } },
        axisLabel: { color: theme.text, fontSize: Math.min(theme.size - 1, rowHeight) },
      },
      series: [
        {
          type: "custom",
          clip: true,
          encode: { x: [0, 1], y: 2 },
          data: boxes.map((box) => [box.start, box.end, box.row]),
          renderItem: rectangles(boxes, names, rowHeight, theme),
        },
      ],
    }),
  };
}

function rectangles(
  boxes: readonly TimelineBox[],
  names: readonly string[],
  rowHeight: number,
  theme: Theme,
): CustomSeriesRenderItem {
  return (params, api) => {
    const box = boxes[params.dataIndex];
    const area = params.coordSys as unknown as { readonly x: number; readonly width: number };
    const [start = 0, middle = 0] = api.coord([api.value(0), api.value(2)]);
    const [end = 0] = api.coord([api.value(1), api.value(2)]);
    const left = Math.max(area.x, start);
    const width = Math.max(1, Math.min(area.x + area.width, end) - left);
    if (box === undefined || left > area.x + area.width) {
      return null;
    }
    const known = names.indexOf(box.name);
    const color = colorOf(theme, known < 0 ? mostColors : known);
    const height = Math.max(6, rowHeight - 6);
    const isWide = width > 40 && rowHeight > 16;
    return {
      type: "rect",
      shape: { x: left, y: middle - height / 2, width, height },
      style: {
        fill: color,
        stroke: theme.background,
        lineWidth: 1,
        ...(box.isUnfinished ? { lineDash: [3, 2], stroke: theme.text } : {}),
      },
      emphasis: { style: { stroke: theme.text, lineWidth: 2 } },
      textContent: isWide
        ? {
            style: {
              text: shorten(box.name, 40),
              fill: readableOn(color),
              width: width - 8,
              overflow: "truncate",
              fontSize: theme.size - 2,
            },
          }
        : undefined,
      textConfig: { position: "insideLeft", distance: 4 },
    } as ReturnType<CustomSeriesRenderItem>;
  };
}
