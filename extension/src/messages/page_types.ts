/**
 * The data of the pages, as the server sends it. `null` is unknown.
 *
 * Written by scripts/message_types.py from the dataclasses of `page_types.py`: change those, then run the script.
 */

/** The clock of a time. */
export type Clock = "wall" | "device";

/** What became of a candidate. */
export type TuneOutcome =
  | "winner"
  | "baseline"
  | "slower"
  | "eliminated"
  | "unconfirmed"
  | "inaccurate"
  | "failed"
  | "skipped"
  | "unfinished";

/** What a box stands for. */
export type BoxKind = "target" | "graph" | "empty" | "eager" | "break" | "more";

/** How one box leads to another. */
export type ArrowKind = "calls" | "breaks" | "goes on" | "compiled again" | "runs in eager" | "because of";

/** A fact of the machine, as text. */
export interface MachineFact {
  readonly name: string;
  readonly value: string;
}

/** A line of source, where it is now. */
export interface PagePlace {
  /** Empty for a line that is gone: there is nothing to open. */
  readonly uri: string;
  /** The path as the page shows it. */
  readonly path: string;
  /** 0-based. */
  readonly line: number;
  /** The source of the line. */
  readonly text: string;
}

/** The error of one tensor relative to the reference. */
export interface TensorError {
  /** `output`, `output[0].logits`, `gradient of blocks.0.weight`. */
  readonly what: string;
  /** Cosine similarity of both as vectors; null if one of them is zero or not finite. */
  readonly cosine: number | null;
  /** Largest absolute error; null if it is not a number. */
  readonly absolute: number | null;
  /** Largest relative error, over elements whose reference is not 0. */
  readonly relative: number | null;
  readonly passed: boolean;
}

/** Whether a configuration computes what eager does. */
export interface AccuracyCell {
  /** Null if results were not compared; `text` says why. */
  readonly passed: boolean | null;
  readonly text: string;
  readonly tensors: readonly TensorError[];
  readonly place: PagePlace | null;
}

/** The peak of tensors in one call. */
export interface MemoryCell {
  /** All of it in words. */
  readonly text: string;
  /** By the allocator; null if it was not measured. */
  readonly tensor_bytes: number | null;
  readonly estimated_bytes: number | null;
  /** What the allocator had of the driver; null on a CPU. */
  readonly reserved_bytes: number | null;
  /** Fragmentation: unused bytes in segments with tensors, at the end of the call; null on a CPU. */
  readonly between_bytes: number | null;
}

/** One configuration. */
export interface ConfigurationRow {
  readonly name: string;
  readonly failure: string | null;
  /** Eager's median divided by this configuration's, both by `clock`. */
  readonly speedup: number | null;
  readonly us: number | null;
  /** 0.01 is ± 1%. */
  readonly spread: number | null;
  readonly unsteady: boolean;
  readonly clock: Clock | null;
  readonly wall_us: number | null;
  readonly first_us: number | null;
  readonly second_us: number | null;
  readonly calls: number;
  readonly peak_bytes: number | null;
  readonly own_bytes: number | null;
  /** Null if it was neither measured nor estimated. */
  readonly memory: MemoryCell | null;
  readonly accuracy: AccuracyCell | null;
  readonly graph_breaks: number | null;
  readonly compiles: number | null;
  readonly recompiles: number | null;
  readonly notes: readonly string[];
}

/** The time of one line. */
export interface LineRow {
  readonly place: PagePlace;
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
  readonly place: PagePlace | null;
  readonly what: string;
}

/** A kernel that was launched. */
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
  readonly place: PagePlace | null;
  readonly phase: string;
}

/** A kernel with its arithmetic and its traffic. */
export interface RooflinePoint {
  readonly name: string;
  /** FLOP per byte. */
  readonly intensity: number;
  readonly tflops: number;
  readonly us: number;
  readonly place: PagePlace | null;
}

/** The device's rate for a dtype. */
export interface RooflinePeak {
  readonly dtype: string;
  readonly tflops: number;
}

