/**
 * The page's tables: they contain everything that the charts show, with buttons that go to lines.
 *
 * Invariant: built from text nodes only; a column of numbers has a heading, and each cell has its unit.
 */

import type {
  ConfigurationChange,
  ConfigurationRow,
  KernelRow,
  LineChange,
  LineRow,
  MeasuredPage,
  ProfileDetails,
  RooflinePoint,
  RunComparison,
  StepRow,
  TensorError,
  WallPart,
} from "../../src/messages/page_types";
import { type Cell, type Column, type Open, placeCell, sentence, small, table } from "../measured/table";
import * as words from "../measured/words";
import { element } from "../page/dom";
import { configurationWords, kernelKind, kernelName, kindWords } from "./explained";

export function configurationsTable(page: MeasuredPage, open: Open): HTMLElement {
  const rows = page.configurations;
  const caption = "Configurations: times of one call";
  return table<ConfigurationRow>(
    caption,
    [
      { title: "Configuration", cell: nameCell },
      { title: "Time of one call", isNumber: true, cell: (row) => timeCell(row, page) },
      { title: "Speed-up", isNumber: true, cell: (row) => words.speedup(row.speedup) },
      { title: "Results", cell: (row) => accuracyCell(row, open) },
      { title: "First call", isNumber: true, cell: firstCell },
      { title: "Peak memory", isNumber: true, cell: memoryCell },
      {
        title: "Graph breaks",
        isNumber: true,
        isKnown: ({ graph_breaks }) => graph_breaks !== null,
        cell: ({ graph_breaks }) => words.number(graph_breaks),
      },
      {
        title: "Compiles",
        isNumber: true,
        isKnown: ({ compiles }) => compiles !== null,
        cell: compilesCell,
      },
    ],
    rows,
    ({ failure }) => (failure === null ? null : element("span", { class: "failure" }, `Failed: ${failure}`)),
  );
}

function nameCell({ name }: ConfigurationRow): Cell {
  return [
    element("span", { class: "place" }, words.configurationName(name)),
    sentence(configurationWords(name)),
  ];
}

function timeCell(row: ConfigurationRow, page: MeasuredPage): Cell {
  const instead = words.withoutTime(row, page);
  const clock = row.clock === null ? "" : `${row.clock} clock, ${words.number(row.calls)} calls`;
  const host =
    row.clock === "device" && row.wall_us !== null ? `${words.time(row.wall_us)} by the host's clock` : "";
  return [
    instead === null ? words.withSpread(row) : element("em", {}, instead),
    ...(row.unsteady ? [element("strong", { class: "doubt" }, " unsteady")] : []),
    ...[clock, host].map(small),
    ...row.notes.map(sentence),
  ];
}

/** The first call compiles; the second may recompile or record a CUDA graph. */
function firstCell({ first_us, second_us }: ConfigurationRow): Cell {
  return [words.time(first_us), small(second_us === null ? "" : `second ${words.time(second_us)}`)];
}

function memoryCell({ peak_bytes, own_bytes, memory }: ConfigurationRow): Cell {
  return [
    words.bytes(peak_bytes),
    small(own_bytes === null ? "" : `${words.bytes(own_bytes)} by the call`),
    small(memory?.text ?? ""),
  ];
}

function compilesCell({ compiles, recompiles }: ConfigurationRow): Cell {
  return [
    words.number(compiles),
    small(
      recompiles
        ? `${words.number(recompiles)} ${recompiles === 1 ? "recompilation" : "recompilations"}`
        : "",
    ),
  ];
}

function accuracyCell(row: ConfigurationRow, open: Open): Cell {
  const failed = row.accuracy?.passed === false;
  const [verdict, why] = words.accuracy(row);
  const place = row.accuracy?.place ?? null;
  return [
    element("span", failed ? { class: "failure" } : {}, verdict),
    sentence(why),
    ...(place === null ? [] : [placeCell(place, open)]),
  ];
}

export function tensorsTable(rows: readonly ConfigurationRow[]): HTMLElement | null {
  const all = rows.flatMap(({ name, accuracy }) =>
    (accuracy?.tensors ?? []).map((tensor) => ({ name, tensor })),
  );
  const exact = (value: number | null) => (value === null ? words.unknown : value.toPrecision(6));
  const error = (value: number | null) => (value === null ? words.unknown : value.toExponential(2));
  type Entry = { readonly name: string; readonly tensor: TensorError };
  return all.length === 0
    ? null
    : table<Entry>(
        "Results compared with eager, worst tensors first",
        [
          { title: "Configuration", cell: ({ name }) => words.configurationName(name) },
          { title: "Tensor", cell: ({ tensor }) => tensor.what },
          { title: "Cosine similarity", isNumber: true, cell: ({ tensor }) => exact(tensor.cosine) },
          { title: "Largest absolute error", isNumber: true, cell: ({ tensor }) => error(tensor.absolute) },
          { title: "Largest relative error", isNumber: true, cell: ({ tensor }) => error(tensor.relative) },
          { title: "", cell: ({ tensor }) => (tensor.passed ? "passed" : "FAILED") },
        ],
        all,
      );
}

