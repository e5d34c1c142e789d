/**
 * One chart: drawn by ECharts on a canvas, walked through with the arrow keys, told in words.
 *
 * Invariant: what the pointer shows of an item, the keys show too and a line of text says; Enter and a click go to its
 * place. ECharts makes no HTML here (`renderMode: "richText"`), since the page allows no inline style.
 */

import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  TooltipComponent,
} from "echarts/components";
import { type EChartsCoreOption, type EChartsType, init, use } from "echarts/core";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer } from "echarts/renderers";
import type { Place } from "../../src/bench/messages";
import { element } from "../dom";
import { indexOf, type Keyed, type Position, positionOf } from "./position";
import { readTheme, type Theme } from "./theme";

use([
  AriaComponent,
  BarChart,
  CanvasRenderer,
  CustomChart,
  DataZoomComponent,
  GridComponent,
  LabelLayout,
  LegendComponent,
  LineChart,
  ScatterChart,
  TooltipComponent,
]);

/** What can be pointed at: `index` within the series `series`. */
export interface ChartItem extends Keyed {
  readonly words: readonly string[];
  readonly place: Place | null;
  readonly series: number;
  readonly index: number;
}

export interface ChartSpec {
  /** By what it is found again in the next drawing of the page. */
  readonly key: string;
  readonly name: string;
  /** What it shows, for those who do not see it. */
  readonly about: string;
  /** In pixels, at this width. */
  height(width: number, theme: Theme): number;
  readonly items: readonly ChartItem[];
  /** Whether its colours mean something that nothing else says, so that high contrast adds patterns. */
  readonly isColoured?: boolean;
  /** Width in pixels. */
  option(theme: Theme, width: number): EChartsCoreOption;
  /** Of keys besides those that all charts have. */
  keys?(chart: EChartsType): Readonly<Record<string, () => void>>;
}

/** Where the reader is in a chart. */
export interface Reading {
  readonly at: Position | null;
  /** In percent of all, of a chart that can be zoomed. */
  readonly zoom: Zoom | null;
  readonly about: string;
}

interface Zoom {
  readonly start: number;
  readonly end: number;
}

export interface Chart {
  readonly root: HTMLElement;
  readonly key: string;
  readonly name: string;
  /** Once it is in the document, and whenever the theme is another. */
  draw(): void;
  reading(): Reading;
  /** Go on where the reader was in the last drawing of this chart; to be called before the first `draw`. */
  resume(reading: Reading): void;
  /** On a background of the theme's, at twice the size; null before it was drawn. */
  picture(): HTMLCanvasElement | null;
  dispose(): void;
}

export function createChart(spec: ChartSpec, open: ((place: Place) => void) | null): Chart {
  const keys = spec.items.length > 0 ? " Arrow keys go through it" : "";
  const enter =
    open !== null && spec.items.some(({ place }) => place !== null) ? ", Enter goes to the line" : "";
  const canvas = element("div", {
    class: "canvas",
    role: "application", // a screen reader leaves the arrow keys to it
    "aria-roledescription": "chart",
    tabindex: 0,
    "data-key": `chart-${spec.key}`,
    "aria-label": `Chart: ${spec.about}${keys === "" ? "" : `.${keys}${enter}`}. The table below it says the same.`,
  });
  const told = element("p", { class: "told", role: "status" });
  const root = element("div", { class: "chart" }, canvas, told);
  let chart: EChartsType | null = null;
  let at = -1;
  let zoom: Zoom | null = null;

  function draw(): void {
    const theme = readTheme();
    const size = canvas.clientWidth || 600;
    canvas.style.height = `${spec.height(size, theme)}px`;
    chart ??= begin();
    chart.resize();
    chart.setOption({ ...common(theme, spec), ...spec.option(theme, size) }, { notMerge: true });
    if (zoom !== null) {
      chart.dispatchAction({ type: "dataZoom", ...zoom });
    }
    if (document.activeElement === canvas) {
      mark();
    }
  }

  function begin(): EChartsType {
    const made = init(canvas, null, { renderer: "canvas" });
    made.on("click", (event) => {
      const series = event.componentType === "series" ? event.seriesIndex : 0; // else the name of a bar
      const found = spec.items.findIndex((item) => item.series === series && item.index === event.dataIndex);
      go(found);
    });
    made.on("datazoom", () => {
      zoom = zoomOf(made);
    });
    return made;
  }

  function go(index: number): void {
    const place = spec.items[index]?.place ?? null;
    if (place !== null) {
      open?.(place);
    }
  }

  function step(to: number): void {
    at = Math.max(0, Math.min(spec.items.length - 1, to));
    tell();
    mark();
  }

  function tell(): void {
    told.textContent = spec.items[at]?.words.join(". ") ?? "";
  }

  function mark(): void {
    const item = spec.items[at];
    chart?.dispatchAction({ type: "downplay" });
    if (item !== undefined) {
      const which = { seriesIndex: item.series, dataIndex: item.index };
      chart?.dispatchAction({ type: "highlight", ...which });
      chart?.dispatchAction({ type: "showTip", ...which });
    }
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || chart === null) {
      return;
    }
    const acts: Readonly<Record<string, () => void>> = {
      ArrowDown: () => step(at + 1),
      ArrowRight: () => step(at + 1),
      ArrowUp: () => step(at - 1),
      ArrowLeft: () => step(at - 1),
      Home: () => step(0),
      End: () => step(spec.items.length - 1),
      Enter: () => go(at),
      ...spec.keys?.(chart),
    };
    const act = acts[event.key];
    if (act !== undefined && spec.items.length > 0) {
      event.preventDefault();
      act();
    }
  });
  canvas.addEventListener("focus", () => {
    if (canvas.matches(":focus-visible")) {
      mark(); // the keys go on where they were
    }
  });
  canvas.addEventListener("blur", () => {
    // The words stay: what is below must not move away under a pointer that is pressed.
    chart?.dispatchAction({ type: "downplay" });
    chart?.dispatchAction({ type: "hideTip" });
  });
  let width = 0;
  const sizes = new ResizeObserver(() => {
    if (chart !== null && canvas.clientWidth > 0 && canvas.clientWidth !== width) {
      width = canvas.clientWidth;
      draw(); // places of labels depend on the width
    }
  });
  sizes.observe(canvas);

  return {
    root,
    key: spec.key,
    name: spec.name,
    draw,
    reading: () => ({ at: positionOf(spec.items, at), zoom, about: spec.about }),
    resume(reading) {
      at = reading.at === null ? -1 : indexOf(spec.items, reading.at);
      zoom = reading.about === spec.about ? reading.zoom : null; // of other times it is another part
      tell();
    },
    picture: () => {
      chart?.dispatchAction({ type: "hideTip" });
      return chart?.renderToCanvas({ pixelRatio: 2, backgroundColor: readTheme().background }) ?? null;
    },
    dispose() {
      sizes.disconnect();
      chart?.dispose();
    },
  };
}

