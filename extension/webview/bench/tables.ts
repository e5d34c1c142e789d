/**
 * The page's tables: everything that a chart shows stands in one of them too, with buttons that go to lines.
 *
 * Invariant: built of text nodes alone; a number's column is told by its heading, with its unit in each cell.
 */

import type {
  Comparison,
  Details,
  KernelRow,
  LineTime,
  Place,
  RooflinePoint,
  Row,
  Step,
  TensorRow,
  WallPart,
} from "../../src/bench_messages";
import { button, element } from "../dom";
import * as words from "./words";

/** Null where there are no lines to go to: a page that stands alone. */
export type Open = ((place: Place) => void) | null;

type Cell = string | Node | readonly (string | Node)[];

interface Column<T> {
  readonly title: string;
  readonly isNumber?: boolean;
  readonly cell: (row: T) => Cell;
}

function table<T>(caption: string, columns: readonly Column<T>[], rows: readonly T[]): HTMLElement {
  const heads = columns.map(({ title, isNumber }) =>
    element("th", { scope: "col", ...(isNumber ? { class: "number" } : {}) }, title),
  );
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      ...columns.map(({ cell, isNumber }, index) => {
        const made = cell(row);
        const parts = Array.isArray(made) ? (made as readonly (string | Node)[]) : [made as string | Node];
        const attributes = isNumber ? { class: "number" } : {};
        return index === 0
          ? element("th", { scope: "row", ...attributes }, ...parts)
          : element("td", attributes, ...parts);
      }),
    ),
  );
  const made = element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, made);
}

export function placeCell(place: Place | null, open: Open): Node | string {
  if (place === null) {
    return words.unknown;
  }
  const name = words.placeOf(place);
  const code = element("code", { title: place.text }, place.text);
  if (open === null) {
    return element("span", { class: "place" }, name, " ", code);
  }
  const link = button(name, `Go to ${name}`, () => open(place));
  link.classList.add("link");
  return element("span", { class: "place" }, link, " ", code);
}

export function configurationsTable(rows: readonly Row[], open: Open): HTMLElement {
  const caption = "Configurations, times of one call";
  return table<Row>(
    caption,
    [
      { title: "Configuration", cell: ({ name }) => element("span", { class: "place" }, name) },
      { title: "Time", isNumber: true, cell: timeCell },
      { title: "Speed-up", isNumber: true, cell: (row) => words.speedup(row.speedup) },
      { title: "First call", isNumber: true, cell: ({ first_us }) => words.time(first_us) },
      { title: "Second call", isNumber: true, cell: ({ second_us }) => words.time(second_us) },
      { title: "Peak memory", isNumber: true, cell: ({ peak_bytes }) => words.bytes(peak_bytes) },
      { title: "Of it, the call's own", isNumber: true, cell: ({ own_bytes }) => words.bytes(own_bytes) },
      { title: "Accuracy", cell: (row) => accuracyCell(row, open) },
      { title: "Graph breaks", isNumber: true, cell: ({ graph_breaks }) => words.number(graph_breaks) },
      { title: "Compiles (again)", isNumber: true, cell: compilesCell },
    ],
    rows,
  );
}

function timeCell(row: Row): Cell {
  if (row.failure !== null) {
    return element("span", { class: "failure wide" }, `Failed: ${row.failure}`);
  }
  const clock = row.clock === null ? "" : `${row.clock} clock, ${words.number(row.calls)} calls`;
  const host =
    row.clock === "device" && row.wall_us !== null ? `, ${words.time(row.wall_us)} by the host's` : "";
  return [
    words.withSpread(row),
    ...(row.unsteady ? [element("strong", { class: "doubt" }, " unsteady")] : []),
    element("div", { class: "small" }, `${clock}${host}`),
    ...row.notes.map((note) => element("div", { class: "small wide" }, note)),
  ];
}

function accuracyCell(row: Row, open: Open): Cell {
  const failed = row.accuracy?.passed === false;
  const text = element("div", { class: failed ? "sentence failure" : "sentence" }, words.accuracy(row));
  const place = row.accuracy?.place ?? null;
  return place === null ? text : [text, " ", placeCell(place, open)];
}

function compilesCell({ compiles, recompiles }: Row): string {
  return recompiles === null
    ? words.number(compiles)
    : `${words.number(compiles)} (${words.number(recompiles)})`;
}

export function tensorsTable(rows: readonly Row[]): HTMLElement | null {
  const all = rows.flatMap(({ name, accuracy }) =>
    (accuracy?.tensors ?? []).map((tensor) => ({ name, tensor })),
  );
  const exact = (value: number | null) => (value === null ? words.unknown : value.toPrecision(6));
  const error = (value: number | null) => (value === null ? words.unknown : value.toExponential(2));
  type Entry = { readonly name: string; readonly tensor: TensorRow };
  return all.length === 0
    ? null
    : table<Entry>(
        "Results against eager's, the worst tensors first",
        [
          { title: "Configuration", cell: ({ name }) => name },
          { title: "Tensor", cell: ({ tensor }) => tensor.what },
          { title: "Cosine similarity", isNumber: true, cell: ({ tensor }) => exact(tensor.cosine) },
          { title: "Largest absolute error", isNumber: true, cell: ({ tensor }) => error(tensor.absolute) },
          { title: "Largest relative error", isNumber: true, cell: ({ tensor }) => error(tensor.relative) },
          { title: "", cell: ({ tensor }) => (tensor.passed ? "passed" : "FAILED") },
        ],
        all,
      );
}

