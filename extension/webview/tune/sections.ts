/**
 * The sections of a search's page.
 *
 * Invariant: a section explains in text what it cannot show, and never draws an empty chart.
 */

import type {
  CandidateRow,
  ComparisonBar,
  KnobRow,
  RaceSeries,
  TunedPage,
} from "../../src/messages/page_types";
import { createChart } from "../measured/chart";
import { details, list, type Section, section, text } from "../measured/section";
import { sentence, small, table } from "../measured/table";
import * as words from "../measured/words";
import { element } from "../page/dom";
import { knobsChart } from "./knobs_chart";
import { raceChart } from "./race_chart";
import { namesOf, roundsOf, seconds, shownKnobs } from "./shown";

const ESTIMATED =
  "Estimated from its ratio to another configuration in rounds of both: it was not in the race that decided.";

export function decisionSection({ statements, comparison }: TunedPage): Section | null {
  const [headline, ...others] = statements;
  if (headline === undefined) {
    return null;
  }
  const capital = (statement: string) => statement.charAt(0).toUpperCase() + statement.slice(1);
  const times = comparison.length > 1 ? [timesOf(comparison)] : [];
  return {
    root: element(
      "section",
      { class: "verdict", "aria-label": "Decision" },
      element("p", { class: "headline" }, capital(headline)),
      ...times,
      element("ul", {}, ...others.map((one) => element("li", {}, capital(one)))),
    ),
    charts: [],
  };
}

/** The winner against eager and torch's modes, as bars with their numbers. */
function timesOf(rows: readonly ComparisonBar[]): HTMLElement {
  const longest = Math.max(...rows.map(({ us }) => us));
  return element(
    "div",
    { class: "bars", role: "list", "aria-label": "Time of one call" },
    ...rows.map(({ name, label, us, estimated, wins }) =>
      element(
        "div",
        { role: "listitem", ...(wins ? { class: "winner" } : {}) },
        element("span", { class: "name", title: name }, label),
        element("progress", { max: longest, value: us, "aria-hidden": true }),
        element(
          "span",
          { class: "time", ...(estimated ? { title: ESTIMATED } : {}) },
          `${estimated ? "~" : ""}${words.time(us)}`,
        ),
      ),
    ),
  );
}

export function waitingSection({ running, found, partial }: TunedPage): Section | null {
  if (!running || (found && !partial)) {
    return null;
  }
  const introduction =
    "The search measures eager and default first. Their profile shows what each knob could gain at most, and decides what is tried. Candidates compile side by side, then race in interleaved rounds. Cancel keeps the best configuration so far, which no race has confirmed. You can continue to work, but a busy machine disturbs the timings.";
  return { root: element("section", {}, element("p", { class: "muted" }, introduction)), charts: [] };
}

/** How to use the decision in a program. */
export function replaySection(page: TunedPage): Section | null {
  const { result, file_shown, file_problem, file } = page;
  if (result === null) {
    return null;
  }
  const code = (lines: string) => element("pre", { tabindex: 0 }, element("code", {}, lines));
  const replay =
    file === ""
      ? []
      : [
          text(`Written to ${file_shown}. This line replays it, with nothing measured at start:`),
          code(result.replay),
        ];
  const problem = file_problem === "" ? [] : [element("p", { class: "failure" }, capitalized(file_problem))];
  const plain =
    result.configuration === "default"
      ? []
      : [details("code", "The same without Fuselight: arguments of torch.compile", code(result.code))];
  const parts = [...problem, ...replay, ...plain];
  return parts.length === 0 ? null : section("Use it", parts);
}

export function knobsSection({ knobs }: TunedPage): Section | null {
  if (knobs.length === 0) {
    return null;
  }
  const about =
    "A ceiling is the speed-up over default if a knob removed all of the part of a call that it acts on. It comes from default's profile, before anything is tried; what cannot gain more than the noise is not tried.";
  const charts = shownKnobs(knobs).length === 0 ? [] : [createChart(knobsChart(knobs), null)];
  return section("What each knob could gain at most", [
    text(about),
    ...charts,
    details("knobs", `As a table, with the reasons, all ${knobs.length} knobs`, knobsTable(knobs)),
  ]);
}

function knobsTable(knobs: readonly KnobRow[]): HTMLElement {
  return table<KnobRow>(
    "Knobs, largest ceiling first",
    [
      { title: "Knob", cell: ({ label, meaning }) => [label, sentence(meaning)] },
      { title: "At most", isNumber: true, cell: ({ ceiling }) => words.speedup(ceiling) },
      { title: "Of a call", isNumber: true, cell: ({ bound_us }) => words.time(bound_us) },
      { title: "Tried", cell: ({ tried }) => (tried ? "yes" : "no") },
      { title: "Why", cell: ({ bound, why }) => [bound, sentence(why)] },
    ],
    knobs,
  );
}

