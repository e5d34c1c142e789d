/**
 * The sections of the page, one for each part of the measurement.
 *
 * Invariant: a section explains in text what it cannot show, and never draws an empty chart.
 */

import type { MeasuredPage, PagePlace, ProfileDetails } from "../../src/messages/page_types";
import { createChart } from "../measured/chart";
import { flameChart } from "../measured/flame_chart";
import { details, list, type Section, section, text } from "../measured/section";
import { type Open, placeCell } from "../measured/table";
import { configurationName, moment, notesOf, percent, sentence, time } from "../measured/words";
import { element } from "../page/dom";
import { linesChart } from "./lines_chart";
import { shownPoints } from "./roofline";
import { rooflineChart } from "./roofline_chart";
import * as tables from "./tables";
import { whereChart } from "./where_chart";

export function verdictSection({ verdict, configurations }: MeasuredPage, open: Open): Section | null {
  const names = configurations.map(({ name }) => name);
  const statement = (text: string, place: PagePlace | null) =>
    place === null ? [sentence(text, names)] : [`${sentence(text, names)}: `, placeCell(place, open)];
  const [headline, ...others] = verdict;
  if (headline === undefined) {
    return null;
  }
  const about = names.length > 2 ? headline.configuration : "";
  const isNamed = ({ configuration }: (typeof others)[number]) => configuration !== "";
  const item = ({ text, place }: (typeof others)[number]) => element("li", {}, ...statement(text, place));
  const ofOthers = others.filter(isNamed).map(item);
  const rest = others.filter((one) => !isNamed(one)).map(item);
  return {
    root: element(
      "section",
      { class: "verdict", "aria-label": "Verdict" },
      element("p", { class: "headline" }, ...statement(headline.text, headline.place)),
      ...(ofOthers.length > 0 ? [element("ul", {}, ...ofOthers)] : []),
      ...(rest.length > 0 && about !== "" ? [text(`Details for ${configurationName(about)}:`)] : []),
      ...(rest.length > 0 ? [element("ul", {}, ...rest)] : []),
    ),
    charts: [],
  };
}

/** Says that the results are incomplete while the benchmark runs. */
export function waitingSection(page: MeasuredPage): Section | null {
  const { found, running, partial } = page;
  if (!running || (found && !partial)) {
    return null;
  }
  const hasTimes = page.configurations.some(({ us }) => us !== null);
  const introduction =
    "Results appear here as they are measured. Each configuration runs in its own process and compiles with empty caches, which takes most of the time. You can continue to work.";
  const words = hasTimes ? "Still measuring: the results are incomplete and may change." : introduction;
  return { root: element("section", {}, element("p", { class: "muted" }, words)), charts: [] };
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
    ...(notes.length > 0 ? [list(notes)] : []),
    ...(facts.length > 0 ? [details("machine", "Machine", element("dl", {}, ...facts))] : []),
  ];
  const title = notes.length > 0 ? "Notes" : "Machine";
  return parts.length === 0 ? null : section(title, parts);
}

/** The sections about the selected configuration. */
export function profileSections(of: ProfileDetails, open: Open): readonly Section[] {
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

/** From this share on, the page does not mention kernel time without a line. */
const known = 0.995;

function whereSection(of: ProfileDetails, open: Open): Section {
  const unattributed = `${percent(1 - of.joined)} of the kernel time has no known line. `;
  const isPartial = of.no_lines === "" && of.joined > 0 && of.joined < known;
  const about = `A profiled call took ${time(of.wall_us)}. Kernels (units of work on the device) ran for ${time(of.kernel_us)} of it. ${isPartial ? unattributed : ""}The profiler (${of.source}) adds time, which the times in the table of configurations do not include.`;
  const shown =
    of.where.length === 0
      ? []
      : [
          createChart(whereChart(of.where), open),
          details("where", "As a table", tables.whereTable(of.where, open)),
        ];
  return section("Where the wall time goes", [text(about), ...shown]);
}

function linesSection({ lines, no_lines, kernels, kernel_us }: ProfileDetails, open: Open): Section {
  if (lines.length === 0) {
    const why = no_lines === "" ? "no kernel has a known line" : no_lines;
    return section("Time by line", [text(`${sentence(why, [])}.`)]);
  }
  const sum = kernels.reduce((all, { us }) => all + us, 0);
  const apart = `Times by line and by kernel are medians (${time(sum)} in total). The bar above is a mean, because some of the profiled calls took far longer than others.`;
  const title = lines.length > 20 ? `As a table, all ${lines.length} lines` : "As a table";
  return section("Time by line", [
    ...(sum < steady * kernel_us ? [text(apart)] : []),
    createChart(linesChart(lines), open),
    details("lines", title, tables.linesTable(lines, open)),
  ]);
}

/** A sum of medians below this share of the mean shows that the calls took very different times. */
const steady = 0.75;

function kernelsSection({ kernels }: ProfileDetails, open: Open): Section {
  const none = kernels.length === 0;
  return section("Kernels", [none ? text("No kernel was recorded.") : tables.kernelsTable(kernels, open)]);
}

function rooflineSection(of: ProfileDetails, open: Open): readonly Section[] {
  const { roofline } = of;
  if (roofline === null) {
    const why = "There is no roofline because the limits of this device are unknown.";
    return [section("Roofline", [text(why)])];
  }
  const shown = shownPoints(roofline).length;
  const left = roofline.points.length - shown;
  const more = `The table has ${left} more ${left === 1 ? "kernel" : "kernels"} without floating-point operations.`;
  const without = left === 0 ? [] : [text(more)];
  const table = details("roofline", "As a table", tables.rooflineTable(of, open));
  if (shown === 0) {
    return left === 0 ? [] : [section("Roofline", [...without, table])];
  }
  const about =
    "Each point is a kernel: its compute rate against its FLOP per byte moved. The lines are the limits of the device, so a kernel close to a line cannot get much faster. Kernels under the slope are limited by memory bandwidth, kernels under a flat line by compute.";
  const chart = createChart(rooflineChart(roofline), open);
  return [section("Roofline", [text(about), chart, ...without, table])];
}

function compileSection({ steps }: ProfileDetails, open: Open): readonly Section[] {
  if (steps.length === 0) {
    return [];
  }
  const about =
    "The phases of the first call; each bar is part of the bar above it. Dynamo traces your Python, AOTAutograd builds the backward graph, Inductor generates kernels, and compilers build the kernels. The names are those that torch reports.";
  const sampled = steps.some((step) => step.sampled)
    ? [text("Dashed bars were measured by sampling, because torch reports no steps there.")]
    : [];
  return [
    section("Compile phases", [
      text(about),
      createChart(flameChart(steps), open),
      ...sampled,
      details("steps", "As a table", tables.stepsTable(steps, open)),
    ]),
  ];
}

export function comparisonSection({ comparison }: MeasuredPage, open: Open): Section | null {
  if (comparison === null) {
    return null;
  }
  const { label, differs, configurations } = comparison;
  const caution = text("The two runs also differ in the following, which may explain a change:");
  const differing = differs.length > 0 ? [caution, list(differs)] : [];
  const shared = configurations.length > 0 ? [] : [text("No configuration was timed in both runs.")];
  return section(`Compared with ${label.replace(/^\d{4}-\d\d-\d\dT[\d:]+Z/, moment)}`, [
    ...differing,
    ...shared,
    ...tables.comparisonTables(comparison, open),
  ]);
}
