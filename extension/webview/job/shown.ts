/**
 * Numbers, texts and rows of a job's page. Does not use the DOM.
 *
 * Invariant: nothing is computed but sums and positions of what the server sends.
 */

import type {
  JobCacheRow,
  JobPage,
  JobPlace,
  JobRankRow,
  JobStage,
  JobStartLine,
  JobTimeline,
} from "../../src/messages/page_types";
import { moment, number, time, unknown } from "../measured/words.ts";

/** `4.1 s`, `38 ms`, of seconds. */
export function seconds(value: number | null): string {
  return value === null ? unknown : time(value * 1e6);
}

/** The same for an estimate. */
export function estimate(value: number | null): string {
  return value === null ? unknown : `~${seconds(value)}`;
}

/** `and 12 more`; null if nothing is left out. */
export function leftOut(more: number, noun: string): string | null {
  return more === 0 ? null : `${number(more)} more ${noun}${more === 1 ? "" : "s"} not shown`;
}

/** The line under the heading. */
export function summary({ found, when, statements, against, others }: JobPage): string {
  const other = others.find(({ id }) => id === against);
  const compared = other === undefined ? "" : `compared with ${other.label}`;
  const parts = [when === "" ? "" : `started ${moment(when)}`, ...statements, compared];
  return found ? parts.filter((part) => part !== "").join(" \u00b7 ") : "";
}

/** A lookup in a cache, as `4 misses`. */
export function lookups(row: Pick<JobCacheRow, "state" | "count">): string {
  const plural = row.state === "miss" ? "misses" : row.state === "bypass" ? "bypasses" : row.state;
  return row.count === 1 ? row.state : `${number(row.count)} ${plural}`;
}

/** `2 of 8 ranks`. */
export function ranksOf({ ranks }: JobRankRow, count: number): string {
  return `${number(ranks)} of ${number(count)}`;
}

/** All stages of some lines, the longest in total first. */
export function stagesOf(lines: readonly { readonly stages: readonly JobStage[] }[]): readonly string[] {
  const totals = new Map<string, number>();
  for (const { stage, seconds: spent } of lines.flatMap(({ stages }) => stages)) {
    totals.set(stage, (totals.get(stage) ?? 0) + spent);
  }
  return [...totals].toSorted(([, left], [, right]) => right - left).map(([stage]) => stage);
}

/** Seconds of a stage; 0 if it took none. */
export function secondsOf({ stages }: { readonly stages: readonly JobStage[] }, stage: string): number {
  return stages.find((one) => one.stage === stage)?.seconds ?? 0;
}

/** What a second start with the same caches saves; empty if the log does not show it. */
export function savedAgain(saved: number | null): string {
  if (saved === null) {
    return "";
  }
  const what = saved > 0 ? estimate(saved) : "nothing";
  return `A second start with the same caches would save ${what} of the compiles, and import everything again.`;
}

export function lineName({ at, function: name }: JobStartLine): string {
  return at === null ? name : `${shortPlace(at)}  ${name}`;
}

/** The place, with the end alone of a long path of the job. */
export function shortPlace({ place, shown }: JobPlace): string {
  return place === null ? shown.split("/").slice(-2).join("/") : shown;
}

/** A box of the timeline. */
export interface TimelineBox {
  readonly row: number;
  readonly label: string;
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly isUnfinished: boolean;
  readonly compile: string;
}

/** The boxes of all ranks, in order; what has no end lasts to the end of the timeline. */
export function timelineBoxes({ seconds: whole, rows }: JobTimeline): readonly TimelineBox[] {
  return rows.flatMap(({ label, spans }, row) =>
    spans.map(({ name, start, seconds: lasts, compile_id }) => ({
      row,
      label,
      name,
      start,
      end: lasts === null ? Math.max(whole, start) : start + lasts,
      isUnfinished: lasts === null,
      compile: compile_id ?? "",
    })),
  );
}

/** The names on a timeline, the most frequent first: each has a color. */
export function timelineNames(boxes: readonly TimelineBox[], most: number): readonly string[] {
  const counts = new Map<string, number>();
  for (const { name, start, end } of boxes) {
    counts.set(name, (counts.get(name) ?? 0) + end - start);
  }
  return [...counts]
    .toSorted(([, left], [, right]) => right - left)
    .slice(0, most)
    .map(([name]) => name);
}
