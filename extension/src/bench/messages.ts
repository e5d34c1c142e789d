/**
 * The data of a benchmark's page, as the server sends it, and the messages between the page and the extension.
 *
 * Invariant: types only, so that the bundle of the page contains nothing of VS Code. `null` is unknown. Times are those
 * of one call, in microseconds.
 */

import type { DrawMessage, ReadyMessage } from "../webview_messages";

export interface BenchTarget {
  readonly uri: string;
  /** Empty for the file's `__main__` block. */
  readonly target: string;
}

/** Runs of a target by their ids in its history; null for the newest run, and for no comparison. */
export interface BenchShown extends BenchTarget {
  readonly run: string | null;
  readonly with: string | null;
}

export interface Place {
  readonly uri: string;
  /** The path as the page shows it. */
  readonly path: string;
  /** 0-based. */
  readonly line: number;
  /** The source of the line. */
  readonly text: string;
}

export interface TensorRow {
  readonly what: string;
  readonly cosine: number | null;
  readonly absolute: number | null;
  readonly relative: number | null;
  readonly passed: boolean;
}

export interface AccuracyCell {
  /** Null if results were not compared; `text` says why. */
  readonly passed: boolean | null;
  readonly text: string;
  readonly tensors: readonly TensorRow[];
  readonly place: Place | null;
}

/** One configuration. */
export interface Row {
  readonly name: string;
  readonly failure: string | null;
  /** Eager's median divided by this configuration's, both by `clock`. */
  readonly speedup: number | null;
  readonly us: number | null;
  /** 0.01 is ± 1%. */
  readonly spread: number | null;
  readonly unsteady: boolean;
  readonly clock: "wall" | "device" | null;
  readonly wall_us: number | null;
  readonly first_us: number | null;
  readonly second_us: number | null;
  readonly calls: number;
  readonly peak_bytes: number | null;
  readonly own_bytes: number | null;
  readonly accuracy: AccuracyCell | null;
  readonly graph_breaks: number | null;
  readonly compiles: number | null;
  readonly recompiles: number | null;
  readonly notes: readonly string[];
}

export interface LineTime {
  readonly place: Place;
  readonly us: number;
  /** Share of the time of all lines, 0 to 1. */
  readonly share: number;
  readonly kernels: readonly string[];
}

/** A part of the wall time: a kernel or a gap. */
export interface WallPart {
  /**
   * Kernels: `kernel`, `kernel_eager`, `kernel_copy`. Gaps: `launch`, `guards`, `sync` and so on. Backends other than
   * Inductor: `kernel_backend`, `backend`. Otherwise `unknown`.
   */
  readonly kind: string;
  /** The kind as text. */
  readonly label: string;
  readonly us: number;
  readonly share: number;
  readonly place: Place | null;
  readonly what: string;
}

export interface KernelRow {
  readonly name: string;
  readonly kind: string;
  readonly us: number;
  readonly low_us: number;
  readonly high_us: number;
  readonly share: number;
  readonly count: number;
  readonly estimate_us: number | null;
  readonly isolated_us: number | null;
  readonly bandwidth_gbs: number | null;
  readonly tflops: number | null;
  /** The achieved share of the device's limit, 0 to 1. */
  readonly of_limit: number | null;
  readonly joined: boolean;
  readonly place: Place | null;
  readonly phase: string;
}

export interface RooflinePoint {
  readonly name: string;
  /** FLOP per byte. */
  readonly intensity: number;
  readonly tflops: number;
  readonly us: number;
  readonly place: Place | null;
}

export interface Roofline {
  readonly points: readonly RooflinePoint[];
  readonly bandwidth_gbs: number;
  readonly peaks: readonly { readonly dtype: string; readonly tflops: number }[];
}

