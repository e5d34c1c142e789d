/**
 * The data of the messages that Fuselight adds to LSP, as they are sent. `null` is unknown.
 *
 * Written by scripts/message_types.py from `editor/messages/` of the server: change that, then run the script.
 */

/** What a folder's runs do. */
export type FolderState = "untrusted" | "idle" | "starting" | "running" | "failed" | "noInterpreter";

/** `run`: also on each save; `command`: when the user asks for it; `later`: ask again. */
export type ConsentChoice = "run" | "command" | "never" | "later";

/** Which file's reports; null for all. */
export interface ReportTreeParams {
  readonly uri?: string | null;
}

/** URI of a folder, or of a file in it; null for the first folder, or for all. */
export interface FolderParams {
  readonly folder?: string | null;
}

/** A 0-based line of a file. */
export interface TargetAtParams {
  readonly uri: string;
  readonly line: number;
}

/** Lines of a file, 0-based, both included; without `line` all of it. `target` where it is known whose kernels. */
export interface KernelsAtParams {
  readonly uri: string;
  readonly line?: number | null;
  readonly last?: number | null;
  readonly target?: string | null;
}

/** A text of a kernel: the target's file and name, and what `fuselight/kernelsAt` calls it. */
export interface KernelDocumentParams {
  readonly uri: string;
  readonly target: string;
  readonly kernel: string;
  readonly form: string;
}

/** Which file. */
export interface KernelLinesParams {
  readonly uri: string;
}

/** Which target of which file, empty for the file's `__main__` block; null for the only one that there is. */
export interface GraphsParams {
  readonly uri: string;
  readonly target?: string | null;
}

/**
 * Which target of which file, and which two of its runs to compare: ids, null for the newest and for none.
 *
 * `with` may be the path of an export as well.
 */
export interface MeasuredParams {
  readonly uri: string;
  readonly target: string;
  readonly run?: string | null;
  readonly with?: string | null;
}

/** As `MeasuredParams`, and the format: `json`, `csv` or `html`. */
export interface MeasuredExportParams {
  readonly uri: string;
  readonly target: string;
  readonly run?: string | null;
  readonly with?: string | null;
  readonly format: string;
}

/** Which target of which file. */
export interface TunedParams {
  readonly uri: string;
  readonly target: string;
}

/** URIs of logs or folders with logs, and of folders with the job's source besides those of the workspace. */
export interface OpenJobParams {
  readonly paths: readonly string[];
  readonly source?: readonly string[];
  /** Whether to go on while the logs grow, until it is stopped: the answer comes only then. */
  readonly follow?: boolean;
}

/** Which job, by the id that `fuselight/openJob` answers; null for all. */
export interface CloseJobParams {
  readonly job?: string | null;
}

/** Which job, and the job to compare it with; null for none. */
export interface JobParams {
  readonly job: string;
  readonly against?: string | null;
}

/** Whether the workspace is trusted now. */
export interface TrustParams {
  readonly trusted: boolean;
}

/** A place in a text. */
export interface MessagePosition {
  readonly line: number;
  readonly character: number;
}

/** Part of a text, without its end. */
export interface MessageRange {
  readonly start: MessagePosition;
  readonly end: MessagePosition;
}

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
  /** Whether the user's settings define it. */
  readonly own: boolean;
  readonly current: boolean;
}

/** The state of a folder. `idle` with generation N: the results of every run up to N are published. */
export interface FolderStatus {
  readonly folder: string | null;
  readonly state: FolderState;
  readonly text: string;
  readonly detail: string;
  readonly generation: number;
  readonly interpreter: string | null;
  /** Why this interpreter is used. */
  readonly why: string | null;
  readonly torch: string | null;
  /** Null while no server runs, in the extension. */
  readonly device: TargetDevice | null;
  /** The runs in progress, in words. */
  readonly running: readonly string[];
  /** Titles of the fixes whose verification is in progress or waits. */
  readonly verifying: readonly string[];
}

/** A file about which more, or less, is known now. */
export interface FileChanged {
  readonly uri: string;
}

/** A target whose benchmarks or searches began, moved on or ended. */
export interface TargetChanged {
  readonly uri: string;
  /** Empty for the `__main__` block of the file. */
  readonly target: string;
}

/** A button of a question. */
export interface OfferedAnswer {
  readonly title: string;
  readonly answer: ConsentChoice;
}

/** A question before code runs: about a folder, or about the `__main__` block of a program. */
export interface ConfirmRun {
  readonly folder: string;
  /** The program that would run: a file, or `...#first-call` for the part of it up to its first call. */
  readonly program: string | null;
  readonly message: string;
  readonly detail: string;
  readonly answers: readonly OfferedAnswer[];
  /** Whether the user started the run. */
  readonly explicit: boolean;
}

