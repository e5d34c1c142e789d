/**
 * The messages that Fuselight adds to LSP, by their names; their data is in `server_types.ts`.
 *
 * Invariant: the server uses the same names; nothing is computed.
 */

import { NotificationType, RequestType } from "vscode-languageclient/node";
import type { GraphPicture, JobPage, MeasuredPage, TunedPage } from "./page_types";
import type {
  AttachmentAddress,
  CloseJobParams,
  ConfirmRun,
  ConsentChoice,
  Exported,
  FileChanged,
  FixPreview,
  FolderParams,
  FolderStatus,
  GraphsParams,
  JobParams,
  JobsChanged,
  KernelDocumentParams,
  KernelEntries,
  KernelLines,
  KernelLinesParams,
  KernelsAtParams,
  KernelText,
  MeasuredExportParams,
  MeasuredParams,
  OpenedJobs,
  OpenJobParams,
  ReportTree,
  ReportTreeParams,
  TargetAt,
  TargetAtParams,
  TargetChanged,
  TrustParams,
  TunedParams,
} from "./server_types";

/** What the user answers to `ConfirmRun`. */
export interface ConfirmAnswer {
  readonly answer: ConsentChoice;
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

/** Why a previewed fix was not applied; null where it was, or was discarded. */
export interface FixAnswer {
  readonly problem: string | null;
}

const notification = <P>(name: string) => new NotificationType<P>(`fuselight/${name}`);
const request = <P, R>(name: string) => new RequestType<P, R, void>(`fuselight/${name}`);

export const statusNotification = notification<FolderStatus>("status");
export const reportChangedNotification = notification<FileChanged>("reportChanged");
export const trustNotification = notification<TrustParams>("trust");
export const interpreterChangedNotification = notification<FolderParams>("interpreterChanged");
/** Takes in the interpreters of all folders, and tries again where none could run code. */
export const lookAgainRequest = request<Record<string, never>, null>("lookAgain");
export const confirmRunRequest = request<ConfirmRun, ConfirmAnswer>("confirmRun");
export const previewFixRequest = request<FixPreview, FixAnswer>("previewFix");
export const reportTreeRequest = request<ReportTreeParams, ReportTree>("reportTree");
export const targetAtRequest = request<TargetAtParams, TargetAt>("targetAt");
export const kernelsAtRequest = request<KernelsAtParams, KernelEntries>("kernelsAt");
export const kernelDocumentRequest = request<KernelDocumentParams, KernelText>("kernelDocument");
export const kernelLinesRequest = request<KernelLinesParams, KernelLines>("kernelLines");
export const agentAddressRequest = request<FolderParams, AttachmentAddress>("agentAddress");
export const doctorRequest = request<FolderParams, string>("doctor");
export const graphsRequest = request<GraphsParams, GraphPicture>("graphs");
export const measuredChangedNotification = notification<TargetChanged>("measuredChanged");
export const measuredRequest = request<MeasuredParams, MeasuredPage>("measured");
export const measuredExportRequest = request<MeasuredExportParams, Exported>("measuredExport");
export const tunedChangedNotification = notification<TargetChanged>("tunedChanged");
export const tunedRequest = request<TunedParams, TunedPage>("tuned");

export const openJobRequest = request<OpenJobParams, OpenedJobs>("openJob");
export const closeJobRequest = request<CloseJobParams, null>("closeJob");
export const jobRequest = request<JobParams, JobPage>("job");
export const jobsChangedNotification = notification<JobsChanged>("jobsChanged");

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
  accuracy: "fuselight.server.accuracy",
  cancelAccuracy: "fuselight.server.cancelAccuracy",
  memory: "fuselight.server.memory",
  cancelMemory: "fuselight.server.cancelMemory",
  repro: "fuselight.server.repro",
  applyFix: "fuselight.server.applyFix",
  applyAllFixes: "fuselight.server.applyAllFixes",
  verifyForecast: "fuselight.server.verifyForecast",
  useInputs: "fuselight.server.useInputs",
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
