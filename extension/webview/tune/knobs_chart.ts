/** What each knob could gain at most, as bars: those that were tried, then those that were not. */

import type { KnobRow } from "../../src/messages/page_types";
import { axis, type ChartSpec, legend } from "../measured/chart";
import { colorOf } from "../measured/theme";
import { shorten, speedup, time } from "../measured/words";
import { shownKnobs } from "./shown";

const [barHeight, foot, letters] = [26, 44, 34];
const names = ["tried", "not tried"] as const;

export function knobsChart(all: readonly KnobRow[]): ChartSpec {
  const knobs = shownKnobs(all);
  return {
    key: "knobs",
    name: "What each knob could gain at most",
    about: `Speed-up over default that each knob could reach at most, ${knobs.length} bars`,
    height: (width, theme) => legend(theme, width, names).height + knobs.length * barHeight + foot + 12,
    isColored: true,
    items: knobs.map((knob, index) => ({
      key: knob.name,
      words: knobWords(knob),
      place: null,
      series: knob.tried ? 0 : 1,
      index,
    })),
    option(theme, width) {
      const head = legend(theme, width, names);
      const labels = knobs.map(({ label }) => shorten(label, letters));
      const longest = Math.max(0, ...labels.map((label) => label.length));
      return {
        grid: { left: longest * (theme.size - 1) * 0.58 + 24, right: 90, top: head.height + 8, bottom: foot },
        legend: head.option,
        xAxis: {
          type: "value",
          min: 1,
          ...axis(theme, "times as fast as default, at most", {
            formatter: (value: number) => speedup(value),
          }),
          nameGap: 26,
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: labels,
          axisTick: { show: false },
          axisLine: { lineStyle: { color: theme.muted } },
          axisLabel: { color: theme.text, interval: 0 },
        },
        series: names.map((name, series) => ({
          type: "bar",
          name,
          stack: "all",
          barWidth: "62%",
          // One value for each bar, so that an index is that of the knob in either series.
          data: knobs.map(({ ceiling, tried }) => (tried === (series === 0) ? ceiling : null)),
          itemStyle: { color: colorOf(theme, series === 0 ? 0 : 9) },
          emphasis: { itemStyle: { borderColor: theme.text, borderWidth: 2 } },
          label: {
            show: true,
            position: "right",
            color: theme.text,
            formatter: ({ dataIndex }: { dataIndex: number }) => speedup(knobs[dataIndex]?.ceiling ?? null),
          },
        })),
      };
    },
  };
}

function knobWords({ label, meaning, ceiling, bound, bound_us, tried, why }: KnobRow): readonly string[] {
  return [
    label,
    ...(meaning === "" ? [] : [meaning]),
    `At most ${speedup(ceiling)} over default`,
    bound_us === null ? bound : `${time(bound_us)} of a call: ${bound}`,
    ...(tried ? [] : ["Not tried"]),
    ...(why === "" ? [] : [shorten(why, 90)]),
  ];
}
