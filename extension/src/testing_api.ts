/**
 * What `activate` returns: the handles by which tests wait for messages instead of for time.
 *
 * Invariant: it only observes, but for `consent`, whose answer a test gives in the user's stead.
 */

import type * as vscode from "vscode";
import type { Consent } from "./consent";
import type { KernelHeat } from "./kernel_heat";
import type { KernelMarks, Marked } from "./kernel_marks";
import type { Lifecycle } from "./lifecycle";
import type { KernelLine, ReportNode, Status } from "./protocol";
import type { ReportView } from "./report_view";
import type { Resolution } from "./resolve";
import type { StatusBoard } from "./status";

export interface TestingApi {
  /** The first look at the machine is over and the server has started, or could not. */
  readonly ready: Promise<void>;
  readonly consent: Consent;
  statuses(): readonly Status[];
  resolution(): Resolution | null;
  report(): readonly ReportNode[];
  /** Lines that are marked since the cursor is on what they come from, or become. */
  marked(): readonly Marked[];
  /** Lines that are marked by their share of the time. */
  heat(uri: vscode.Uri): readonly KernelLine[];
  /** The process id of the language server, or null. */
  serverPid(): number | null;
  /** The latest generation that the server has spoken of. */
  generation(): number;
  /** Resolves at the first status for which `wanted` holds, the present one included. */
  until(wanted: (status: Status) => boolean): Promise<Status>;
  /** Every run up to `generation` is over and its findings are published. */
  idle(generation: number): Promise<Status>;
}

interface Parts {
  readonly ready: Promise<void>;
  readonly board: StatusBoard;
  readonly lifecycle: Lifecycle;
  readonly consent: Consent;
  readonly report: ReportView;
  readonly marks: KernelMarks;
  readonly heat: KernelHeat;
}

export function createTestingApi(parts: Parts): TestingApi {
  const { ready, board, lifecycle, consent, report, marks, heat } = parts;
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
    serverPid: () => lifecycle.client()?.serverProcess?.pid ?? null,
    generation: () => Math.max(0, ...board.all().map((status) => status.generation)),
    until,
    idle: (generation) => until((status) => status.state === "idle" && status.generation >= generation),
  };
}
