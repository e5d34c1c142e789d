/**
 * One chart: drawn by ECharts on a canvas, navigated with the arrow keys, and described in text.
 *
 * Invariant: the keys show the same details of an item as the pointer, in a line of text below the chart; Enter and a
 * click go to its place. ECharts creates no HTML (`renderMode: "richText"`), since the page allows no inline style.
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
import type { PagePlace } from "../../src/messages/page_types";
import { element } from "../page/dom";
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

/** An item that can be selected: `index` within the series `series`. */
export interface ChartItem extends Keyed {
  readonly words: readonly string[];
  readonly place: PagePlace | null;
  readonly series: number;
  readonly index: number;
}

export interface ChartSpec {
  /** Identifies the chart across redraws of the page. */
  readonly key: string;
  readonly name: string;
  /** A description for screen readers. */
  readonly about: string;
  /** The height in pixels at a width in pixels. */
  height(width: number, theme: Theme): number;
  readonly items: readonly ChartItem[];
  /** Whether only colors distinguish its series, so that high contrast adds patterns. */
  readonly isColored?: boolean;
  /** The options of ECharts at a width in pixels. */
  option(theme: Theme, width: number): EChartsCoreOption;
  /** Keys in addition to those of every chart. */
  keys?(chart: EChartsType): Readonly<Record<string, () => void>>;
}

/** The selection and the zoom of a chart. */
export interface Reading {
  readonly at: Position | null;
  /** In percent of the full range; null for a chart without zoom. */
  readonly zoom: Zoom | null;
  readonly about: string;
}

interface Zoom {
  readonly start: number;
  readonly end: number;
}

export type Chart = ReturnType<typeof createChart>;

export function createChart(spec: ChartSpec, open: ((place: PagePlace) => void) | null) {
  const keys = spec.items.length > 0 ? " Arrow keys move through it" : "";
  const enter =
    open !== null && spec.items.some(({ place }) => place !== null) ? ", Enter goes to the line" : "";
  const canvas = element("div", {
    class: "canvas",
    role: "application", // a screen reader leaves the arrow keys to it
    "aria-roledescription": "chart",
    tabindex: 0,
    "data-key": `chart-${spec.key}`,
    "aria-label": `Chart: ${spec.about}${keys === "" ? "" : `.${keys}${enter}`}. The table below has the same data.`,
  });
  const description = element("p", { class: "muted", role: "status" });
  const root = element("div", { class: "chart" }, canvas, description);
  let chart: EChartsType | null = null;
  let at = -1;
  let zoom: Zoom | null = null;

  /** Draws the chart; call it when the chart is in the document and after a change of theme. */
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
    description.textContent = spec.items[at]?.words.join(". ") ?? "";
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
    // The description stays, so that the page below does not move under a pressed pointer.
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
    reading: (): Reading => ({ at: positionOf(spec.items, at), zoom, about: spec.about }),
    /** Restores the selection and the zoom of the previous drawing; call it before the first `draw`. */
    resume(reading: Reading): void {
      at = reading.at === null ? -1 : indexOf(spec.items, reading.at);
      zoom = reading.about === spec.about ? reading.zoom : null; // of other times it is another part
      tell();
    },
    /** The chart on the theme's background at twice the size; null before the first `draw`. */
    picture: (): HTMLCanvasElement | null => {
      chart?.dispatchAction({ type: "hideTip" });
      return chart?.renderToCanvas({ pixelRatio: 2, backgroundColor: readTheme().background }) ?? null;
    },
    dispose(): void {
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

function common(theme: Theme, { items, isColored = false }: ChartSpec): EChartsCoreOption {
  const byKey = new Map(items.map((item) => [`${item.series} ${item.index}`, item.words]));
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { color: theme.text, fontFamily: theme.font, fontSize: theme.size - 1 },
    aria: {
      enabled: theme.contrast && isColored,
      label: { enabled: false },
      decal: { show: theme.contrast && isColored },
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

export function axis(theme: Theme, name: string, labels: object = {}): Record<string, unknown> {
  return {
    name,
    nameLocation: "middle",
    nameTextStyle: { color: theme.muted },
    axisLabel: { color: theme.text, hideOverlap: true, ...labels },
    axisLine: { show: true, lineStyle: { color: theme.muted } },
    axisTick: { lineStyle: { color: theme.muted } },
    splitLine: { lineStyle: { color: theme.grid } },
  };
}

/** A legend without scrolling, with as many lines as `width` requires. */
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
