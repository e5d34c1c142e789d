/**
 * The result of `activate`: handles with which tests wait for messages instead of for time.
 *
 * Invariant: it only observes, except for `consent`, with which a test answers for the user.
 */

import type * as vscode from "vscode";
import type { Parts } from "./commands";
import type { FolderStatus } from "./messages/server_types";
import { withPageLinks } from "./server/page_links";

export type TestingApi = ReturnType<typeof createTestingApi>;

export function createTestingApi(
  ready: Promise<void>,
  { board, lifecycle, consent, report, marks, heat, jobs, agents, storage }: Parts,
) {
  /** Resolves at the first status for which `wanted` holds, including the current one. */
  function until(wanted: (status: FolderStatus) => boolean): Promise<FolderStatus> {
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
    /** Interpreters were resolved, and the server has started or could not. */
    ready,
    consent,
    statuses: () => board.all(),
    resolution: () => lifecycle.resolution(),
    report: () => report.nodes(),
    /** Lines that are linked to the line of the cursor. */
    marked: () => marks.marked(),
    /** Lines with a mark for their share of the time. */
    heat: (uri: vscode.Uri) => heat.marks(uri),
    /** The open jobs, as the server lists them. */
    jobs: () => jobs.listed(),
    /** The program that serves an agent of this editor. */
    agentServer: () => agents.attached(),
    /** The findings as they are published, with the links of their codes. */
    withPageLinks,
    /** The folder of files that the extension makes. */
    storage,
    /** The process id of the language server, or null. */
    serverPid: () => lifecycle.client()?.serverProcess?.pid ?? null,
    /** The latest generation that the server reported. */
    generation: () => Math.max(0, ...board.all().map((status) => status.generation)),
    until,
    /** Every run up to `generation` is over and its findings are published. */
    idle: (generation: number) =>
      until((status) => status.state === "idle" && status.generation >= generation),
  };
}
