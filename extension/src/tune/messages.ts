/**
 * The data of a search's page, as the server sends it, and the messages between the page and the extension.
 *
 * Invariant: types only, so that the bundle of the page contains nothing of VS Code. `null` is unknown. Times are those
 * of one call, in microseconds; moments are seconds since the search began.
 */

import type { BenchTarget } from "../bench/messages";
import type { DrawMessage, ReadyMessage } from "../webview_messages";

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

export type Outcome =
  | "winner"
  | "baseline"
  | "slower"
  | "eliminated"
  | "unconfirmed"
  | "inaccurate"
  | "failed"
  | "skipped"
  | "unfinished";

/** One configuration, in the order of the trials. */
export interface CandidateRow {
  /** Its notation. */
  readonly name: string;
  readonly label: string;
  readonly outcome: Outcome;
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
  /** Null if results were not compared. */
  readonly accurate: boolean | null;
  readonly accuracy: string;
  /** The last stage of the race that it took part in; 0: none. */
  readonly stage: number;
  readonly started_s: number | null;
  readonly ready_s: number | null;
  readonly notes: readonly string[];
}

/** The rounds of one candidate: moment, time and stage of each. */
export interface RaceSeries {
  readonly name: string;
  readonly label: string;
  readonly points: readonly (readonly [number | null, number | null, number])[];
}

/** Eager, a mode of torch.compile, or the winner, which is last. */
export interface ComparedTime {
  readonly name: string;
  readonly label: string;
  /** Of the confirming race where one decided, of all rounds of `default` where that wins. */
  readonly us: number;
  /** Whether it was not in the race that decided: its time comes from its gain over another configuration in rounds of both. */
  readonly estimated: boolean;
  readonly wins: boolean;
}

/** The decision. */
export interface Decision {
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

export interface TunedPage {
  readonly found: boolean;
  readonly running: boolean;
  /** Whether the code has changed since. */
  readonly stale: boolean;
  readonly partial: boolean;
  readonly title: string;
  /** Without a search: what to do. While it runs: its progress. */
  readonly message: string;
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
  readonly machine: readonly { readonly name: string; readonly value: string }[];
  readonly notes: readonly string[];
  readonly result: Decision | null;
  readonly comparison: readonly ComparedTime[];
  /** Largest ceiling first. */
  readonly knobs: readonly KnobRow[];
  readonly candidates: readonly CandidateRow[];
  readonly race: readonly RaceSeries[];
}

/** To the page. */
export type DrawTuning = DrawMessage<BenchTarget, TunedPage>;

/** From the page. */
export type TuneMessage =
  | ReadyMessage
  /** Starts the search again. */
  | { readonly type: "tune" }
  | { readonly type: "cancel" }
  /** Copies the decision as code. */
  | { readonly type: "copy" }
  /** Opens the tuned file. */
  | { readonly type: "openFile" }
  /** Applies the fixes that the decision needs. */
  | { readonly type: "applyFixes" };
