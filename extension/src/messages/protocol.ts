/**
 * The messages that Fuselight adds to LSP, typed as they are sent.
 *
 * Invariant: the server uses the same names and keys; nothing is computed.
 */

import { NotificationType, type Range, RequestType } from "vscode-languageclient/node";
import type { BenchTarget, Exported, ExportFormat } from "./bench";
import type { GraphTarget } from "./graphs";
import type { GraphPicture, JobPage, MeasuredPage, TunedPage } from "./page_types";

export type RunState = "untrusted" | "idle" | "starting" | "running" | "failed" | "noInterpreter";

/** The device that `fuselight.device` selects, and the problem with its value. */
export interface TargetDevice {
  readonly key: string;
  readonly words: string;
  readonly problem: string | null;
}

/** An entry of the device picker. */
export interface OfferedDevice {
  readonly key: string;
  readonly name: string;
  readonly detail: string;
  readonly own: boolean;
  readonly current: boolean;
}

/** The state of a folder. `idle` with generation N: the results of every run up to N are published. */
export interface Status {
  readonly folder: string | null;
  readonly state: RunState;
  readonly text: string;
  readonly detail: string;
  readonly generation: number;
  readonly interpreter: string | null;
  readonly why: string | null;
  readonly torch: string | null;
  /** The target device; null while the server does not run. */
  readonly device: TargetDevice | null;
  readonly running: readonly string[];
  /** Titles of the fixes whose verification is in progress or waits. */
  readonly verifying: readonly string[];
}

/** A question before code runs: about a folder, or about the `__main__` block of a program. */
export interface ConfirmRun {
  readonly folder: string;
  /** The program that would run: a file, or `...#first-call` for the part of it up to its first call. */
  readonly program: string | null;
  readonly message: string;
  readonly detail: string;
  readonly answers: readonly { readonly title: string; readonly answer: Answer }[];
  /** Whether the user started the run. */
  readonly explicit: boolean;
}

/** `run`: also on each save; `command`: when the user asks for it; `later`: ask again. */
export type Answer = "run" | "command" | "never" | "later";

export interface ConfirmAnswer {
  readonly answer: Answer;
}

/** A node of the report view, made by the server. `icon` is the name of a codicon. */
export interface ReportNode {
  readonly id: string;
  readonly label: string;
  readonly description: string;
  readonly tooltip: string;
  /** Label and description, as a screen reader says them. */
  readonly accessibilityLabel: string;
  readonly icon: string;
  readonly uri: string | null;
  readonly range: Range | null;
  readonly contextValue: string;
  /** Of a target: its identity for the server. */
  readonly target?: GraphTarget | null;
  /** The generated text that the node opens, instead of a source line. */
  readonly kernel?: KernelEntryId | null;
  readonly children: readonly ReportNode[];
}

/** Lines of a file, both inclusive; without `line`, the entire file. */
export interface KernelsAt {
  readonly uri: string;
  readonly line?: number;
  readonly last?: number;
  readonly target?: string;
}

/** The identity of a generated text. */
export interface KernelId {
  /** The target's file. */
  readonly uri: string;
  /** Empty for the file's `__main__` block. */
  readonly target: string;
  /** The server's name of the kernel. */
  readonly kernel: string;
  readonly form: string;
}

/** A text of a kernel, with the data from which the server makes it. */
export interface KernelEntryId extends KernelId {
  /** File name; its ending selects the language. */
  readonly name: string;
}

/** An entry of the kernel picker. */
export interface KernelEntry extends KernelEntryId {
  readonly label: string;
  readonly description: string;
}

export interface KernelForm {
  readonly form: string;
  readonly name: string;
}

/** Lines `first` to `last` of a generated text were generated from these lines of a file. */
export interface KernelLink {
  readonly uri: string;
  readonly lines: readonly number[];
  readonly first: number;
  readonly last: number;
}

/** The text of a kernel; when `found` is false, `text` says what to do. */
export interface KernelDocument {
  readonly found: boolean;
  readonly text: string;
  readonly links: readonly KernelLink[];
  /** Lines of compiled code, with the line of the kernel source that they came from. */
  readonly sourceLinks: readonly Omit<KernelLink, "uri">[];
  readonly forms: readonly KernelForm[];
  readonly stale: boolean;
}

/** A line that is marked for its share of the time; level 3 is the largest share. */
export interface KernelLine {
  readonly line: number;
  readonly level: number;
}

/** A run of a target's benchmarks: without `run`, the newest; `with` is a run to compare with. */
export interface MeasuredAt extends BenchTarget {
  readonly run?: string;
  readonly with?: string;
}

/** URIs of logs or folders with logs, and of folders with the job's source besides those of the workspace. */
export interface OpenJob {
  readonly paths: readonly string[];
  readonly source: readonly string[];
  /** Whether to go on while the logs grow, until it is stopped: the answer comes only then. */
  readonly follow?: boolean;
}

/** An open job. */
export interface JobEntry {
  readonly id: string;
  /** URI of the log or folder that it was opened from. */
  readonly source: string;
  readonly name: string;
  /** Local time of its start; empty if no log has it. */
  readonly when: string;
  readonly summary: string;
  readonly partial: boolean;
}

/** What came of opening logs. A `message` says what to do. */
export interface OpenedJobs {
  readonly jobs: readonly JobEntry[];
  readonly message: string;
  /** Whether a folder with the source would put findings on lines. */
  readonly needsSource: boolean;
  readonly canceled: boolean;
}

