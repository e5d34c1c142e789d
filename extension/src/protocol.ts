/**
 * The messages that Fuselight adds to LSP, typed as they are on the wire.
 *
 * Invariant: every name and key here is the server's too; nothing is computed.
 */

import { NotificationType, type Range, RequestType } from "vscode-languageclient/node";
import type { BenchTarget, Exported, ExportFormat, MeasuredPage } from "./bench_messages";
import type { GraphPicture, GraphTarget } from "./graph_messages";
import type { KernelLink } from "./kernel_lines";
import type { KernelId } from "./kernel_uri";

export type RunState = "untrusted" | "idle" | "starting" | "running" | "failed" | "noInterpreter";

/** The device that `fuselight.device` comes to, and why another than was written. */
export interface TargetDevice {
  readonly key: string;
  readonly words: string;
  readonly problem: string | null;
}

/** One device to choose from. */
export interface OfferedDevice {
  readonly key: string;
  readonly name: string;
  readonly detail: string;
  readonly own: boolean;
  readonly current: boolean;
}

/** What a folder is doing. `idle` with generation N: every run of generation N and before is published. */
export interface Status {
  readonly folder: string | null;
  readonly state: RunState;
  readonly text: string;
  readonly detail: string;
  readonly generation: number;
  readonly interpreter: string | null;
  readonly why: string | null;
  readonly torch: string | null;
  /** What kernels are for; null while no server speaks. */
  readonly device: TargetDevice | null;
  readonly running: readonly string[];
}

export interface ConfirmRun {
  readonly folder: string;
  readonly summary: string;
  readonly interpreter: string;
}

export interface ConfirmAnswer {
  readonly answer: "run" | "never" | "later";
}

/** One line of the report view, made by the server. `icon` is a codicon's name. */
export interface ReportNode {
  readonly id: string;
  readonly label: string;
  readonly description: string;
  readonly tooltip: string;
  readonly icon: string;
  readonly uri: string | null;
  readonly range: Range | null;
  readonly contextValue: string;
  /** Of a target: how the server knows it. */
  readonly target?: GraphTarget | null;
  /** The text that it opens, instead of a line to jump to. */
  readonly kernel?: KernelEntryId | null;
  readonly children: readonly ReportNode[];
}

export interface ReportTree {
  readonly nodes: readonly ReportNode[];
}

/** Lines of a file, both included; without `line` all of it. */
export interface KernelsAt {
  readonly uri: string;
  readonly line?: number;
  readonly last?: number;
  readonly target?: string;
}

/** One text of a kernel, with what the server needs to make it. */
export interface KernelEntryId extends KernelId {
  /** As a file; the ending gives the language. */
  readonly name: string;
}

/** One to choose. */
export interface KernelEntry extends KernelEntryId {
  readonly label: string;
  readonly description: string;
}

export interface KernelForm {
  readonly form: string;
  readonly name: string;
}

/** The text of a kernel; where there is none, `text` says what to do. */
export interface KernelDocument {
  readonly found: boolean;
  readonly text: string;
  readonly links: readonly KernelLink[];
  /** Lines of what the kernel is compiled to, and the line of its source that they were made of. */
  readonly sourceLinks: readonly Omit<KernelLink, "uri">[];
  readonly forms: readonly KernelForm[];
  readonly stale: boolean;
}

/** A line with a part of the estimated time that is worth a mark; level 3 is the most. */
export interface KernelLine {
  readonly line: number;
  readonly level: number;
}

/** Which run of a target's benchmarks: without `run` the newest; `with` another to compare it with. */
export interface MeasuredAt extends BenchTarget {
  readonly run?: string;
  readonly with?: string;
}

/** What the extension tells the server at the start. */
export interface InitializationOptions {
  readonly settings: unknown;
  readonly trusted: boolean;
  readonly storage: string | null;
  readonly clientCommands: readonly string[];
  readonly confirmRun: boolean;
  readonly locale: string;
}

/** Added by the client to each answer to `workspace/configuration`. */
export interface ResolvedInterpreter {
  readonly executable: string;
  readonly args: readonly string[];
  readonly why: string;
}

export const statusNotification = new NotificationType<Status>("fuselight/status");
export const reportChangedNotification = new NotificationType<{ readonly uri: string }>(
  "fuselight/reportChanged",
);
export const trustNotification = new NotificationType<{ readonly trusted: boolean }>("fuselight/trust");
export const interpreterChangedNotification = new NotificationType<{ readonly folder: string | null }>(
  "fuselight/interpreterChanged",
);
export const confirmRunRequest = new RequestType<ConfirmRun, ConfirmAnswer, void>("fuselight/confirmRun");
export const reportTreeRequest = new RequestType<{ readonly uri: string | null }, ReportTree, void>(
  "fuselight/reportTree",
);
export const kernelsAtRequest = new RequestType<
  KernelsAt,
  { readonly kernels: readonly KernelEntry[] },
  void
>("fuselight/kernelsAt");
export const kernelDocumentRequest = new RequestType<KernelId, KernelDocument, void>(
  "fuselight/kernelDocument",
);
export const kernelLinesRequest = new RequestType<
  { readonly uri: string },
  { readonly lines: readonly KernelLine[] },
  void
>("fuselight/kernelLines");
export const doctorRequest = new RequestType<{ readonly folder: string | null }, string, void>(
  "fuselight/doctor",
);
export const graphsRequest = new RequestType<GraphTarget, GraphPicture, void>("fuselight/graphs");
export const measuredChangedNotification = new NotificationType<BenchTarget>("fuselight/measuredChanged");
export const measuredRequest = new RequestType<MeasuredAt, MeasuredPage, void>("fuselight/measured");
export const measuredExportRequest = new RequestType<
  MeasuredAt & { readonly format: ExportFormat },
  Exported,
  void
>("fuselight/measuredExport");

/** Commands that the server answers; the language client registers them under the same names. */
export const serverCommand = {
  run: "fuselight.server.run",
  kernels: "fuselight.server.kernels",
  cancel: "fuselight.server.cancel",
  askAgain: "fuselight.server.askAgain",
  restartWorker: "fuselight.server.restartWorker",
  clearCaches: "fuselight.server.clearCaches",
  devices: "fuselight.server.devices",
  copyFinding: "fuselight.server.copyFinding",
  problemReport: "fuselight.server.problemReport",
  bench: "fuselight.bench",
  cancelBench: "fuselight.cancelBench",
  forgetBench: "fuselight.forgetBench",
} as const;

/** Commands of benchmarks that the server puts into lenses. */
export const clientCommand = {
  benchmark: "fuselight.benchmark",
  showBenchmark: "fuselight.showBenchmark",
} as const;

/** Commands of the extension that the server may put into lenses and quick fixes. */
export const clientCommands = [
  "fuselight.showDetails",
  "fuselight.showKernel",
  "fuselight.selectInterpreter",
  "fuselight.chooseDevice",
  "fuselight.showLog",
  ...Object.values(clientCommand),
] as const;
