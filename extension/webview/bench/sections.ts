/**
 * The sections of the page, each made of one part of what was measured.
 *
 * Invariant: a section says in words what it cannot show, and never draws an empty chart.
 */

import type { Details, MeasuredPage, Place, Row } from "../../src/bench_messages";
import { element } from "../dom";
import { type Chart, createChart } from "./chart";
import { flameChart } from "./flame_chart";
import { linesChart } from "./lines_chart";
import { shownPoints } from "./roofline";
import { rooflineChart } from "./roofline_chart";
import type { Open } from "./tables";
import * as tables from "./tables";
import { whereChart } from "./where_chart";
import { percent, time } from "./words";

/** A section, and the charts in it that have to be drawn once it is in the document. */
export interface Section {
  readonly root: HTMLElement;
  readonly charts: readonly Chart[];
}

export function verdictSection({ verdict }: MeasuredPage, open: Open): Section | null {
  const [headline, ...others] = verdict.map(({ text, place }) => sentence(text, place, open));
  if (headline === undefined) {
    return null;
  }
  const rest = others.map((parts) => element("li", {}, ...parts));
  return {
    root: element(
      "section",
      { class: "verdict", "aria-label": "Verdict" },
      element("p", { class: "headline" }, ...headline),
      ...(rest.length > 0 ? [element("ul", {}, ...rest)] : []),
    ),
    charts: [],
  };
}

function sentence(text: string, place: Place | null, open: Open): readonly (string | Node)[] {
  return place === null ? [text] : [`${text} `, tables.placeCell(place, open)];
}

export function configurationsSection(rows: readonly Row[], open: Open): Section | null {
  if (rows.length === 0) {
    return null;
  }
  const tensors = tables.tensorsTable(rows);
  const more = tensors === null ? [] : [details("accuracy", "Accuracy, tensor by tensor", tensors)];
  return section("Configurations", [tables.configurationsTable(rows, open), ...more]);
}

export function notesSection({ notes, machine }: MeasuredPage): Section | null {
  const facts = machine.flatMap(({ name, value }) => [element("dt", {}, name), element("dd", {}, value)]);
  const parts = [
    ...(notes.length > 0
      ? [element("ul", { class: "notes" }, ...notes.map((note) => element("li", {}, note)))]
      : []),
    ...(facts.length > 0 ? [details("machine", "Where it was measured", element("dl", {}, ...facts))] : []),
  ];
  return parts.length === 0 ? null : section("What to know of these numbers", parts);
}

/** Of the configuration that was chosen. */
export function profileSections(of: Details, open: Open): readonly Section[] {
  if (of.source === "") {
    return compileSection(of, open);
  }
  return [
    whereSection(of, open),
    linesSection(of, open),
    kernelsSection(of, open),
    ...rooflineSection(of, open),
    ...compileSection(of, open),
  ];
}

function whereSection(of: Details, open: Open): Section {
  const told = `${time(of.wall_us)} by the wall clock with the profiler on (${of.source}), ${time(of.kernel_us)} of them in kernels; ${percent(of.joined)} of the kernels' time is joined to lines.`;
  if (of.where.length === 0) {
    return section("Where the wall time goes", [element("p", {}, told)]);
  }
  const chart = createChart(whereChart(of.where), open);
  const table = details("where", "As a table", tables.whereTable(of.where, open));
  return section("Where the wall time goes", [element("p", {}, told), chart.root, table], [chart]);
}

function linesSection({ lines }: Details, open: Open): Section {
  if (lines.length === 0) {
    return section("Time by line", [element("p", {}, "No kernel is joined to a line.")]);
  }
  const chart = createChart(linesChart(lines), open);
  const title = lines.length > 20 ? `As a table, all ${lines.length} lines` : "As a table";
  return section(
    "Time by line",
    [chart.root, details("lines", title, tables.linesTable(lines, open))],
    [chart],
  );
}

function kernelsSection({ kernels }: Details, open: Open): Section {
  const content =
    kernels.length === 0 ? element("p", {}, "No kernel was seen.") : tables.kernelsTable(kernels, open);
  return section("Kernels", [content]);
}

function rooflineSection(of: Details, open: Open): readonly Section[] {
  const { roofline } = of;
  if (roofline === null) {
    const why =
      "The limits of this device are not known, so there is no roofline to hold the kernels against.";
    return [section("Roofline", [element("p", {}, why)])];
  }
  const shown = shownPoints(roofline).length;
  const left = roofline.points.length - shown;
  const without =
    left === 0
      ? []
      : [element("p", {}, `${left} more that count no floating-point operations are in the table only.`)];
  const table = details("roofline", "As a table", tables.rooflineTable(of, open));
  if (shown === 0) {
    return [section("Roofline", [...without, ...(left > 0 ? [table] : [])])].filter(() => left > 0);
  }
  const chart = createChart(rooflineChart(roofline), open);
  return [section("Roofline", [chart.root, ...without, table], [chart])];
}

function compileSection({ steps }: Details, open: Open): readonly Section[] {
  if (steps.length === 0) {
    return [];
  }
  const chart = createChart(flameChart(steps), open);
  const sampled = steps.some((step) => step.sampled)
    ? [element("p", {}, "Dashed: seen by samples, where torch itself tells of nothing.")]
    : [];
  return [
    section(
      "Cold compile",
      [chart.root, ...sampled, details("steps", "As a table", tables.stepsTable(steps, open))],
      [chart],
    ),
  ];
}

export function comparisonSection({ comparison }: MeasuredPage, open: Open): Section | null {
  if (comparison === null) {
    return null;
  }
  const { label, differs } = comparison;
  const told = differs.map((text) => element("li", {}, text));
  const without = element("p", {}, "Not the same for both, so that a change may not be the code's:");
  const differing = told.length > 0 ? [without, element("ul", { class: "notes" }, ...told)] : [];
  return section(`Against ${label}`, [...differing, ...tables.comparisonTables(comparison, open)]);
}

let sections = 0;

function section(title: string, content: readonly Node[], charts: readonly Chart[] = []): Section {
  sections += 1;
  const id = `section-${sections}`;
  const root = element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...content);
  return { root, charts };
}

/** `key` finds it again in the next drawing, so that what was open stays open. */
function details(key: string, title: string, content: Node): HTMLDetailsElement {
  return element("details", { "data-key": key }, element("summary", { "aria-label": title }, title), content);
}