interface OfFile {
  readonly uri: string;
}

interface OfFolder {
  readonly folder: string | null;
}

/** What the extension sends to the server at the start. */
export interface InitializationOptions {
  readonly settings: unknown;
  readonly trusted: boolean;
  readonly storage: string | null;
  readonly clientCommands: readonly string[];
  readonly confirmRun: boolean;
  readonly previewFix: boolean;
  /** Asks for all notifications of ours. */
  readonly notifications: true;
  /** VS Code shows a lens without a command as text. */
  readonly textLenses: true;
  /** VS Code waits for a command as long as that takes. */
  readonly longCommands: true;
  readonly locale: string;
}

/** Added by the client to each answer to `workspace/configuration`. */
export interface ResolvedInterpreter {
  readonly executable: string;
  readonly args: readonly string[];
  readonly why: string;
}

/** A fix that changes behavior, to be shown before it is applied. */
export interface FixPreview {
  readonly label: string;
  readonly documents: readonly {
    readonly uri: string;
    readonly version: number | null;
    readonly edits: readonly { readonly range: Range; readonly newText: string }[];
  }[];
}

/** Why a previewed fix was not applied; null where it was, or was discarded. */
export interface FixAnswer {
  readonly problem: string | null;
}

const notification = <P>(name: string) => new NotificationType<P>(`fuselight/${name}`);
const request = <P, R>(name: string) => new RequestType<P, R, void>(`fuselight/${name}`);

export const statusNotification = notification<Status>("status");
export const reportChangedNotification = notification<OfFile>("reportChanged");
export const trustNotification = notification<{ readonly trusted: boolean }>("trust");
export const interpreterChangedNotification = notification<OfFolder>("interpreterChanged");
/** Takes in the interpreters of all folders, and tries again where none could run code. */
export const lookAgainRequest = request<Record<string, never>, null>("lookAgain");
export const confirmRunRequest = request<ConfirmRun, ConfirmAnswer>("confirmRun");
export const previewFixRequest = request<FixPreview, FixAnswer>("previewFix");
export const reportTreeRequest = request<OfFile, { readonly nodes: readonly ReportNode[] }>("reportTree");
/** The target that a command at a line means; null for the entire file. */
export const targetAtRequest = request<
  OfFile & { readonly line: number },
  { readonly target: string | null }
>("targetAt");
export const kernelsAtRequest = request<KernelsAt, { readonly kernels: readonly KernelEntry[] }>("kernelsAt");
export const kernelDocumentRequest = request<KernelId, KernelDocument>("kernelDocument");
export const kernelLinesRequest = request<OfFile, { readonly lines: readonly KernelLine[] }>("kernelLines");
/** The folder that `fuselight mcp --attach` takes; empty where agents cannot attach. */
export const agentAddressRequest = request<OfFolder, { readonly address: string }>("agentAddress");
export const doctorRequest = request<OfFolder, string>("doctor");
export const graphsRequest = request<GraphTarget, GraphPicture>("graphs");
export const measuredChangedNotification = notification<BenchTarget>("measuredChanged");
export const measuredRequest = request<MeasuredAt, MeasuredPage>("measured");
export const measuredExportRequest = request<MeasuredAt & { readonly format: ExportFormat }, Exported>(
  "measuredExport",
);

export const tunedChangedNotification = notification<BenchTarget>("tunedChanged");
export const tunedRequest = request<BenchTarget, TunedPage>("tuned");

export const openJobRequest = request<OpenJob, OpenedJobs>("openJob");
/** Without a job, closes all of them. */
export const closeJobRequest = request<{ readonly job: string | null }, null>("closeJob");
export const jobRequest = request<{ readonly job: string; readonly against: string | null }, JobPage>("job");
export const jobsChangedNotification = notification<{ readonly jobs: readonly JobEntry[] }>("jobsChanged");

/** Commands of the server; the language client registers them under the same names. */
export const serverCommand = {
  run: "fuselight.server.run",
  kernels: "fuselight.server.kernels",
  cancel: "fuselight.server.cancel",
  stopFollowing: "fuselight.server.stopFollowing",
  askAgain: "fuselight.server.askAgain",
  restartWorker: "fuselight.server.restartWorker",
  clearCaches: "fuselight.server.clearCaches",
  devices: "fuselight.server.devices",
  copyFinding: "fuselight.server.copyFinding",
  problemReport: "fuselight.server.problemReport",
  bench: "fuselight.server.bench",
  cancelBench: "fuselight.server.cancelBench",
  forgetBench: "fuselight.server.forgetBench",
  tune: "fuselight.server.tune",
  cancelTune: "fuselight.server.cancelTune",
  applyFix: "fuselight.server.applyFix",
  applyAllFixes: "fuselight.server.applyAllFixes",
  verifyForecast: "fuselight.server.verifyForecast",
} as const;

/** Commands of the extension that the server may use in code lenses and quick fixes. */
export const clientCommands = [
  "fuselight.showDetails",
  "fuselight.showKernel",
  "fuselight.selectInterpreter",
  "fuselight.chooseDevice",
  "fuselight.showLog",
  "fuselight.openPage",
  "fuselight.benchmark",
  "fuselight.showBenchmark",
  "fuselight.tune",
  "fuselight.showTuning",
  "fuselight.showJob",
] as const;