export function zoomOf(chart: EChartsType): Zoom {
  const { dataZoom } = chart.getOption() as { dataZoom?: readonly { start?: number; end?: number }[] };
  const { start = 0, end = 100 } = dataZoom?.[0] ?? {};
  return { start, end };
}

function common(theme: Theme, { items, isColoured = false }: ChartSpec): EChartsCoreOption {
  const byKey = new Map(items.map((item) => [`${item.series} ${item.index}`, item.words]));
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { color: theme.text, fontFamily: theme.font, fontSize: theme.size - 1 },
    aria: {
      enabled: theme.contrast && isColoured,
      label: { enabled: false },
      decal: { show: theme.contrast && isColoured },
    },
    tooltip: {
      renderMode: "richText",
      hideDelay: 0,
      confine: true,
      backgroundColor: theme.background,
      borderColor: theme.muted,
      borderWidth: 1,
      padding: 8,
      textStyle: { color: theme.text, fontFamily: theme.font, fontSize: theme.size - 1 },
      formatter: ({ seriesIndex, dataIndex }: { seriesIndex: number; dataIndex: number }) =>
        (byKey.get(`${seriesIndex} ${dataIndex}`) ?? []).map(plain).join("\n"),
    },
  };
}

/** `{name|` begins a style in ECharts' rich text; lines of Python stay as they are. */
function plain(text: string): string {
  return text.replace(/\{(?=\w+\|)/g, "{\u200b");
}

export function axis(theme: Theme, name: string): Record<string, unknown> {
  return {
    name,
    nameLocation: "middle",
    nameTextStyle: { color: theme.muted },
    axisLabel: { color: theme.text, hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: theme.muted } },
    axisTick: { lineStyle: { color: theme.muted } },
    splitLine: { lineStyle: { color: theme.grid } },
  };
}

/** All of it in sight, in as many lines as `width` asks for. */
export function legend(
  theme: Theme,
  width: number,
  names: readonly string[],
): { readonly option: object; readonly height: number } {
  const [mark, gap, line] = [30, 10, 24];
  const size = theme.size - 1;
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  if (pen !== null) {
    pen.font = `${size}px ${theme.font}`;
  }
  let [lines, used] = [1, 0];
  for (const name of names) {
    const needed = mark + (pen?.measureText(name).width ?? name.length * size * 0.56) + gap;
    if (used > 0 && used + needed > width - 24) {
      lines += 1;
      used = 0;
    }
    used += needed;
  }
  const option = {
    data: [...names],
    top: 4,
    left: 10,
    itemGap: gap,
    selectedMode: false,
    textStyle: { color: theme.text, fontSize: size },
  };
  return { option, height: lines * line };
}
