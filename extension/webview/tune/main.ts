/**
 * A search's page: in VS Code next to the source, or standalone with the data of an exported file.
 *
 * Invariant: it draws the data that it receives and computes no times.
 */

import type { BenchTarget } from "../../src/bench/messages";
import type { DrawTuning, TunedPage, TuneMessage } from "../../src/tune/messages";
import type { Chart } from "../bench/chart";
import type { Section } from "../bench/sections";
import { onThemeChange } from "../bench/theme";
import { moment } from "../bench/words";
import { button, element } from "../dom";
import { acquireHost } from "../host";
import { keepReading } from "../reading";
import {
  candidatesSection,
  decisionSection,
  knobsSection,
  notesSection,
  raceSection,
  replaySection,
  waitingSection,
} from "./sections";

const host = acquireHost<TuneMessage, BenchTarget>();
let page: TunedPage | null = null;
let charts: readonly Chart[] = [];

const title = element("h1");
const description = element("p");
const status = element("p", { class: "status", role: "status" });
const toolbar = element("div", { class: "bar" });
const main = element("main");
document.body.append(
  element("header", {}, element("div", { class: "words" }, title, description), status, toolbar),
  main,
);

function draw(next: TunedPage): void {
  const before = page;
  page = next;
  drawHead(next);
  if (before === null || !sameBody(before, next)) {
    drawBody(next);
  }
}

function drawHead(shown: TunedPage): void {
  title.textContent = `Tuning of ${shown.title}`;
  document.title = title.textContent;
  description.textContent = shown.found ? summary(shown) : "";
  const stale = "The code has changed since this was measured.";
  status.textContent = shown.running || !shown.found ? shown.message : shown.stale ? stale : "";
  status.classList.toggle("running", shown.running);
  status.classList.toggle("doubt", !shown.running && shown.found && shown.stale);
}

/** While a search runs, often only the text of its progress changes. */
function sameBody(left: TunedPage, right: TunedPage): boolean {
  const body = (one: TunedPage) => JSON.stringify({ ...one, message: "", stale: false });
  return body(left) === body(right);
}

function drawBody(shown: TunedPage): void {
  const kept = keepReading(main);
  const readings = new Map(charts.map((chart) => [chart.key, chart.reading()]));
  for (const chart of charts) {
    chart.dispose();
  }
  toolbar.replaceChildren(...tools(shown));
  const sections: readonly (Section | null)[] = [
    waitingSection(shown),
    decisionSection(shown),
    replaySection(shown),
    candidatesSection(shown),
    raceSection(shown),
    knobsSection(shown),
    notesSection(shown),
  ];
  const there = sections.filter((section) => section !== null);
  main.replaceChildren(...there.map(({ root }) => root));
  charts = there.flatMap((section) => section.charts);
  for (const chart of charts) {
    const reading = readings.get(chart.key);
    if (reading !== undefined) {
      chart.resume(reading);
    }
    chart.draw();
  }
  kept();
}

function tools(shown: TunedPage): readonly HTMLElement[] {
  if (host === null) {
    return [];
  }
  const send = (type: TuneMessage["type"]) => () => host.postMessage({ type });
  const { result, running, found, file } = shown;
  const start = found ? "Tune again" : "Tune";
  return [
    element(
      "div",
      { class: "group" },
      running
        ? button(
            "Cancel",
            "Cancel the search and keep the best configuration that was confirmed",
            send("cancel"),
          )
        : button(start, "Search the fastest configuration of this target", send("tune")),
    ),
    ...(result === null
      ? []
      : [
          button("Copy as torch.compile(...)", "Copy the decision as Python without Fuselight", send("copy")),
        ]),
    ...(file === ""
      ? []
      : [button("Open fuselight-tuned.json", "Open the file that a program replays", send("openFile"))]),
    ...(result === null || result.fixes.length === 0
      ? []
      : [button("Apply the fixes", "Apply the verified fixes that the decision needs", send("applyFixes"))]),
  ];
}

function summary(shown: TunedPage): string {
  const inputs = shown.inputs.length > 0 ? ` of ${shown.inputs.join(", ")}` : "";
  const device = shown.machine.find(({ name }) => name === "device")?.value;
  const when = shown.when === "" ? "" : `tuned on ${device ?? "an unknown device"}, ${moment(shown.when)}`;
  return [shown.path, `${shown.work}${inputs}`, when].filter((part) => part !== "").join(" \u00b7 ");
}

window.addEventListener("message", ({ data }: MessageEvent<DrawTuning>) => {
  if (host !== null && data.type === "draw") {
    draw(data.page);
    host.setState({ uri: data.of.uri, target: data.of.target });
  }
});
onThemeChange(() => {
  for (const chart of charts) {
    chart.draw();
  }
});

const carried = document.getElementById("page");
if (host === null && carried !== null) {
  draw(JSON.parse(carried.textContent) as TunedPage);
} else {
  host?.postMessage({ type: "ready" });
}
