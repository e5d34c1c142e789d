/** Time by line as bars, longest first. */

import type { LineRow, PagePlace } from "../../src/messages/page_types";
import { axis, type ChartSpec } from "../measured/chart";
import { colorOf, type Theme } from "../measured/theme";
import { lineWords, percent, placeOf, shorten, time } from "../measured/words";

const most = 20;
/** From this width on, labels are next to the bars; below it, above them. */
const wide = 900;
const [wideHeight, narrowHeight] = [24, 46];
const foot = 44;

export function linesChart(all: readonly LineRow[]): ChartSpec {
  const lines = all.slice(0, most);
  const one = oneFile(lines);
  const nameOf = ({ place }: LineRow) => `${one === null ? placeOf(place) : place.line + 1}  ${place.text}`;
  return {
    key: "lines",
    name: all.length > most ? `Time by line, the first ${most} of ${all.length}` : "Time by line",
    about: `Time by line, ${lines.length} bars, longest first`,
    height: (width) => lines.length * (width < wide ? narrowHeight : wideHeight) + foot + 12,
    items: lines.map((line, index) => ({
      key: `${line.place.uri} ${line.place.text}`, // its number moves with edits
      words: lineWords(line),
      place: line.place,
      series: 0,
      index,
    })),
    option(theme, width) {
      const isAbove = width < wide;
      const letters = Math.max(12, Math.floor((width * (isAbove ? 0.9 : 0.45)) / letterWidth(theme)));
      const labels = lines.map((line) => shorten(nameOf(line), letters));
      const longest = Math.max(0, ...labels.map((label) => label.length));
      return {
        grid: {
          left: isAbove ? 10 : longest * letterWidth(theme) + 20,
          right: 120,
          top: 8,
          bottom: foot,
        },
        xAxis: {
          type: "value",
          ...axis(theme, one === null ? "time of one call" : `time of one call, lines of ${one}`, {
            formatter: time,
          }),
          nameGap: 26,
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: labels,
          triggerEvent: true, // a click on the label goes to the line, too
          axisTick: { show: false },
          axisLine: { lineStyle: { color: theme.muted } },
          axisLabel: {
            color: theme.text,
            fontFamily: theme.mono,
            fontSize: theme.size - 1,
            interval: 0,
            ...(isAbove ? above : {}),
          },
          z: 5, // words above bars may cross a grid line
        },
        series: [
          {
            type: "bar",
            data: lines.map(({ us }) => us),
            barWidth: isAbove ? 14 : "64%",
            ...(isAbove ? { barCategoryGap: 0 } : {}),
            cursor: "pointer",
            itemStyle: { color: colorOf(theme, 0) },
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

/** Inside the chart, at the upper edge of the bar. */
const above = { inside: true, align: "left", verticalAlign: "bottom", padding: [0, 0, 11, 0], margin: 2 };

/** The path of all lines; null if there are several. */
function oneFile(lines: readonly { readonly place: PagePlace }[]): string | null {
  const [first, ...others] = new Set(lines.map(({ place }) => place.path));
  return first !== undefined && others.length === 0 ? first : null;
}

/** The width of a character in the monospaced font. */
function letterWidth(theme: Theme): number {
  return (theme.size - 1) * 0.61;
}