export function linesTable(lines: readonly LineRow[], open: Open): HTMLElement {
  return table<LineRow>(
    "Time by line",
    [
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Share of kernel time", isNumber: true, cell: ({ share }) => words.percent(share) },
      { title: "Kernels", cell: ({ kernels }) => sentence(kernels.map(kernelName).join(", ")) },
    ],
    lines,
  );
}

export function whereTable(parts: readonly WallPart[], open: Open): HTMLElement {
  const isFirst = (part: WallPart) => parts.find(({ kind }) => kind === part.kind) === part;
  return table<WallPart>(
    "Where the wall time goes",
    [
      { title: "What", cell: (part) => [part.label, sentence(isFirst(part) ? kindWords(part.kind) : "")] },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Share", isNumber: true, cell: ({ share }) => words.percent(share) },
      {
        title: "Line",
        isKnown: ({ place }) => place !== null,
        cell: ({ place }) => placeCell(place, open),
      },
      {
        title: "In",
        isKnown: ({ what }) => what !== "",
        cell: ({ what }) => what,
      },
    ],
    parts,
  );
}

export function kernelsTable(kernels: readonly KernelRow[], open: Open): HTMLElement {
  const estimate = (us: number | null) => (us === null ? words.unknown : `~${words.time(us)}`);
  return table<KernelRow>(
    "Kernels of one call, longest first",
    [
      { title: "Kernel", cell: ({ name }) => kernelCell(name) },
      { title: "Time (quartiles)", isNumber: true, cell: (row) => words.kernelTime(row) },
      { title: "Share", isNumber: true, cell: ({ share }) => words.percent(share) },
      { title: "Line", cell: ({ place, joined }) => (joined ? placeCell(place, open) : "unknown") },
      { title: "Launches", isNumber: true, cell: ({ count }) => words.number(count) },
      { title: "Kind", cell: ({ kind }) => kernelKind(kind) },
      { title: "Phase", isKnown: ({ phase }) => phase !== "", cell: ({ phase }) => phase },
      known("Estimate", ({ estimate_us }) => estimate_us, estimate),
      known("Isolated", ({ isolated_us }) => isolated_us, words.time),
      known("Percent of limit", ({ of_limit }) => of_limit, words.percent),
      known("GB/s", ({ bandwidth_gbs }) => bandwidth_gbs, words.number),
      known("TFLOP/s", ({ tflops }) => tflops, words.number),
    ],
    kernels,
  );
}

function kernelCell(name: string): Node {
  return element("span", { class: "kernel", title: name }, kernelName(name));
}

/** A column of numbers that is omitted if all are unknown. */
function known<T>(
  title: string,
  of: (row: T) => number | null,
  say: (value: number | null) => string,
): Column<T> {
  return { title, isNumber: true, isKnown: (row) => of(row) !== null, cell: (row) => say(of(row)) };
}

export function rooflineTable({ roofline }: ProfileDetails, open: Open): HTMLElement {
  return table<RooflinePoint>(
    "Roofline",
    [
      { title: "Kernel", cell: ({ name }) => kernelCell(name) },
      { title: "FLOP per byte", isNumber: true, cell: ({ intensity }) => words.number(intensity) },
      { title: "TFLOP/s", isNumber: true, cell: ({ tflops }) => words.number(tflops) },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
    ],
    roofline?.points ?? [],
  );
}

export function stepsTable(steps: readonly StepRow[], open: Open): HTMLElement {
  return table<StepRow>(
    "Phases of the cold compile, in order",
    [
      { title: "Phase", cell: ({ name, depth }) => `${"\u00a0\u00a0".repeat(depth)}${name}` },
      { title: "Start", isNumber: true, cell: ({ start_us }) => words.time(start_us) },
      { title: "Time", isNumber: true, cell: ({ us }) => words.time(us) },
      { title: "Line", cell: ({ place }) => placeCell(place, open) },
      { title: "Frame", cell: ({ compile_id }) => compile_id ?? "" },
      { title: "Source", cell: ({ sampled }) => (sampled ? "sampling" : "torch") },
    ],
    steps.toSorted((left, right) => left.start_us - right.start_us || left.depth - right.depth),
  );
}

export function comparisonTables(
  { label, configurations, lines }: RunComparison,
  open: Open,
): readonly HTMLElement[] {
  const compared = <T extends words.Pair>(what: string, first: Column<T>, rows: readonly T[]) => {
    const numbers: readonly Column<T>[] = [
      { title: "Before", isNumber: true, cell: ({ before_us }) => words.time(before_us) },
      { title: "Now", isNumber: true, cell: ({ after_us }) => words.time(after_us) },
      { title: "Change", isNumber: true, cell: words.changeOf },
    ];
    return rows.length === 0 ? [] : [table<T>(`${what} compared with ${label}`, [first, ...numbers], rows)];
  };
  const name: Column<ConfigurationChange> = {
    title: "Configuration",
    cell: (row) => words.configurationName(row.name),
  };
  const line: Column<LineChange> = { title: "Line", cell: ({ place }) => placeCell(place, open) };
  return [...compared("Configurations", name, configurations), ...compared("Lines", line, lines)];
}
