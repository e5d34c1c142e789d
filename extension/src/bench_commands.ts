/**
 * The commands of benchmarks: start one, of a lens or of what is at the cursor; show it; cancel it.
 *
 * Invariant: the server says which target is meant and whether it can be measured; its words are shown.
 */

import * as vscode from "vscode";
import type { BenchTarget } from "./bench_messages";
import { benchTargetIn, startedIn } from "./bench_target";
import type { BenchView } from "./bench_view";
import { sourceOf } from "./kernel_documents";
import { clientCommand, serverCommand } from "./protocol";

const ofTargets: ReadonlySet<unknown> = new Set([clientCommand.benchmark, clientCommand.showBenchmark]);

type Ask = (command: string, ...args: readonly unknown[]) => Promise<unknown>;

export interface BenchCommands {
  benchmark(argument: unknown): Promise<void>;
  show(argument: unknown): Promise<void>;
  cancel(argument: unknown): Promise<void>;
}

export function createBenchCommands(view: BenchView, ask: Ask): BenchCommands {
  /** What was asked for last in this window. */
  let last: BenchTarget | undefined;

  async function benchmark(argument: unknown): Promise<void> {
    const what = benchTargetIn(argument) ?? atCursor();
    if (what === null) {
      say("Open a Python file, and put the cursor into the function or module to benchmark.");
      return;
    }
    const started = startedIn(await ask(serverCommand.bench, what));
    if (started === null) {
      return; // the user was asked whether code of this folder may run, and said no
    }
    if (!started.started) {
      say(started.message);
    }
    if (started.target !== null) {
      const of = { uri: what.uri, target: started.target };
      last = of;
      await view.show(of);
    }
  }

  async function show(argument: unknown): Promise<void> {
    const of = benchTargetIn(argument) ?? (await offeredAtCursor()) ?? last;
    if (of === undefined) {
      say("Put the cursor into a function or module that can be benchmarked.");
      return;
    }
    await view.show(of);
  }

  /** Without a name all of them. */
  async function cancel(argument: unknown): Promise<void> {
    await ask(serverCommand.cancelBench, benchTargetIn(argument) ?? {});
  }

  return { benchmark, show, cancel };
}

function say(text: string): void {
  void vscode.window.showInformationMessage(text);
}

/** The lines of the cursor or the selection, from which the server finds the target. */
function atCursor(): { readonly uri: string; readonly line: number; readonly last: number } | null {
  const editor = pythonEditor();
  if (editor === undefined) {
    return null;
  }
  const { start, end } = editor.selection;
  return { uri: editor.document.uri.toString(), line: start.line, last: end.line };
}

/** The target that is nearest above the cursor: while one is measured, it has a lens that shows it instead. */
async function offeredAtCursor(): Promise<BenchTarget | undefined> {
  const editor = pythonEditor();
  if (editor === undefined) {
    return undefined;
  }
  const lenses = await vscode.commands.executeCommand<readonly vscode.CodeLens[]>(
    "vscode.executeCodeLensProvider",
    editor.document.uri,
    500,
  );
  const nearest = lenses
    .filter((lens) => ofTargets.has(lens.command?.command))
    .filter((lens) => lens.range.start.line <= editor.selection.active.line)
    .sort((left, right) => right.range.start.line - left.range.start.line)[0];
  return benchTargetIn(nearest?.command?.arguments?.[0]) ?? undefined;
}

/** Not a generated kernel, which is Python too. */
function pythonEditor(): vscode.TextEditor | undefined {
  const editor = vscode.window.activeTextEditor;
  const isOwn = editor !== undefined && sourceOf(editor.document.uri) === editor.document.uri;
  return isOwn && editor.document.languageId === "python" ? editor : undefined;
}