/** A phase of the cold compile. Phases are nested. */
export interface Step {
  readonly name: string;
  readonly start_us: number;
  readonly us: number;
  readonly depth: number;
  readonly place: Place | null;
  readonly compile_id: string | null;
  /** Whether sampling measured it. */
  readonly sampled: boolean;
}

/** The profile of one configuration. */
export interface Details {
  /** The source of the profile; empty without a profile: only `steps` is known. */
  readonly source: string;
  readonly wall_us: number;
  readonly kernel_us: number;
  /** The share of the device's time that has a line, 0 to 1. */
  readonly joined: number;
  readonly lines: readonly LineTime[];
  /** Why kernels have no lines; empty if they have. */
  readonly no_lines: string;
  /** Adds up to `wall_us`. */
  readonly where: readonly WallPart[];
  readonly kernels: readonly KernelRow[];
  /** Null if the device's limits are unknown. */
  readonly roofline: Roofline | null;
  readonly steps: readonly Step[];
}

export interface PastRun {
  readonly id: string;
  readonly when: string;
  readonly device: string;
  readonly label: string;
}

export interface ConfigurationChange {
  readonly name: string;
  readonly before_us: number;
  readonly after_us: number;
  /** 0.12 is +12%; null if the change is within both spreads. */
  readonly change: number | null;
}

export interface LineChange {
  readonly place: Place;
  readonly before_us: number | null;
  readonly after_us: number | null;
  readonly change: number | null;
}

export interface Comparison {
  readonly id: string;
  readonly label: string;
  /** Differences between the runs other than the code, as text. */
  readonly differs: readonly string[];
  readonly configurations: readonly ConfigurationChange[];
  readonly lines: readonly LineChange[];
}

/** A sentence of the verdict. */
export interface Statement {
  readonly text: string;
  readonly place: Place | null;
  /** The configuration that it names; empty for a detail of the headline. */
  readonly configuration: string;
}

export interface MeasuredPage {
  /** The id of the shown run in `history`; null if it is not there. */
  readonly run: string | null;
  readonly found: boolean;
  readonly running: boolean;
  /** Whether the code has changed since. */
  readonly stale: boolean;
  /** Whether results are missing: the benchmark is still running, or it ended early. */
  readonly partial: boolean;
  readonly title: string;
  /** Without results: what to do. While the benchmark runs: its progress. */
  readonly message: string;
  readonly target: string;
  /** The file as the page shows it. */
  readonly path: string;
  readonly uri: string;
  /** UTC, ISO. */
  readonly when: string;
  readonly work: string;
  readonly inputs: readonly string[];
  /** The headline is first. */
  readonly verdict: readonly Statement[];
  readonly machine: readonly { readonly name: string; readonly value: string }[];
  readonly notes: readonly string[];
  readonly configurations: readonly Row[];
  /** By configuration name. */
  readonly profiles: Readonly<Record<string, Details>>;
  readonly history: readonly PastRun[];
  readonly comparison: Comparison | null;
}

export type ExportFormat = "json" | "csv" | "html";

export interface Exported {
  readonly text: string;
  /** The suggested file name. */
  readonly name: string;
}

/** To the page. */
export type DrawPage = DrawMessage<BenchShown, MeasuredPage>;

/** From the page. */
export type PageMessage =
  | ReadyMessage
  | { readonly type: "open"; readonly place: Place }
  | { readonly type: "benchmark" }
  | { readonly type: "cancel" }
  | { readonly type: "forget"; readonly run: string }
  | { readonly type: "choose"; readonly run: string | null; readonly with: string | null }
  /** Asks for an exported file to compare with. */
  | { readonly type: "chooseFile" }
  | { readonly type: "export"; readonly format: ExportFormat }
  /** `data` is a data URL of a PNG. */
  | { readonly type: "picture"; readonly name: string; readonly data: string };

/** The state of the page that VS Code keeps across a reload. */
export interface PageState extends BenchShown {
  /** The configuration whose profile is shown; null for the default choice. */
  readonly profile: string | null;
}
