/** "Show Graphs": of a node of the report, of an argument, or of the target at the cursor; else the user chooses. */

import * as vscode from "vscode";
import { sourceOf } from "../kernels/documents";
import type { TargetAtCursor } from "../protocol";
import type { ReportView } from "../report_view";
import { inform } from "../say";
import type { OfferedTarget } from "./messages";
import { amongOffered, targetIn } from "./target";
import type { GraphView } from "./view";

export async function showGraphs(
  argument: unknown,
  {
    report,
    graphs,
    targetAtCursor,
  }: { report: ReportView; graphs: GraphView; targetAtCursor: TargetAtCursor },
): Promise<void> {
  const named = report.targetOf(argument) ?? targetIn(argument);
  if (named !== null && named.target !== null) {
    await graphs.show(named);
    return;
  }
  const document = vscode.window.activeTextEditor?.document;
  const source = document?.languageId === "python" ? sourceOf(document.uri) : report.shown();
  if (source === undefined) {
    void inform("Open a Python file to show the graphs of its targets.");
    return;
  }
  const atCursor = await targetAtCursor();
  const offered = await graphs.offered(source);
  const chosen = amongOffered(offered, atCursor?.target ?? null) ?? (await chooseTarget(offered));
  if (chosen !== undefined) {
    await graphs.show(chosen ?? { uri: source.toString(), target: atCursor?.target ?? null });
  }
}

/** Null without targets to choose from; undefined when the user chose none. */
async function chooseTarget(offered: readonly OfferedTarget[]): Promise<OfferedTarget | null | undefined> {
  const title = "Show the graphs of which target?";
  const entries = offered.map((target) => ({ label: target.label, target }));
  return offered.length === 0 ? null : (await vscode.window.showQuickPick(entries, { title }))?.target;
}
