/**
 * The sections of a job's page.
 *
 * Invariant: a section explains in text what it cannot show, and never draws an empty chart.
 */

import type {
  JobCacheRow,
  JobCacheTotal,
  JobChange,
  JobDifference,
  JobFindingRow,
  JobPage,
  JobPlace,
  JobRankRow,
  JobStartLine,
} from "../../src/messages/page_types";
import { createChart } from "../measured/chart";
import { flameChart } from "../measured/flame_chart";
import { details, list, type Section, section, text } from "../measured/section";
import * as tables from "../measured/table";
import { type Cell, type Column, type Open, placeCell, sentence, small } from "../measured/table";
import * as words from "../measured/words";
import { element } from "../page/dom";
import { estimate, leftOut, lookups, ranksOf, savedAgain, seconds } from "./shown";
import { startChart } from "./start_chart";
import { timelineChart } from "./timeline_chart";

/** The place of a finding; the path in the job if its file is not here. */
function at(where: JobPlace | null, open: Open): Cell {
  if (where === null) {
    return words.unknown;
  }
  return where.place === null ? element("code", {}, where.shown) : placeCell(where.place, open);
}

/** A table of the page: each has lines of source next to sentences. */
function table<T>(caption: string, columns: readonly Column<T>[], rows: readonly T[]): HTMLElement {
  const shown = tables.table(caption, columns, rows);
  shown.classList.add("short-lines");
  return shown;
}

function note(more: number, noun: string): readonly HTMLElement[] {
  const words = leftOut(more, noun);
  return words === null ? [] : [element("p", { class: "muted" }, words)];
}

export function comparisonSection({ comparison }: JobPage, open: Open): Section | null {
  if (comparison === null) {
    return null;
  }
  const { name, statements, changes, more, notes } = comparison;
  const shown = table<JobChange>(
    "Differences, regressions first",
    [
      { title: "Difference", cell: changeCell },
      { title: "Before", isKnown: ({ before }) => before !== "", cell: ({ before }) => before },
      { title: "Now", isKnown: ({ after }) => after !== "", cell: ({ after }) => after },
      { title: "Line", cell: (row) => at(row.at, open) },
    ],
    changes,
  );
  return section(`Compared with ${name}`, [
    list(statements),
    ...(changes.length === 0 ? [] : [shown]),
    ...note(more, "difference"),
    ...(notes.length === 0 ? [] : [list(notes)]),
  ]);
}

function changeCell({ kind, is_regression, text: what }: JobChange): Cell {
  return [
    element(is_regression ? "strong" : "span", is_regression ? { class: "failure" } : {}, kind),
    element("div", { class: "wide" }, what),
  ];
}

export function findingsSection({ findings, more_findings, running }: JobPage, open: Open): Section {
  if (findings.length === 0) {
    return section("Findings", [text(running ? "None yet." : "The logs show no findings.")]);
  }
  const shown = table<JobFindingRow>(
    "Findings, the worst first",
    [
      { title: "Code", cell: ({ code, severity }) => [code, small(severity)] },
      { title: "Finding", cell: findingCell },
      { title: "Line", cell: (row) => [at(row.at, open), small(row.state)].flat() },
    ],
    findings,
  );
  return section("Findings", [shown, ...note(more_findings, "finding")]);
}

function findingCell({ code, title, details: message, at: where }: JobFindingRow): Cell {
  const more = details(`${code} ${where.shown} ${title}`, "Details", element("pre", {}, message));
  return [element("div", { class: "wide" }, title), ...(message === "" ? [] : [more])];
}

export function differencesSection(page: JobPage, open: Open): Section | null {
  const { differences, more_differences, ranks } = page;
  if (ranks === null) {
    return null;
  }
  if (differences.length === 0) {
    return ranks.count < 2
      ? null
      : section("Where ranks differ", [text("Nowhere: all ranks compiled the same.")]);
  }
  const items = differences.map((difference, index) => differenceItem(difference, index === 0, open));
  const about =
    differences.length > 1
      ? [text("In order of time. Later differences may follow from the first one.")]
      : [];
  return section("Where ranks differ", [
    ...about,
    element("ol", { class: "differences" }, ...items),
    ...note(more_differences, "difference"),
  ]);
}