export function linesTable(lines: readonly LineTime[], open: Open): HTMLElement {
  return table<LineTime>(
    "Time by line",
    [
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Of the kernels' time", isNumber: true, cell: ({ share }) => words.percent(share) },
      { title: "Kernels", cell: ({ kernels }) => kernels.join(", ") },
    ],
    lines,
  );
}

export function whereTable(parts: readonly WallPart[], open: Open): HTMLElement {
  return table<WallPart>(
    "Where the wall time goes",
    [
      { title: "What", cell: ({ label }) => label },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Share", isNumber: true, cell: ({ share }) => words.percent(share) },
      { title: "By", cell: ({ what }) => what },
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
    ],
    parts,
  );
}

export function kernelsTable(kernels: readonly KernelRow[], open: Open): HTMLElement {
  const estimate = (us: number | null) => (us === null ? words.unknown : `~${words.time(us)}`);
  const anyPhase = kernels.some(({ phase }) => phase !== "");
  return table<KernelRow>(
    "Kernels of one call, the longest first",
    [
      { title: "Kernel", cell: ({ name, joined }) => (joined ? name : `${name} (not joined to a line)`) },
      { title: "Kind", cell: ({ kind }) => kind },
      ...(anyPhase ? [{ title: "Phase", cell: ({ phase }: KernelRow) => phase }] : []),
      { title: "Time (quartiles)", isNumber: true, cell: (row) => words.kernelTime(row) },
      { title: "Share", isNumber: true, cell: ({ share }) => words.percent(share) },
      { title: "Launches", isNumber: true, cell: ({ count }) => words.number(count) },
      { title: "Estimate", isNumber: true, cell: ({ estimate_us }) => estimate(estimate_us) },
      { title: "Alone", isNumber: true, cell: ({ isolated_us }) => words.time(isolated_us) },
      { title: "GB/s", isNumber: true, cell: ({ bandwidth_gbs }) => words.number(bandwidth_gbs) },
      { title: "TFLOP/s", isNumber: true, cell: ({ tflops }) => words.number(tflops) },
      { title: "Of the limit", isNumber: true, cell: ({ of_limit }) => words.percent(of_limit) },
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
    ],
    kernels,
  );
}

export function rooflineTable({ roofline }: Details, open: Open): HTMLElement {
  return table<RooflinePoint>(
    "Roofline",
    [
      { title: "Kernel", cell: ({ name }) => name },
      { title: "Operations a byte", isNumber: true, cell: ({ intensity }) => words.number(intensity) },
      { title: "TFLOP/s", isNumber: true, cell: ({ tflops }) => words.number(tflops) },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
    ],
    roofline?.points ?? [],
  );
}

export function stepsTable(steps: readonly Step[], open: Open): HTMLElement {
  return table<Step>(
    "Phases of the cold compile, in order",
    [
      { title: "Phase", cell: ({ name, depth }) => `${"\u00a0\u00a0".repeat(depth)}${name}` },
      { title: "Since the start", isNumber: true, cell: ({ start_us }) => words.time(start_us) },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Frame", cell: ({ compile_id }) => compile_id ?? "" },
      { title: "Seen by", cell: ({ sampled }) => (sampled ? "samples" : "torch") },
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
    ],
    steps.toSorted((left, right) => left.start_us - right.start_us || left.depth - right.depth),
  );
}

export function comparisonTables(
  { label, configurations, lines }: Comparison,
  open: Open,
): readonly HTMLElement[] {
  const numbers = <
    T extends { before_us: number | null; after_us: number | null; change: number | null },
  >() =>
    [
      { title: "Before", isNumber: true, cell: ({ before_us }: T) => words.time(before_us) },
      { title: "Now", isNumber: true, cell: ({ after_us }: T) => words.time(after_us) },
      { title: "Change", isNumber: true, cell: (row: T) => words.changeOf(row) },
    ] as const;
  type Configuration = Comparison["configurations"][number];
  type Line = Comparison["lines"][number];
  return [
    table<Configuration>(
      `Configurations against ${label}`,
      [{ title: "Configuration", cell: ({ name }) => name }, ...numbers<Configuration>()],
      configurations,
    ),
    ...(lines.length === 0
      ? []
      : [
          table<Line>(
            `Lines against ${label}`,
            [{ title: "Line", cell: ({ place }) => placeCell(place, open) }, ...numbers<Line>()],
            lines,
          ),
        ]),
  ];
}