export function candidatesSection({ candidates }: TunedPage): Section | null {
  const tried = candidates.filter(({ outcome }) => outcome !== "skipped");
  const skipped = candidates.filter(({ outcome }) => outcome === "skipped");
  if (candidates.length === 0) {
    return null;
  }
  return section("Configurations, in the order of the trials", [
    ...(tried.length > 0 ? [candidatesTable(tried)] : []),
    ...(skipped.length > 0
      ? [
          details(
            "skipped",
            `Not tried: ${skipped.length}`,
            list(skipped.map(({ label, why }) => `${label}: ${why}`)),
          ),
        ]
      : []),
  ]);
}

function candidatesTable(rows: readonly CandidateRow[]): HTMLElement {
  return table<CandidateRow>(
    "Configurations that were started: times of one call",
    [
      { title: "Configuration", cell: ({ label, name }) => [label, small(label === name ? "" : name)] },
      { title: "Outcome", cell: outcomeCell },
      {
        title: "Median of all rounds",
        isNumber: true,
        cell: (row) => [
          words.withSpread(row),
          ...(row.unsteady ? [element("strong", { class: "doubt" }, " unsteady")] : []),
        ],
      },
      { title: "Gain over default", isNumber: true, cell: ({ gain }) => words.speedup(gain) },
      { title: "Over eager", isNumber: true, cell: ({ speedup }) => words.speedup(speedup) },
      { title: "Results", cell: resultsCell },
      { title: "First call", isNumber: true, cell: ({ first_us }) => words.time(first_us) },
      {
        title: "Peak memory",
        isNumber: true,
        isKnown: ({ peak_bytes, memory }) => peak_bytes !== null || memory !== null,
        cell: ({ peak_bytes, memory }) => [words.bytes(peak_bytes), small(memory?.text ?? "")],
      },
      { title: "Compiled", isNumber: true, isKnown: ({ ready_s }) => ready_s !== null, cell: compiledCell },
    ],
    rows,
  );
}

function outcomeCell({ outcome, outcome_words, why, stage }: CandidateRow): readonly (string | Node)[] {
  const isBad = outcome === "failed" || outcome === "inaccurate";
  const raced = stage > 0 ? `raced to stage ${stage}` : "";
  return [
    element(outcome === "winner" ? "strong" : "span", isBad ? { class: "failure" } : {}, outcome_words),
    sentence(why),
    small(raced),
  ];
}

function resultsCell({ accurate, accuracy }: CandidateRow): readonly (string | Node)[] {
  const verdict = { true: "passed", false: "WRONG", null: words.unknown }[String(accurate)] ?? words.unknown;
  return [
    element("span", accurate === false ? { class: "failure" } : {}, verdict),
    sentence(accurate === true ? "" : accuracy),
  ];
}

/** From its start to its readiness, in seconds of the search. */
function compiledCell({ started_s, ready_s }: CandidateRow): string {
  return started_s === null || ready_s === null
    ? words.unknown
    : `${seconds(started_s)} to ${seconds(ready_s)}`;
}

export function raceSection({ race }: TunedPage): Section | null {
  if (race.every((one) => roundsOf(one).length === 0)) {
    return null;
  }
  const about =
    "The rounds of the candidates are interleaved, so that a machine that slows down slows all of them. Those that are clearly too slow leave after a stage. The confirming race of the winner against default decides; eager and torch's modes may be timed after it.";
  return section("The race over time", [
    text(about),
    createChart(raceChart(race), null),
    details("race", "As a table", raceTable(race)),
  ]);
}

function raceTable(race: readonly RaceSeries[]): HTMLElement {
  const names = namesOf(race);
  const rows = race
    .flatMap((one, index) => roundsOf(one).map((round) => ({ ...round, name: names[index] ?? one.name })))
    .toSorted((left, right) => left.at - right.at);
  return table<(typeof rows)[number]>(
    "Rounds of the race, in order",
    [
      { title: "Configuration", cell: ({ name }) => name },
      { title: "At", isNumber: true, cell: ({ at }) => seconds(at) },
      { title: "Stage", isNumber: true, cell: ({ stage }) => String(stage) },
      { title: "Time of one call", isNumber: true, cell: ({ us }) => words.time(us) },
    ],
    rows,
  );
}

export function notesSection({ notes, machine, numerics }: TunedPage): Section | null {
  const facts = [...(numerics === "" ? [] : [{ name: "numerics", value: numerics }]), ...machine];
  const terms = facts.flatMap(({ name, value }) => [element("dt", {}, name), element("dd", {}, value)]);
  const parts = [
    ...(notes.length > 0 ? [list(notes)] : []),
    ...(facts.length > 0 ? [details("machine", "Machine", element("dl", {}, ...terms))] : []),
  ];
  return parts.length === 0 ? null : section(notes.length > 0 ? "Notes" : "Machine", parts);
}

function capitalized(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
