/**
 * A benchmark's page: in VS Code next to the source, or standalone with the data of an exported file.
 *
 * Invariant: it draws the data that it receives and computes no times. Its settings are in VS Code's state, so that a
 * hidden or reloaded page comes back unchanged.
 */

import type { BenchShown, DrawPage, ExportFormat, PageMessage, PageState } from "../../src/messages/bench";
import type { MeasuredPage, PagePlace } from "../../src/messages/page_types";
import { choice } from "../measured/choice";
import { createPageFrame } from "../measured/page_frame";
import type { Section } from "../measured/section";
import { configurationName, moment, pictureName, summary } from "../measured/words";
import { button, element } from "../page/dom";
import { acquireHost } from "../page/host";
import { pictureOf } from "./picture";
import { profileOf } from "./profiles";
import {
  comparisonSection,
  configurationsSection,
  notesSection,
  profileSections,
  verdictSection,
  waitingSection,
} from "./sections";

/** An option's id in place of a run's id. */
const anotherFile = "file";

const host = acquireHost<PageMessage, PageState>();
const open = host === null ? null : (place: PagePlace) => host.postMessage({ type: "open", place });
let of: BenchShown | null = host?.getState() ?? null;
/** The choice of the user; null without one. */
let profile: string | null = host?.getState()?.profile ?? null;
let page: MeasuredPage | null = null;

const frame = createPageFrame();
const again = button("Benchmark", "Benchmark this target again", () =>
  host?.postMessage({ type: "benchmark" }),
);
const cancel = button("Cancel", "Cancel the benchmark", () => host?.postMessage({ type: "cancel" }));

function draw(next: MeasuredPage): void {
  const before = page;
  page = next;
  drawHead(next);
  if (before === null || !sameBody(before, next)) {
    drawBody(next);
  }
}

function drawHead(shown: MeasuredPage): void {
  frame.drawHead(`Benchmark of ${shown.title}`, shown.found ? summary(shown) : "", shown);
  again.textContent = shown.found ? "Benchmark again" : "Benchmark";
  again.hidden = shown.running;
  cancel.hidden = !shown.running;
}

/** While a benchmark runs, often only the text of its progress changes. */
function sameBody(left: MeasuredPage, right: MeasuredPage): boolean {
  const running = (one: MeasuredPage) => one.running && (!one.found || one.partial);
  const body = (one: MeasuredPage) =>
    JSON.stringify({ ...one, message: "", running: running(one), stale: false });
  return body(left) === body(right);
}

function drawBody(shown: MeasuredPage): void {
  frame.drawTools(tools(shown));
  const names = Object.keys(shown.profiles);
  const current = profileOf(shown.profiles, profile);
  const details = current === null ? undefined : shown.profiles[current];
  frame.drawSections([
    waitingSection(shown),
    verdictSection(shown, open),
    configurationsSection(shown, open),
    notesSection(shown),
    comparisonSection(shown, open),
    ...(details === undefined ? [] : [chooseProfile(names, current), ...profileSections(details, open)]),
  ]);
  remember();
}

function chooseProfile(names: readonly string[], current: string | null): Section {
  const root = choice(
    "Details of",
    names.map((name) => ({ id: name, label: configurationName(name) })),
    current,
    (name) => {
      profile = name;
      if (page !== null) {
        drawBody(page);
      }
    },
  );
  root.classList.add("profile");
  return { root, charts: [] };
}

function redrawTools(): void {
  if (page !== null) {
    frame.drawTools(tools(page));
  }
}

function tools(shown: MeasuredPage): readonly HTMLElement[] {
  if (host === null) {
    return shown.found ? [exports([])] : [];
  }
  const runs = shown.history.map(({ id, when, device, label }) => ({
    id,
    label: [moment(when), label, device].filter((part) => part !== "").join(", "),
  }));
  const current = shown.run;
  const others = runs.filter(({ id }) => id !== current);
  const unkept = current === null ? [{ id: "", label: shown.found ? "newest, not saved" : "none" }] : [];
  const choose = (run: string | null, other: string | null) =>
    host.postMessage({ type: "choose", run, with: other === run ? null : other });
  return [
    element("div", { class: "group" }, again, cancel),
    ...(unkept.length + runs.length > 1
      ? [choice("Run", [...unkept, ...runs], current ?? "", (run) => choose(run || null, of?.with ?? null))]
      : []),
    ...(shown.found ? [compareWith(others, (other) => choose(of?.run ?? null, other))] : []),
    ...(current === null
      ? []
      : [
          button("Remove this benchmark", "Remove this benchmark from the history", () =>
            host.postMessage({ type: "forget", run: current }),
          ),
        ]),
    ...(shown.found ? [exports(["json", "csv", "html"])] : []),
  ];
}

/** The choice of another run or an exported file. A chosen file is an entry of the list. */
function compareWith(
  others: readonly { readonly id: string; readonly label: string }[],
  choose: (other: string | null) => void,
): HTMLElement {
  const chosen = of?.with ?? "";
  const isFile = /^([/\\]|[A-Za-z]:)/.test(chosen);
  const files = isFile ? [{ id: chosen, label: chosen.replace(/^.*[\\/]/, "") }] : [];
  const options = [
    { id: "", label: "nothing" },
    ...others,
    ...files,
    { id: anotherFile, label: "an exported file..." },
  ];
  return choice("Compare with", options, chosen, (other) => {
    if (other === anotherFile) {
      host?.postMessage({ type: "chooseFile" });
      redrawTools(); // show the current choice until a file is chosen
    } else {
      choose(other || null);
    }
  });
}

function exports(formats: readonly ExportFormat[]): HTMLElement {
  return element(
    "div",
    { class: "group", role: "group", "aria-label": "Export" },
    "Export",
    ...formats.map((format) =>
      button(format.toUpperCase(), `Export as ${format.toUpperCase()}`, () =>
        host?.postMessage({ type: "export", format }),
      ),
    ),
    button("PNG", "Export the charts as PNG", exportPicture),
  );
}

function exportPicture(): void {
  const name = page === null ? "benchmark.png" : pictureName(page);
  const data = pictureOf(frame.title(), frame.description(), frame.charts());
  if (host !== null) {
    host.postMessage({ type: "picture", name, data });
  } else if (data !== "") {
    element("a", { href: data, download: name }).click();
  }
}

function remember(): void {
  if (of !== null) {
    host?.setState({ ...of, profile });
  }
}

window.addEventListener("message", ({ data }: MessageEvent<DrawPage>) => {
  if (host !== null && data.type === "draw") {
    of = data.of;
    draw(data.page);
    remember();
  }
});

const carried = document.getElementById("page");
if (host === null && carried !== null) {
  draw(JSON.parse(carried.textContent) as MeasuredPage);
} else {
  host?.postMessage({ type: "ready" });
}
