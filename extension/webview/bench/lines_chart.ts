/** Time by line, as bars: the lines that take the most, in that order. */

import type { LineTime } from "../../src/bench_messages";
import { axis, type ChartSpec } from "./chart";
import { colourOf, type Theme } from "./theme";
import { lineWords, percent, placeOf, shorten, time } from "./words";

const most = 20;
const barHeight = 24;

export function linesChart(all: readonly LineTime[]): ChartSpec {
  const lines = all.slice(0, most);
  return {
    name: all.length > most ? `Time by line, the first ${most} of ${all.length}` : "Time by line",
    about: `Time by line, ${lines.length} bars, the longest first`,
    height: () => lines.length * barHeight + 56,
    items: lines.map((line, index) => ({ words: lineWords(line), place: line.place, series: 0, index })),
    option(theme, width) {
      const letters = labelLetters(theme, width);
      const labels = lines.map(({ place }) => shorten(`${placeOf(place)}  ${place.text}`, letters));
      const left = Math.max(0, ...labels.map((label) => label.length)) * letterWidth(theme) + 20;
      return {
        grid: { left, right: 120, top: 8, bottom: 44 },
        xAxis: {
          type: "value",
          ...axis(theme, "time of one call"),
          nameGap: 26,
          axisLabel: { color: theme.text, hideOverlap: true, formatter: (us: number) => time(us) },
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: labels,
          axisTick: { show: false },
          axisLine: { lineStyle: { color: theme.muted } },
          axisLabel: { color: theme.text, fontFamily: theme.mono, fontSize: theme.size - 1, interval: 0 },
        },
        series: [
          {
            type: "bar",
            data: lines.map(({ us }) => us),
            barWidth: "64%",
            cursor: "pointer",
            itemStyle: { color: colourOf(theme, 0) },
            emphasis: { itemStyle: { borderColor: theme.text, borderWidth: 2 } },
            label: {
              show: true,
              position: "right",
              color: theme.text,
              formatter: ({ dataIndex }: { dataIndex: number }) => {
                const line = lines[dataIndex];
                return line === undefined ? "" : `${time(line.us)}, ${percent(line.share)}`;
              },
            },
          },
        ],
      };
    },
  };
}

/** At most four tenths of the chart are words. */
function labelLetters(theme: Theme, width: number): number {
  return Math.max(12, Math.floor((width * 0.4) / letterWidth(theme)));
}

/** Of a monospaced font. */
function letterWidth(theme: Theme): number {
  return (theme.size - 1) * 0.61;
}