/** Kernels against the device's limits. */
export interface Roofline {
  readonly points: readonly RooflinePoint[];
  readonly bandwidth_gbs: number;
  readonly peaks: readonly RooflinePeak[];
}

/** A phase of the cold compile. Phases are nested. */
export interface StepRow {
  readonly name: string;
  readonly start_us: number;
  readonly us: number;
  readonly depth: number;
  readonly place: PagePlace | null;
  readonly compile_id: string | null;
  /** Whether sampling measured it. */
  readonly sampled: boolean;
}

/** The profile of one configuration. */
export interface ProfileDetails {
  /** The source of the profile; empty without a profile: only `steps` is known. */
  readonly source: string;
  readonly wall_us: number;
  readonly kernel_us: number;
  /** The share of the device's time that has a line, 0 to 1. */
  readonly joined: number;
  readonly lines: readonly LineRow[];
  /** Why kernels have no lines; empty if they have. */
  readonly no_lines: string;
  /** Adds up to `wall_us`. */
  readonly where: readonly WallPart[];
  readonly kernels: readonly KernelRow[];
  /** Null if the device's limits are unknown. */
  readonly roofline: Roofline | null;
  readonly steps: readonly StepRow[];
}

/** A run of the history. */
export interface PastRun {
  readonly id: string;
  readonly when: string;
  readonly device: string;
  readonly label: string;
}

/** The time of a configuration in two runs. */
export interface ConfigurationChange {
  readonly name: string;
  readonly before_us: number;
  readonly after_us: number;
  /** 0.12 is +12%; null if the change is within both spreads. */
  readonly change: number | null;
}

/** The time of a line in two runs. */
export interface LineChange {
  readonly place: PagePlace;
  readonly before_us: number | null;
  readonly after_us: number | null;
  readonly change: number | null;
}

/** What changed since another run. */
export interface RunComparison {
  readonly id: string;
  readonly label: string;
  /** Differences between the runs other than the code, as text. */
  readonly differs: readonly string[];
  readonly configurations: readonly ConfigurationChange[];
  readonly lines: readonly LineChange[];
}

/** A sentence of the verdict. */
export interface VerdictLine {
  readonly text: string;
  readonly place: PagePlace | null;
  /** The configuration that it names; empty for a detail of the headline. */
  readonly configuration: string;
}

/** The page of a benchmark. */
export interface MeasuredPage {
  /** Whether there is something to show. */
  readonly found: boolean;
  readonly running: boolean;
  /** Whether the code has changed since. */
  readonly stale: boolean;
  readonly title: string;
  /** Without results: what to do. While results are being made: the progress. */
  readonly message: string;
  /** The id of the shown run in `history`; null if it is not there. */
  readonly run: string | null;
  /** Whether results are missing: the benchmark is still running, or it ended early. */
  readonly partial: boolean;
  readonly target: string;
  /** The file as the page shows it. */
  readonly path: string;
  readonly uri: string;
  /** UTC, ISO. */
  readonly when: string;
  readonly work: string;
  readonly inputs: readonly string[];
  /** The headline is first. */
  readonly verdict: readonly VerdictLine[];
  readonly machine: readonly MachineFact[];
  readonly notes: readonly string[];
  readonly configurations: readonly ConfigurationRow[];
  /** By configuration name. */
  readonly profiles: Readonly<Record<string, ProfileDetails>>;
  readonly history: readonly PastRun[];
  readonly comparison: RunComparison | null;
}

/** A setting that the search may change. */
export interface KnobRow {
  readonly name: string;
  readonly label: string;
  /** What it changes; empty if this version does not know it. */
  readonly meaning: string;
  /** The part of a call that it can at most remove, as text. */
  readonly bound: string;
  readonly bound_us: number | null;
  /** How many times as fast as default if it removed all of that part. */
  readonly ceiling: number | null;
  /** Whether it changes something of this target on this device. */
  readonly applies: boolean;
  readonly tried: boolean;
  /** What the bound consists of, or why it was not tried. */
  readonly why: string;
}

