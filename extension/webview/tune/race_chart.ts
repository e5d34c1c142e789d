/** The race: the time of each round of each candidate, over the time of the search. */

import type { RaceSeries } from "../../src/messages/page_types";
import { axis, type ChartSpec, legend } from "../measured/chart";
import { colorOf } from "../measured/theme";
import { time } from "../measured/words";
import { namesOf, roundsOf, seconds } from "./shown";

const [plot, foot] = [260, 48];

export function raceChart(race: readonly RaceSeries[]): ChartSpec {
  const series = race.map((one) => ({ ...one, rounds: roundsOf(one) }));
  const names = namesOf(race);
  const count = series.reduce((sum, { rounds }) => sum + rounds.length, 0);
  return {
    key: "race",
    name: "The race over time",
    about: `Time of a call in each round of the race, ${series.length} candidates, ${count} rounds`,
    height: (width, theme) => legend(theme, width, names).height + plot + foot,
    isColored: true,
    items: series.flatMap(({ name, label, rounds }, index) =>
      rounds.map((round, number) => ({
        key: name,
        words: [
          label,
          `${time(round.us)} a call`,
          `stage ${round.stage}, ${seconds(round.at)} after the start`,
        ],
        place: null,
        series: index,
        index: number,
      })),
    ),
    option(theme, width) {
      const head = legend(theme, width, names);
      return {
        grid: { left: 78, right: 24, top: head.height + 12, bottom: foot },
        legend: head.option,
        xAxis: {
          type: "value",
          scale: true,
          ...axis(theme, "time since the search began", { formatter: seconds }),
          nameGap: 28,
        },
        yAxis: {
          type: "value",
          scale: true,
          ...axis(theme, "time of a call", { formatter: time }),
          nameGap: 60,
        },
        series: series.map(({ rounds }, index) => ({
          type: "line",
          name: names[index],
          data: rounds.map(({ at, us }) => [at, us]),
          symbol: symbols[index % symbols.length],
          symbolSize: 7,
          showSymbol: true,
          lineStyle: { width: 1 },
          itemStyle: { color: colorOf(theme, index) },
          emphasis: { itemStyle: { borderColor: theme.text, borderWidth: 2 } },
        })),
      };
    },
  };
}

/** Not by color alone. */
const symbols = [
  "circle",
  "rect",
  "triangle",
  "diamond",
  "emptyCircle",
  "emptyRect",
  "emptyTriangle",
] as const;
