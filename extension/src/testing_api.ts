/**
 * The result of `activate`: handles with which tests wait for messages instead of for time.
 *
 * Invariant: it only observes, except for `consent`, with which a test answers for the user.
 */

import type * as vscode from "vscode";
import type { Parts } from "./commands";
import type { Consent } from "./consent";
import type { Resolution } from "./interpreter/resolve";
import type { Marked } from "./kernels/marks";
import { withPageLinks } from "./pages";
import type { KernelLine, ReportNode, Status } from "./protocol";

export interface TestingApi {
  /** Interpreters were resolved, and the server has started or could not. */
  readonly ready: Promise<void>;
  readonly consent: Consent;
  statuses(): readonly Status[];
  resolution(): Resolution | null;
  report(): readonly ReportNode[];
  /** Lines that are linked to the line of the cursor. */
  marked(): readonly Marked[];
  /** Lines with a mark for their share of the time. */
  heat(uri: vscode.Uri): readonly KernelLine[];
  /** The findings as they are published, with the links of their codes. */
  withPageLinks(diagnostics: readonly vscode.Diagnostic[]): readonly vscode.Diagnostic[];
  /** The folder of files that the extension makes. */
  readonly storage: vscode.Uri;
  /** The process id of the language server, or null. */
  serverPid(): number | null;
  /** The latest generation that the server reported. */
  generation(): number;
  /** Resolves at the first status for which `wanted` holds, including the current one. */
  until(wanted: (status: Status) => boolean): Promise<Status>;
  /** Every run up to `generation` is over and its findings are published. */
  idle(generation: number): Promise<Status>;
}

export function createTestingApi(
  ready: Promise<void>,
  { board, lifecycle, consent, report, marks, heat, storage }: Parts,
): TestingApi {
  function until(wanted: (status: Status) => boolean): Promise<Status> {
    const present = board.all().find(wanted);
    if (present) {
      return Promise.resolve(present);
    }
    return new Promise((done) => {
      const listener: vscode.Disposable = board.onDidChange((status) => {
        if (wanted(status)) {
          listener.dispose();
          done(status);
        }
      });
    });
  }
  return {
    ready,
    consent,
    statuses: () => board.all(),
    resolution: () => lifecycle.resolution(),
    report: () => report.nodes(),
    marked: () => marks.marked(),
    heat: (uri) => heat.marks(uri),
    withPageLinks,
    storage,
    serverPid: () => lifecycle.client()?.serverProcess?.pid ?? null,
    generation: () => Math.max(0, ...board.all().map((status) => status.generation)),
    until,
    idle: (generation) => until((status) => status.state === "idle" && status.generation >= generation),
  };
}