/** A change of a file. */
export interface PreviewedEdit {
  readonly range: MessageRange;
  readonly newText: string;
}

/** The changes of a fix in one file. */
export interface PreviewedFile {
  readonly uri: string;
  /** Of the open document; null if the file is not open. */
  readonly version: number | null;
  readonly edits: readonly PreviewedEdit[];
}

/** A fix that changes behavior, to be shown before it is applied. */
export interface FixPreview {
  readonly label: string;
  readonly documents: readonly PreviewedFile[];
}

/** The target that a command at a line means; null for the entire file. */
export interface TargetAt {
  readonly target: string | null;
}

/** The identity of a target. */
export interface NodeTarget {
  readonly uri: string;
  /** Empty for the `__main__` block of the file. */
  readonly target: string;
}

/** The generated text that a node opens. */
export interface NodeKernel {
  readonly uri: string;
  readonly target: string;
  readonly kernel: string;
  readonly form: string;
  /** File name; its ending selects the language. */
  readonly name: string;
}

/** A node of the report view. */
export interface ReportNode {
  readonly id: string;
  readonly label: string;
  readonly description: string;
  readonly tooltip: string;
  /** Label and description, as a screen reader says them. */
  readonly accessibilityLabel: string;
  /** The name of a codicon. */
  readonly icon: string;
  readonly uri: string | null;
  readonly range: MessageRange | null;
  readonly contextValue: string;
  /** Of a target: its identity for the server. */
  readonly target: NodeTarget | null;
  /** The generated text that the node opens, instead of a source line. */
  readonly kernel: NodeKernel | null;
  readonly children: readonly ReportNode[];
}

/** The reports of a file, one node for each target. */
export interface ReportTree {
  readonly nodes: readonly ReportNode[];
}

/** An entry of the kernel picker. */
export interface KernelEntry {
  /** The file of the target. */
  readonly uri: string;
  /** Empty for the `__main__` block of the file. */
  readonly target: string;
  /** The server's name of the kernel. */
  readonly kernel: string;
  readonly form: string;
  /** File name; its ending selects the language. */
  readonly name: string;
  readonly label: string;
  readonly description: string;
}

/** The kernels of some lines. */
export interface KernelEntries {
  readonly kernels: readonly KernelEntry[];
}

/** A text of a kernel that can be shown instead. */
export interface KernelForm {
  readonly form: string;
  readonly name: string;
}

/** Lines `first` to `last` of compiled code were generated from these lines of the kernel's source. */
export interface KernelSourceLink {
  readonly lines: readonly number[];
  readonly first: number;
  readonly last: number;
}

/** Lines `first` to `last` of a generated text were generated from these lines of a file. */
export interface KernelLink {
  readonly lines: readonly number[];
  readonly first: number;
  readonly last: number;
  readonly uri: string;
}

/** The text of a kernel; when `found` is false, `text` says what to do. */
export interface KernelText {
  readonly found: boolean;
  readonly text: string;
  readonly links: readonly KernelLink[];
  readonly sourceLinks: readonly KernelSourceLink[];
  readonly forms: readonly KernelForm[];
  readonly stale: boolean;
}

/** A line that is marked for its share of the time; level 3 is the largest share. */
export interface KernelLine {
  readonly line: number;
  readonly level: number;
}

/** The marked lines of a file, in their order. */
export interface KernelLines {
  readonly lines: readonly KernelLine[];
}

/** What came of a command that starts a benchmark or a search. */
export interface StartAnswer {
  readonly started: boolean;
  /** Null if nothing was started. */
  readonly target: string | null;
  readonly message: string;
}

/** A benchmark as text. */
export interface Exported {
  readonly text: string;
  /** The suggested file name. */
  readonly name: string;
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

/** Logs that are read on while they grow. */
export interface FollowedJob {
  /** Of the log or folder. */
  readonly name: string;
  /** What was read so far: `12 compiles, 3 findings in 2 processes`. */
  readonly words: string;
}

/** The open jobs, and those that are followed. */
export interface JobsChanged {
  readonly jobs: readonly JobEntry[];
  readonly followed: readonly FollowedJob[];
}

/** What came of opening logs. */
export interface OpenedJobs {
  readonly jobs: readonly JobEntry[];
  /** What to do; empty if there is nothing to say. */
  readonly message: string;
  /** Whether a folder with the source would put findings on lines. */
  readonly needsSource: boolean;
  readonly canceled: boolean;
}

/** The folder that `fuselight mcp --attach` takes; empty where agents cannot attach. */
export interface AttachmentAddress {
  readonly address: string;
}
