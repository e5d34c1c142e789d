/**
 * The frame of a page of measurements: its head, its toolbar, and its sections with their charts.
 *
 * Invariant: what a reader has opened, scrolled to and selected stays across a redraw.
 */

import { element } from "../page/dom";
import { keepReading } from "../page/reading";
import type { Chart } from "./chart";
import type { Section } from "./section";
import { onThemeChange } from "./theme";

/** What the head shows of a page. */
interface Shown {
  readonly found: boolean;
  readonly message: string;
  readonly running: boolean;
  readonly stale: boolean;
}

export type PageFrame = ReturnType<typeof createPageFrame>;

/** Adds an empty frame to the document. */
export function createPageFrame() {
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
  onThemeChange(() => {
    for (const chart of charts) {
      chart.draw();
    }
  });

  return {
    title: () => title.textContent,
    description: () => description.textContent,
    charts: () => charts,

    /** `summary` is empty until something was measured. */
    drawHead(heading: string, summary: string, { found, message, running, stale }: Shown): void {
      title.textContent = heading;
      document.title = heading;
      description.textContent = summary;
      const changed = stale ? "The code has changed since this was measured." : "";
      status.textContent = running || !found ? message : changed;
      status.classList.toggle("running", running);
      status.classList.toggle("doubt", !running && found && stale);
    },

    drawTools(tools: readonly HTMLElement[]): void {
      toolbar.replaceChildren(...tools);
    },

    drawSections(sections: readonly (Section | null)[]): void {
      const kept = keepReading(main);
      const readings = new Map(charts.map((chart) => [chart.key, chart.reading()]));
      for (const chart of charts) {
        chart.dispose();
      }
      const present = sections.filter((section) => section !== null);
      main.replaceChildren(...present.map(({ root }) => root));
      charts = present.flatMap((section) => section.charts);
      for (const chart of charts) {
        const reading = readings.get(chart.key);
        if (reading !== undefined) {
          chart.resume(reading);
        }
        chart.draw();
      }
      kept();
    },
  };
}