function differenceItem(difference: JobDifference, isFirst: boolean, open: Open): HTMLElement {
  const { message, is_exact, groups, seconds: costs, related } = difference;
  const where = difference.at === null ? [] : [at(difference.at, open)].flat();
  const near = difference.at !== null && !is_exact ? [" (the nearest line that the logs name)"] : [];
  return element(
    "li",
    {},
    element(isFirst ? "strong" : "span", {}, message),
    element(
      "div",
      {},
      ...where,
      ...near,
      ...(costs === null ? [] : [` \u00b7 ${seconds(costs)} more compile time`]),
    ),
    ...groups.map(({ name, value }) =>
      element("div", { class: "group-of-ranks" }, element("b", {}, name), `: ${value}`),
    ),
    ...related.map((line) =>
      element("div", { class: "small" }, ...[at(line.at, open)].flat(), ` ${line.text}`),
    ),
  );
}

export function waitsSection({ waits }: JobPage, open: Open): Section | null {
  if (waits.length === 0) {
    return null;
  }
  const items = waits.map((wait) =>
    element("li", {}, wait.message, " ", ...(wait.at === null ? [] : [at(wait.at, open)].flat())),
  );
  return section("Ranks later than the others", [element("ul", { class: "notes" }, ...items)]);
}

export function ranksSection({ ranks }: JobPage, open: Open): Section | null {
  if (ranks === null) {
    return null;
  }
  const { count, world_size, missing, groups, rows, more, notes } = ranks;
  const size =
    world_size === null || world_size === count ? "" : ` of a world of ${words.number(world_size)}`;
  const gone = missing === "" ? "" : ` No log of ${missing}.`;
  const grouped =
    groups.length < 2
      ? [text(count < 2 ? "" : "All ranks have the same compiles.")]
      : [
          table<JobRankRow>(
            "Ranks with equal compiles, the largest group first",
            [
              { title: "Group", cell: ({ label }) => label },
              { title: "Ranks", isNumber: true, cell: (row) => ranksOf(row, count) },
              ...rankColumns(open),
            ],
            groups,
          ),
        ];
  const all = table<JobRankRow>(
    "Ranks",
    [{ title: "Rank", cell: ({ label }) => label }, ...rankColumns(open)],
    rows,
  );
  return section("Ranks", [
    text(`${words.number(count)} rank${count === 1 ? "" : "s"}${size}.${gone}`),
    ...grouped,
    details(
      "ranks",
      more === 0 ? `Each of ${words.number(count)} ranks` : `The first ${rows.length} ranks`,
      all,
    ),
    ...note(more, "rank"),
    ...(notes.length === 0 ? [] : [list(notes)]),
  ]);
}

function rankColumns(open: Open): readonly Column<JobRankRow>[] {
  const caches = ({ cache_hits, cache_misses, cache_bypasses }: JobRankRow) =>
    `${cache_hits} / ${cache_misses} / ${cache_bypasses}`;
  return [
    { title: "Compiles", isNumber: true, cell: ({ compiles }) => words.number(compiles) },
    { title: "Recompilations", isNumber: true, cell: ({ recompilations }) => words.number(recompilations) },
    { title: "Graphs", isNumber: true, cell: ({ graphs }) => words.number(graphs) },
    { title: "Breaks", isNumber: true, cell: ({ graph_breaks }) => words.number(graph_breaks) },
    { title: "Cache hits / misses / bypasses", isNumber: true, cell: caches },
    {
      title: "Compile time",
      isNumber: true,
      isKnown: ({ seconds: spent }) => spent !== null,
      cell: ({ seconds: spent, is_slowest }) =>
        is_slowest ? [element("strong", {}, seconds(spent)), small("slowest")] : seconds(spent),
    },
    {
      title: "Slowest compile",
      isKnown: ({ slowest }) => slowest !== "",
      cell: ({ slowest, slowest_at }) => [slowest, " ", ...[at(slowest_at, open)].flat()],
    },
    {
      title: "Problems",
      isKnown: ({ problems }) => problems !== "",
      cell: ({ problems }) => element("span", { class: "failure" }, problems),
    },
  ];
}

export function timelineSection({ timeline }: JobPage): Section | null {
  if (timeline === null || timeline.rows.every(({ spans }) => spans.length === 0)) {
    return null;
  }
  const about =
    "Each box is a compile of a rank, by the clock of its machine: clocks of several machines can differ. The logs do not show whether a rank waited.";
  return section("Timeline of ranks", [
    text(about),
    createChart(timelineChart(timeline), null),
    ...note(timeline.more, "rank"),
  ]);
}

