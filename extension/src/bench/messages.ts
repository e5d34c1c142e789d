/**
 * The data of a benchmark's page, as the server sends it, and the messages between the page and the extension.
 *
 * Invariant: types only, so that the bundle of the page has nothing of VS Code in it. `null` stands for unknown. Times are
 * of one call, in microseconds.
 */

import type { DrawMessage, ReadyMessage } from "../webview_messages";

export interface BenchTarget {
  readonly uri: string;
  /** Empty for the file's `__main__` block. */
  readonly target: string;
}

/** Which runs of it: ids of its history; null for the newest, and for no comparison. */
export interface BenchShown extends BenchTarget {
  readonly run: string | null;
  readonly with: string | null;
}

export interface Place {
  readonly uri: string;
  /** As it is shown. */
  readonly path: string;
  /** From 0. */
  readonly line: number;
  /** The line itself. */
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
  /** Null where results were not compared; `text` says why. */
  readonly passed: boolean | null;
  readonly text: string;
  readonly tensors: readonly TensorRow[];
  readonly place: Place | null;
}

/** One configuration. */
export interface Row {
  readonly name: string;
  readonly failure: string | null;
  /** Eager's median by this one's, both by `clock`. */
  readonly speedup: number | null;
  readonly us: number | null;
  /** 0.01 is +- 1 %. */
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
  /** Of all lines, 0 to 1. */
  readonly share: number;
  readonly kernels: readonly string[];
}

/** A part of the wall time: a kernel, or a kind of time in none. */
export interface WallPart {
  /**
   * `kernel`, `kernel_eager`, `kernel_copy`; `kernel_backend` and `backend`, of one that is not Inductor; of time in
   * none: `launch`, `guards`, `sync` and so on; `unknown`.
   */
  readonly kind: string;
  /** The kind in words. */
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
  /** Of what bounds it, 0 to 1. */
  readonly of_limit: number | null;
  readonly joined: boolean;
  readonly place: Place | null;
  readonly phase: string;
}

export interface RooflinePoint {
  readonly name: string;
  /** Operations by byte. */
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

/** A phase of the cold compile; they nest. */
export interface Step {
  readonly name: string;
  readonly start_us: number;
  readonly us: number;
  readonly depth: number;
  readonly place: Place | null;
  readonly compile_id: string | null;
  /** Seen from outside, by samples. */
  readonly sampled: boolean;
}

/** The profile of one configuration. */
export interface Details {
  /** Of the profile; empty where none was taken, and only `steps` is known. */
  readonly source: string;
  readonly wall_us: number;
  readonly kernel_us: number;
  /** Part of the device's time, 0 to 1. */
  readonly joined: number;
  readonly lines: readonly LineTime[];
  /** Why kernels cannot be on lines, in words; empty where they can. */
  readonly no_lines: string;
  /** Adds up to `wall_us`. */
  readonly where: readonly WallPart[];
  readonly kernels: readonly KernelRow[];
  /** Null where the device's limits are not known. */
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
  /** 0.12 is +12 %; null where it is within both spreads. */
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
  /** What besides the code was not the same for both, in words. */
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
  /** The id in `history` of what is shown; null where it does not lie there. */
  readonly run: string | null;
  readonly found: boolean;
  readonly running: boolean;
  /** The code has changed since. */
  readonly stale: boolean;
  /** What is shown is not all that was asked for: the benchmark goes on, or ended early. */
  readonly partial: boolean;
  readonly title: string;
  /** While there is nothing: what to do. While it runs: what it is at. */
  readonly message: string;
  readonly target: string;
  /** The file as it is shown. */
  readonly path: string;
  readonly uri: string;
  /** UTC, ISO. */
  readonly when: string;
  readonly work: string;
  readonly inputs: readonly string[];
  /** The headline first. */
  readonly verdict: readonly Statement[];
  readonly machine: readonly { readonly name: string; readonly value: string }[];
  readonly notes: readonly string[];
  readonly configurations: readonly Row[];
  /** By the name of the configuration. */
  readonly profiles: Readonly<Record<string, Details>>;
  readonly history: readonly PastRun[];
  readonly comparison: Comparison | null;
}

export type ExportFormat = "json" | "csv" | "html";

export interface Exported {
  readonly text: string;
  /** As a file is called that it could be saved to. */
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

/** What VS Code keeps of the page over a reload. */
export interface PageState extends BenchShown {
  /** The configuration whose profile is shown; null for the first that has one. */
  readonly profile: string | null;
}
