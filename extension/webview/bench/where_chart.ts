/** Where the wall time goes: one bar with segments for kernels and for each kind of gap. */

import type { CustomSeriesRenderItem } from "echarts";
import type { WallPart } from "../../src/messages/page_types";
import { axis, type ChartSpec, legend } from "../measured/chart";
import { colorOf, readableOn, type Theme } from "../measured/theme";
import { partWords, percent, sentence, time } from "../measured/words";
import { kindWords } from "./explained";
import { colorIndex, kindsOf, type Segment, segmentsOf } from "./where";

const [barHeight, axisHeight] = [44, 52];
/** A kind below this share of the total is not in the legend. */
const seen = 0.005;

export function whereChart(parts: readonly WallPart[]): ChartSpec {
  const segments = segmentsOf(parts);
  const kinds = kindsOf(parts).map((kind) => {
    const ofKind = parts.filter((part) => part.kind === kind);
    const share = ofKind.reduce((sum, part) => sum + part.share, 0);
    return {
      name: `${ofKind[0]?.label ?? kind} ${percent(share)}`,
      share,
      color: colorIndex(kind),
      segments: segments.filter((segment) => segment.kind === kind),
    };
  });
  // The tooltip and the table name the segments that are too narrow for the legend.
  const names = kinds.filter(({ share }) => share >= seen).map(({ name }) => name);
  const total = segments.at(-1)?.end ?? 0;
  return {
    key: "where",
    name: "Where the wall time goes",
    about: `Where the wall time of ${time(total)} goes, ${segments.length} segments`,
    height: (width, theme) => legend(theme, width, names).height + 8 + barHeight + axisHeight,
    isColored: true,
    items: kinds.flatMap((kind, series) =>
      kind.segments.map((segment, index) => ({
        key: keyOf(segment),
        words: wordsOf(segment, total),
        place: single(segment)?.place ?? null,
        series,
        index,
      })),
    ),
    option(theme, width) {
      const words = legend(theme, width, names);
      return {
        grid: { left: 16, right: 24, top: words.height + 8, bottom: axisHeight },
        legend: words.option,
        xAxis: {
          type: "value",
          max: total,
          ...axis(theme, "time of one profiled call", { showMaxLabel: false, formatter: time }),
          nameGap: 28,
          splitLine: { show: false },
        },
        yAxis: { type: "category", data: [""], show: false },
        series: kinds.map((kind) => {
          const color = colorOf(theme, kind.color);
          return {
            type: "custom",
            name: kind.name,
            itemStyle: { color },
            cursor: "pointer",
            encode: { x: [0, 1] },
            data: kind.segments.map(({ start, end }) => [start, end]),
            renderItem: rectangles(kind.segments, color, theme),
          };
        }),
      };
    },
  };
}

function rectangles(segments: readonly Segment[], color: string, theme: Theme): CustomSeriesRenderItem {
  return (params, api) => {
    const [left = 0, middle = 0] = api.coord([api.value(0), 0]);
    const [right = 0] = api.coord([api.value(1), 0]);
    const segment = segments[params.dataIndex];
    const width = Math.max(1, right - left);
    const words = {
      text: segment === undefined ? "" : nameOf(segment),
      fill: readableOn(color),
      ...(theme.contrast ? { backgroundColor: color, padding: 2 } : {}),
      width: width - 8,
      overflow: "truncate",
      ellipsis: "\u2026",
      fontSize: theme.size - 1,
    };
    return {
      type: "rect",
      shape: { x: left, y: middle - barHeight / 2, width, height: barHeight },
      style: { fill: color, decal: api.visual("decal"), stroke: theme.background, lineWidth: 1 },
      emphasis: { style: { stroke: theme.text, lineWidth: 2 } },
      textContent: width < 40 ? undefined : { style: words },
      textConfig: { position: "inside" },
    } as ReturnType<CustomSeriesRenderItem>;
  };
}

/** The part of a segment that is not combined with others. */
function single({ parts }: Segment): WallPart | undefined {
  return parts.length === 1 ? parts[0] : undefined;
}

function nameOf(segment: Segment): string {
  const part = single(segment);
  return part ? part.what || part.label : `${segment.parts.length} small parts`;
}

function wordsOf(segment: Segment, total: number): readonly string[] {
  const { parts, kind, start, end } = segment;
  const about = sentence(kindWords(kind), []);
  const meaning = about === "" ? [] : [about];
  const part = single(segment);
  if (part !== undefined) {
    return [...partWords(part), ...meaning];
  }
  const label = `${parts[0]?.label ?? ""}, ${parts.length} small parts`;
  return [label, `${time(end - start)}, ${percent((end - start) / total)} of the wall time`, ...meaning];
}

function keyOf(segment: Segment): string {
  const { what = "", place = null } = single(segment) ?? {};
  return [segment.kind, what, place?.uri ?? "", place?.text ?? ""].join(" ");
}
