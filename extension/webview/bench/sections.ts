/**
 * The sections of the page, each made of one part of what was measured.
 *
 * Invariant: a section says in words what it cannot show, and never draws an empty chart.
 */

import type { Details, MeasuredPage, Place } from "../../src/bench/messages";
import { element } from "../dom";
import { type Chart, createChart } from "./chart";
import { flameChart } from "./flame_chart";
import { linesChart } from "./lines_chart";
import { shownPoints } from "./roofline";
import { rooflineChart } from "./roofline_chart";
import type { Open } from "./tables";
import * as tables from "./tables";
import { whereChart } from "./where_chart";
import { configurationName, moment, notesOf, percent, sentence, time } from "./words";

/** A section, and the charts in it that have to be drawn once it is in the document. */
export interface Section {
  readonly root: HTMLElement;
  readonly charts: readonly Chart[];
}

export function verdictSection({ verdict, configurations }: MeasuredPage, open: Open): Section | null {
  const names = configurations.map(({ name }) => name);
  const said = (text: string, place: Place | null) =>
    place === null ? [sentence(text, names)] : [`${sentence(text, names)}: `, tables.placeCell(place, open)];
  const [headline, ...others] = verdict;
  if (headline === undefined) {
    return null;
  }
  const about = names.length > 2 ? headline.configuration : "";
  const isNamed = ({ configuration }: (typeof others)[number]) => configuration !== "";
  const item = ({ text, place }: (typeof others)[number]) => element("li", {}, ...said(text, place));
  const ofOthers = others.filter(isNamed).map(item);
  const rest = others.filter((one) => !isNamed(one)).map(item);
  return {
    root: element(
      "section",
      { class: "verdict", "aria-label": "Verdict" },
      element("p", { class: "headline" }, ...said(headline.text, headline.place)),
      ...(ofOthers.length > 0 ? [element("ul", {}, ...ofOthers)] : []),
      ...(rest.length > 0 && about !== ""
        ? [element("p", {}, `Details for ${configurationName(about)}:`)]
        : []),
      ...(rest.length > 0 ? [element("ul", {}, ...rest)] : []),
    ),
    charts: [],
  };
}

/** Until all is there: that what stands here already is not all, and may change. */
export function waitingSection(page: MeasuredPage): Section | null {
  const { found, running, partial } = page;
  if (!running || (found && !partial)) {
    return null;
  }
  const hasTimes = page.configurations.some(({ us }) => us !== null);
  const patience =
    "What is measured stands here as soon as it is there. Each configuration runs in a process of its own; most of the time goes into compiling, with empty caches, and you can go on working meanwhile.";
  const text = hasTimes ? "Still measuring: what stands here is not all, and may change." : patience;
  return { root: element("section", {}, element("p", { class: "told" }, text)), charts: [] };
}

export function configurationsSection(page: MeasuredPage, open: Open): Section | null {
  const rows = page.configurations;
  if (rows.length === 0) {
    return null;
  }
  const tensors = tables.tensorsTable(rows);
  const more = tensors === null ? [] : [details("accuracy", "Accuracy, tensor by tensor", tensors)];
  return section("Configurations", [tables.configurationsTable(page, open), ...more]);
}

export function notesSection(page: MeasuredPage): Section | null {
  const [notes, { machine }] = [notesOf(page), page];
  const facts = machine.flatMap(({ name, value }) => [element("dt", {}, name), element("dd", {}, value)]);
  const parts = [
    ...(notes.length > 0
      ? [element("ul", { class: "notes" }, ...notes.map((note) => element("li", {}, note)))]
      : []),
    ...(facts.length > 0 ? [details("machine", "Where it was measured", element("dl", {}, ...facts))] : []),
  ];
  const title = notes.length > 0 ? "What to know of these numbers" : "The machine";
  return parts.length === 0 ? null : section(title, parts);
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

/** From this part on, all of the kernels' time is on lines. */
const known = 0.995;

function whereSection(of: Details, open: Open): Section {
  const without = `The line of ${percent(1 - of.joined)} of that is not known. `;
  const joined = of.no_lines === "" && of.joined > 0 && of.joined < known;
  const told = `A call with the profiler on took ${time(of.wall_us)}; kernels, the pieces of work that the device executes, ran for ${time(of.kernel_us)} of it. ${joined ? without : ""}The profiler (${of.source}) takes time of its own: the table above is without it.`;
  if (of.where.length === 0) {
    return section("Where the wall time goes", [element("p", {}, told)]);
  }
  const chart = createChart(whereChart(of.where), open);
  const table = details("where", "As a table", tables.whereTable(of.where, open));
  return section("Where the wall time goes", [element("p", {}, told), chart.root, table], [chart]);
}

function linesSection({ lines, no_lines, kernels, kernel_us }: Details, open: Open): Section {
  if (lines.length === 0) {
    const why = no_lines === "" ? "the line of no kernel is known" : no_lines;
    return section("Time by line", [element("p", {}, `${sentence(why, [])}.`)]);
  }
  const sum = kernels.reduce((all, { us }) => all + us, 0);
  const apart = `Times by line and by kernel are medians, ${time(sum)} in all, and the bar above is a mean: some of the profiled calls took far longer than others.`;
  const chart = createChart(linesChart(lines), open);
  const title = lines.length > 20 ? `As a table, all ${lines.length} lines` : "As a table";
  return section(
    "Time by line",
    [
      ...(sum < steady * kernel_us ? [element("p", {}, apart)] : []),
      chart.root,
      details("lines", title, tables.linesTable(lines, open)),
    ],
    [chart],
  );
}

/** Medians below this part of the mean are of calls that took very different times. */
const steady = 0.75;

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
  const about =
    "How fast each kernel computes (up), by how much it computes for each byte that it moves (across). The nearer a kernel is to the lines, the less is left to win in it. Under the slope the memory sets the limit, under a flat line the arithmetic does.";
  return [section("Roofline", [element("p", {}, about), chart.root, ...without, table], [chart])];
}

function compileSection({ steps }: Details, open: Open): readonly Section[] {
  if (steps.length === 0) {
    return [];
  }
  const chart = createChart(flameChart(steps), open);
  const about =
    "The first call: a bar is a part of the bar above it. Dynamo traces your Python, AOTAutograd builds the backward graph, Inductor generates kernels, and compilers build them. The names are those that torch reports.";
  const sampled = steps.some((step) => step.sampled)
    ? [element("p", {}, "Dashed: measured by sampling, where torch reports no steps.")]
    : [];
  return [
    section(
      "The compile",
      [
        element("p", {}, about),
        chart.root,
        ...sampled,
        details("steps", "As a table", tables.stepsTable(steps, open)),
      ],
      [chart],
    ),
  ];
}

export function comparisonSection({ comparison }: MeasuredPage, open: Open): Section | null {
  if (comparison === null) {
    return null;
  }
  const { label, differs, configurations } = comparison;
  const told = differs.map((text) => element("li", {}, text));
  const without = element("p", {}, "Not the same for both, so that a change may not be the code's:");
  const differing = told.length > 0 ? [without, element("ul", { class: "notes" }, ...told)] : [];
  const none = element("p", {}, "No configuration has a time in both.");
  const shared = configurations.length > 0 ? [] : [none];
  return section(`Against ${label.replace(/^\d{4}-\d\d-\d\dT[\d:]+Z/, moment)}`, [
    ...differing,
    ...shared,
    ...tables.comparisonTables(comparison, open),
  ]);
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
