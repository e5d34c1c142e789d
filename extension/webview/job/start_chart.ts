/** The start of a program by line: one bar for each line that imports and each function, its stages in colors. */

import type { JobStart } from "../../src/messages/page_types";
import { axis, type ChartSpec, legend } from "../measured/chart";
import { colorOf, type Theme } from "../measured/theme";
import { shorten } from "../measured/words";
import { lineName, seconds, secondsOf, stagesOf } from "./shown";

const most = 12;
const barHeight = 26;
const foot = 44;

/** ` in 2 compiles`; empty for imports. */
function inCompiles(compiles: number): string {
  return compiles === 0 ? "" : ` in ${compiles} compile${compiles === 1 ? "" : "s"}`;
}

export function startChart({ lines: all, process }: JobStart): ChartSpec {
  const lines = all.filter((line) => line.seconds > 0).slice(0, most);
  const stages = stagesOf(lines);
  const head = (width: number, theme: Theme) => legend(theme, width, stages).height + 8;
  return {
    key: "start",
    name: "The start by line",
    about: `The start of ${process} by line, ${lines.length} bars, longest first`,
    isColored: true,
    height: (width, theme) => head(width, theme) + lines.length * barHeight + foot,
    items: lines.map((line, index) => ({
      key: `${line.at?.shown ?? ""} ${line.function}`,
      words: [
        lineName(line),
        `${seconds(line.seconds)}${inCompiles(line.compiles)}`,
        ...(line.with_nested === null ? [] : [`${seconds(line.with_nested)} with what it imports`]),
        ...line.stages.map((stage) => `${stage.stage} ${seconds(stage.seconds)}`),
      ],
      place: line.at?.place ?? null,
      series: 0,
      index,
    })),
    option(theme, width) {
      const letter = (theme.size - 1) * 0.61;
      const letters = Math.max(12, Math.floor((width * 0.36) / letter));
      const labels = lines.map((line) => shorten(lineName(line), letters));
      const longest = Math.max(0, ...labels.map((label) => label.length));
      return {
        grid: { left: longest * letter + 20, right: 90, top: head(width, theme), bottom: foot },
        legend: legend(theme, width, stages).option,
        xAxis: {
          type: "value",
          ...axis(theme, "time", { formatter: (value: number) => seconds(value) }),
          nameGap: 26,
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: labels,
          triggerEvent: true, // a click on the label goes to the line, too
          axisTick: { show: false },
          axisLine: { lineStyle: { color: theme.muted } },
          axisLabel: { color: theme.text, fontFamily: theme.mono, fontSize: theme.size - 1, interval: 0 },
        },
        series: stages.map((stage, index) => ({
          type: "bar",
          name: stage,
          stack: "start",
          data: lines.map((line) => secondsOf(line, stage)),
          barWidth: "62%",
          cursor: "pointer",
          itemStyle: { color: colorOf(theme, index) },
          emphasis: { itemStyle: { borderColor: theme.text, borderWidth: 2 } },
          label: {
            show: index === stages.length - 1,
            position: "right",
            color: theme.text,
            formatter: ({ dataIndex }: { dataIndex: number }) => seconds(lines[dataIndex]?.seconds ?? null),
          },
        })),
      };
    },
  };
}