/** One configuration, in the order of the trials. */
export interface CandidateRow {
  /** Its notation. */
  readonly name: string;
  readonly label: string;
  readonly outcome: TuneOutcome;
  readonly outcome_words: string;
  /** Why it did not win, where its time does not say it; else empty. */
  readonly why: string;
  readonly us: number | null;
  /** 0.01 is ± 1%. */
  readonly spread: number | null;
  readonly unsteady: boolean;
  /** Default's time divided by its time in the same rounds. */
  readonly gain: number | null;
  /** Eager's time divided by its time. */
  readonly speedup: number | null;
  readonly first_us: number | null;
  readonly peak_bytes: number | null;
  /** As in a benchmark. */
  readonly memory: MemoryCell | null;
  /** Null if results were not compared. */
  readonly accurate: boolean | null;
  readonly accuracy: string;
  /** The last stage of the race that it took part in; 0: none. */
  readonly stage: number;
  readonly started_s: number | null;
  readonly ready_s: number | null;
  readonly notes: readonly string[];
}

/** The rounds of one candidate. */
export interface RaceSeries {
  readonly name: string;
  readonly label: string;
  /** Moment, time and stage of each. */
  readonly points: readonly (readonly [number | null, number | null, number])[];
}

/** Eager, a mode of torch.compile, or the winner, which is last. */
export interface ComparisonBar {
  readonly name: string;
  readonly label: string;
  /** Of the confirming race where one decided, of all rounds of `default` where that wins. */
  readonly us: number;
  /** Whether it was not in the race that decided: its time comes from its gain in rounds of both. */
  readonly estimated: boolean;
  readonly wins: boolean;
}

/** The decision of a search. */
export interface DecisionDetails {
  readonly configuration: string;
  readonly gain: number;
  /** Bounds of the gain (95%). */
  readonly gain_low: number;
  readonly gain_high: number | null;
  readonly us: number;
  readonly default_us: number;
  /** Median of all rounds. */
  readonly eager_us: number | null;
  readonly accuracy: string;
  /** Titles of fixes that the source must have. */
  readonly fixes: readonly string[];
  readonly graphs: number;
  /** The decision as Python without Fuselight. */
  readonly code: string;
  /** The line that replays it from the tuned file. */
  readonly replay: string;
}

/** The page of a search. */
export interface TunedPage {
  /** Whether there is something to show. */
  readonly found: boolean;
  readonly running: boolean;
  /** Whether the code has changed since. */
  readonly stale: boolean;
  readonly title: string;
  /** Without results: what to do. While results are being made: the progress. */
  readonly message: string;
  readonly partial: boolean;
  readonly target: string;
  /** The file as the page shows it. */
  readonly path: string;
  readonly uri: string;
  /** The URI of the tuned file that has the decision; empty if none has. */
  readonly file: string;
  readonly file_shown: string;
  /** Why the decision is not in the file, and what to do. */
  readonly file_problem: string;
  /** UTC, ISO. */
  readonly when: string;
  readonly work: string;
  readonly inputs: readonly string[];
  readonly numerics: string;
  readonly seconds: number;
  readonly budget_seconds: number;
  readonly modes_seconds: number;
  /** The headline is first. */
  readonly statements: readonly string[];
  readonly machine: readonly MachineFact[];
  readonly notes: readonly string[];
  readonly result: DecisionDetails | null;
  readonly comparison: readonly ComparisonBar[];
  /** Largest ceiling first. */
  readonly knobs: readonly KnobRow[];
  readonly candidates: readonly CandidateRow[];
  readonly race: readonly RaceSeries[];
}

/** A position in a file, as LSP counts. */
export interface LinePosition {
  readonly line: number;
  readonly character: number;
}

/** A part of a file. */
export interface LineRange {
  readonly start: LinePosition;
  readonly end: LinePosition;
}

/** The current position of something; without a URI, an edit removed it. */
export interface GraphPlace {
  /** For example `model.py:12`. */
  readonly place: string;
  readonly uri: string | null;
  readonly range: LineRange | null;
}

