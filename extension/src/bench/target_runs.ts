/**
 * What the benchmark and the search of a target have in common: the commands that start, end and show one, and pages
 * that follow their file.
 *
 * Invariant: the server checks what a command names, and decides whether its run starts.
 */

import * as vscode from "vscode";
import { linesAtCursor, targetAtCursor } from "../cursor/cursor";
import type { BenchTarget } from "../messages/bench";
import type { Lifecycle } from "../server/lifecycle";
import { isSameTarget, type Subject, type WebviewHost } from "../webviews/host";
import { inform, noAnswer } from "../workbench/say";
import { benchTargetIn, renamedUri, startedIn } from "./target";

export interface TargetRunKind {
  /** Commands of the server. */
  readonly start: string;
  readonly cancel: string;
  /** As in "the function to benchmark", "a function that can be benchmarked". */
  readonly verb: string;
  readonly participle: string;
  show(of: BenchTarget): Promise<void>;
}

export function createTargetRuns<Shown extends Subject, Content>(
  lifecycle: Lifecycle,
  host: WebviewHost<Shown, Content>,
  kind: TargetRunKind,
) {
  /** The target that was started last in this window. */
  let last: BenchTarget | undefined;

  /** The server moves what it keeps along with the file, and then reports a change. */
  const renames = vscode.workspace.onDidRenameFiles(({ files }) => {
    for (const page of host.pages) {
      for (const { oldUri, newUri } of files) {
        const now = vscode.Uri.parse(page.shown.uri).toString();
        const uri = renamedUri(now, oldUri.toString(), newUri.toString());
        if (uri !== null) {
          page.shown = { ...page.shown, uri };
          void page.draw();
        }
      }
    }
  });

  return {
    /** Starts the run of a code lens or of the target at the cursor, which the server checks, and shows its page. */
    async start(argument: unknown): Promise<void> {
      const what = benchTargetIn(argument) ?? linesAtCursor();
      if (what === null) {
        void inform(`Open a Python file, and place the cursor in the function or module to ${kind.verb}.`);
        return;
      }
      const started = startedIn(await lifecycle.ask(kind.start, what));
      if (started === null) {
        return; // the user did not allow code of this folder to run
      }
      if (!started.started) {
        void inform(started.message);
      }
      if (started.target !== null) {
        last = { uri: what.uri, target: started.target };
        await kind.show(last);
      }
    },
    /** Without a target, cancels all runs of this kind. */
    async cancel(argument: unknown): Promise<void> {
      await lifecycle.ask(kind.cancel, benchTargetIn(argument) ?? {});
    },
    async show(argument: unknown): Promise<void> {
      const of = benchTargetIn(argument) ?? benchTargetIn(await targetAtCursor(lifecycle)) ?? last;
      if (of === undefined) {
        void inform(`Place the cursor in a function or module that can be ${kind.participle}.`);
      } else {
        await kind.show({ uri: of.uri, target: of.target });
      }
    },
    /** The results of `of` changed; without it, any may have. */
    changed: (of?: BenchTarget) => host.redraw(({ shown }) => of === undefined || isSameTarget(shown, of)),
    dispose() {
      renames.dispose();
      host.dispose();
    },
  };
}

/** The page that the server answers with; `empty` makes one that says why there is none. */
export async function answeredPage<Content>(
  answer: Promise<Content | null | undefined>,
  empty: (message: string) => Content,
): Promise<Content> {
  try {
    return (await answer) ?? empty("The Fuselight language server is not running yet.");
  } catch (error) {
    return empty(noAnswer(error));
  }
}