export function cachesSection({ caches }: JobPage, open: Open): Section | null {
  if (caches === null || (caches.totals.length === 0 && caches.notes.length === 0)) {
    return null;
  }
  const { totals, rows, more, compared_with, notes } = caches;
  const compared = compared_with === "" ? [] : [text(`Keys are compared with those of ${compared_with}.`)];
  return section("Caches", [
    ...compared,
    ...(totals.length === 0 ? [] : [totalsTable(totals)]),
    ...(rows.length === 0 ? [] : [lostTable(rows, open)]),
    ...note(more, "lookup"),
    ...(notes.length === 0 ? [] : [list(notes)]),
  ]);
}

function totalsTable(totals: readonly JobCacheTotal[]): HTMLElement {
  return table<JobCacheTotal>(
    "Lookups of each cache",
    [
      { title: "Cache", cell: ({ cache }) => cache },
      { title: "Hits", isNumber: true, cell: ({ hits }) => words.number(hits) },
      { title: "Misses", isNumber: true, cell: ({ misses }) => words.number(misses) },
      { title: "Bypasses", isNumber: true, cell: ({ bypasses }) => words.number(bypasses) },
      {
        title: "Saved",
        isNumber: true,
        isKnown: ({ saved }) => saved !== null,
        cell: ({ saved }) => seconds(saved),
      },
      {
        title: "Lost",
        isNumber: true,
        isKnown: ({ lost }) => lost !== null,
        cell: ({ lost }) => estimate(lost),
      },
    ],
    totals,
  );
}

function lostTable(rows: readonly JobCacheRow[], open: Open): HTMLElement {
  return table<JobCacheRow>(
    "Misses and bypasses, the most expensive first",
    [
      { title: "Cache", cell: ({ cache, process }) => [cache, small(process)] },
      { title: "Result", cell: (row) => lookups(row) },
      {
        title: "Function",
        cell: ({ function: name, at: where }) => [name, " ", ...[at(where, open)].flat()],
      },
      {
        title: "Lost at most",
        isNumber: true,
        isKnown: ({ lost }) => lost !== null,
        cell: ({ lost }) => estimate(lost),
      },
      {
        title: "Cause",
        cell: ({ causes, cures }) => [
          ...causes.map((cause) => element("div", { class: "wide" }, cause)),
          ...cures.map((cure) => sentence(cure)),
        ],
      },
    ],
    rows,
  );
}

export function startSection({ start }: JobPage, open: Open): Section | null {
  if (start === null) {
    return null;
  }
  const { process, seconds: whole, stages, lines, more, saved, notes } = start;
  const parts = stages.map(({ stage, seconds: spent }) => `${stage} ${seconds(spent)}`).join(", ");
  const rows = table<JobStartLine>(
    "Lines that import and functions that were compiled, longest first",
    [
      { title: "What it does", cell: ({ function: name }) => name },
      { title: "Time", isNumber: true, cell: ({ seconds: spent }) => seconds(spent) },
      { title: "Line", cell: (row) => at(row.at, open) },
      {
        title: "Compiles",
        isNumber: true,
        cell: ({ compiles }) => (compiles === 0 ? "" : words.number(compiles)),
      },
      {
        title: "With what it imports",
        isNumber: true,
        isKnown: (row) => row.with_nested !== null,
        cell: (row) => seconds(row.with_nested),
      },
      {
        title: "Stages",
        cell: (row) =>
          sentence(row.stages.map(({ stage, seconds: spent }) => `${stage} ${seconds(spent)}`).join(", ")),
      },
      {
        title: "A second start saves",
        isNumber: true,
        isKnown: (row) => row.saved !== null,
        cell: (row) => estimate(row.saved),
      },
    ],
    lines,
  );
  return section("The start", [
    text(
      `${process}, which compiled for longest: ${seconds(whole)}: ${parts}. ${savedAgain(saved)}`.trimEnd(),
    ),
    createChart(startChart(start), open),
    details("start", "As a table", rows),
    ...note(more, "line"),
    ...(notes.length === 0 ? [] : [list(notes)]),
  ]);
}

export function flameSection({ steps, steps_of }: JobPage, open: Open): Section | null {
  if (steps.length === 0) {
    return null;
  }
  const spec = flameChart(steps, {
    axis: "time since the first compile",
    about: `Phases of the compiles of ${steps_of}`,
  });
  return section(`Phases of the compiles of ${steps_of}`, [createChart(spec, open)]);
}

export function notesSection({ notes, facts }: JobPage): Section | null {
  const terms = facts.flatMap(({ name, value }) => [element("dt", {}, name), element("dd", {}, value)]);
  const parts = [
    ...(notes.length > 0 ? [list(notes)] : []),
    ...(facts.length > 0 ? [details("facts", "What the logs record", element("dl", {}, ...terms))] : []),
  ];
  return parts.length === 0 ? null : section("Notes", parts);
}