/** A box that was folded into another one. */
export interface GraphMember {
  /** For example `model.py:12`. */
  readonly place: string;
  readonly uri: string | null;
  readonly range: LineRange | null;
  readonly label: string;
}

/** A box of the picture. */
export interface GraphBox {
  /** For example `model.py:12`. */
  readonly place: string;
  readonly uri: string | null;
  readonly range: LineRange | null;
  readonly id: string;
  readonly kind: BoxKind;
  /** Dynamo's id of the compile, or the code of the break. */
  readonly name: string;
  readonly title: string;
  readonly facts: readonly string[];
  /** The same for all boxes of one frame. */
  readonly frame: string | null;
  readonly again: boolean;
  /** How many boxes were folded into this one. */
  readonly count: number;
  /** The first of the folded boxes. */
  readonly members: readonly GraphMember[];
}

/** An arrow of the picture. */
export interface GraphArrow {
  readonly start: string;
  readonly end: string;
  readonly kind: ArrowKind;
}

/** A target whose graphs can be shown. */
export interface OfferedTarget {
  readonly uri: string;
  readonly target: string;
  readonly label: string;
}

/** The graphs of a target as a picture. */
export interface GraphPicture {
  readonly found: boolean;
  readonly title: string;
  readonly description: string;
  /** What to do, while there is no picture. */
  readonly message: string;
  readonly boxes: readonly GraphBox[];
  readonly arrows: readonly GraphArrow[];
  readonly targets: readonly OfferedTarget[];
}

/** A line of the job. */
export interface JobPlace {
  /** Where it is here; null if its file is not in the source folders. */
  readonly place: PagePlace | null;
  /** `train.py:12`, or the path in the job. */
  readonly shown: string;
}

/** A finding of the job, the worst first. */
export interface JobFindingRow {
  readonly severity: string;
  readonly code: string;
  readonly title: string;
  /** Its explanation, cost and what to do. */
  readonly details: string;
  readonly at: JobPlace;
  /** Why the line here may not be the line that ran; else empty. */
  readonly state: string;
}

/** What one rank did, or what each rank of a group did. */
export interface JobRankRow {
  readonly label: string;
  readonly ranks: number;
  readonly compiles: number;
  readonly recompilations: number;
  readonly graphs: number;
  readonly graph_breaks: number;
  readonly cache_hits: number;
  readonly cache_misses: number;
  readonly cache_bypasses: number;
  /** Compile time; of a group, that of its slowest rank. */
  readonly seconds: number | null;
  /** The most expensive compile, as `forward, 4.1 s`. */
  readonly slowest: string;
  readonly slowest_at: JobPlace | null;
  /** Whether no rank compiled for longer. */
  readonly is_slowest: boolean;
  /** `1 compile unfinished`; empty if there is none. */
  readonly problems: string;
}

/** The ranks of the job. */
export interface JobRanks {
  readonly count: number;
  readonly world_size: number | null;
  /** Ranks without a log; empty if there is none. */
  readonly missing: string;
  /** Ranks with equal compiles, the largest group first. */
  readonly groups: readonly JobRankRow[];
  readonly rows: readonly JobRankRow[];
  /** Ranks that `rows` leaves out. */
  readonly more: number;
  readonly notes: readonly string[];
}

/** A further line of a difference. */
export interface JobRelatedLine {
  readonly at: JobPlace;
  readonly text: string;
}

/** A place where ranks differ, in order of time. */
export interface JobDifference {
  readonly message: string;
  readonly at: JobPlace | null;
  readonly is_exact: boolean;
  /** Ranks, and what they did. */
  readonly groups: readonly MachineFact[];
  readonly seconds: number | null;
  readonly related: readonly JobRelatedLine[];
}

/** The collective in which ranks were, from torch's flight recorder; or a compile that ranks began later. */
export interface JobWait {
  readonly message: string;
  readonly at: JobPlace | null;
}

/** A compile on the timeline, seconds after its start. */
export interface JobSpan {
  readonly name: string;
  readonly start: number;
  /** Null: the log ends before it. */
  readonly seconds: number | null;
  readonly depth: number;
  readonly compile_id: string | null;
}

/** The compiles of one rank. */
export interface JobTimelineRow {
  readonly label: string;
  readonly spans: readonly JobSpan[];
  readonly is_cut: boolean;
}

/** All ranks over one clock. */
export interface JobTimeline {
  readonly seconds: number;
  readonly rows: readonly JobTimelineRow[];
  readonly more: number;
}

/** All lookups in one cache. */
export interface JobCacheTotal {
  readonly cache: string;
  readonly hits: number;
  readonly misses: number;
  readonly bypasses: number;
  readonly saved: number | null;
  readonly lost: number | null;
}

/** Lookups that cost a compile, the most expensive first; those of ranks that differ in nothing else are one row. */
export interface JobCacheRow {
  readonly cache: string;
  readonly state: string;
  readonly process: string;
  readonly function: string;
  readonly at: JobPlace | null;
  /** Of the process that lost most. */
  readonly lost: number | null;
  readonly causes: readonly string[];
  readonly cures: readonly string[];
  readonly count: number;
}

/** What the caches did. */
export interface JobCaches {
  readonly totals: readonly JobCacheTotal[];
  readonly rows: readonly JobCacheRow[];
  readonly more: number;
  readonly compared_with: string;
  readonly notes: readonly string[];
}

/** Time of one stage of the start. */
export interface JobStage {
  readonly stage: string;
  readonly seconds: number;
}

/** What the start spent on one function, or on what one line imports. */
export interface JobStartLine {
  /** The function, or the text for imports: `imports torch`. */
  readonly function: string;
  readonly at: JobPlace | null;
  /** 0 for imports. */
  readonly compiles: number;
  readonly seconds: number;
  /** Of imports: with the lines of the user's files that they run, which have rows of their own; null without any. */
  readonly with_nested: number | null;
  readonly stages: readonly JobStage[];
  readonly saved: number | null;
}

/** The start of the process that compiled for longest. */
export interface JobStart {
  readonly process: string;
  readonly seconds: number;
  readonly stages: readonly JobStage[];
  readonly lines: readonly JobStartLine[];
  readonly more: number;
  /** What a second start with the same caches would not do: never imports. */
  readonly saved: number | null;
  readonly notes: readonly string[];
}

/** What differs from the other job. */
export interface JobChange {
  /** `new finding`, `recompilations`, `compile time`, ... */
  readonly kind: string;
  readonly is_regression: boolean;
  readonly text: string;
  readonly at: JobPlace | null;
  readonly before: string;
  readonly after: string;
}

/** This job against another one, regressions first. */
export interface JobChanges {
  readonly name: string;
  readonly statements: readonly string[];
  readonly changes: readonly JobChange[];
  readonly more: number;
  readonly notes: readonly string[];
}

/** Another open job. */
export interface JobChoice {
  readonly id: string;
  readonly label: string;
}

/** All that the page of a job shows. */
export interface JobPage {
  /** Whether there is something to show. */
  readonly found: boolean;
  readonly running: boolean;
  /** Whether the code has changed since. */
  readonly stale: boolean;
  readonly title: string;
  /** Without results: what to do. While results are being made: the progress. */
  readonly message: string;
  readonly job: string;
  /** URI of the log or folder that it was opened from. */
  readonly source: string;
  readonly when: string;
  readonly statements: readonly string[];
  readonly facts: readonly MachineFact[];
  readonly notes: readonly string[];
  readonly findings: readonly JobFindingRow[];
  readonly more_findings: number;
  readonly ranks: JobRanks | null;
  readonly differences: readonly JobDifference[];
  readonly more_differences: number;
  readonly waits: readonly JobWait[];
  readonly timeline: JobTimeline | null;
  readonly caches: JobCaches | null;
  readonly start: JobStart | null;
  /** The phases of the compiles of one process. */
  readonly steps: readonly StepRow[];
  /** That process. */
  readonly steps_of: string;
  readonly others: readonly JobChoice[];
  /** Id of the job that it is compared with; empty for none. */
  readonly against: string;
  readonly comparison: JobChanges | null;
}
