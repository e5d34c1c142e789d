/**
 * Entry point of the extension: creates its parts and connects them.
 *
 * Invariant: activation returns without waiting for an interpreter or the server; the status item shows both.
 */

import * as vscode from "vscode";
import { ShowMessageNotification, ShowMessageRequest } from "vscode-languageclient/node";
import { createAgentProvider } from "./agents/provider";
import { createBenchView } from "./bench/view";
import { type Parts, registerCommands } from "./commands";
import { createGraphView } from "./graphs/view";
import { onInterpreterSelected } from "./interpreter/environment";
import { watchEnvironments } from "./interpreter/watch";
import { createJobView } from "./jobs/view";
import { createKernelDocuments } from "./kernels/documents";
import { createKernelHeat } from "./kernels/heat";
import { createKernelMarks } from "./kernels/marks";
import { createKernelView } from "./kernels/view";
import {
  confirmRunRequest,
  jobsChangedNotification,
  measuredChangedNotification,
  previewFixRequest,
  reportChangedNotification,
  statusNotification,
  tunedChangedNotification,
} from "./messages/protocol";
import type { FolderStatus } from "./messages/server_types";
import { createReportView } from "./report/view";
import { createConsent } from "./server/consent";
import { createFixPreviews } from "./server/fix_preview";
import { createLifecycle, type Lifecycle } from "./server/lifecycle";
import { createDeviceItem, warnOfDevices } from "./status/device_picker";
import { createStatusBoard, warnOfInterpreters } from "./status/status";
import { createTestingApi, type TestingApi } from "./testing_api";
import { createTuneView } from "./tune/view";
import { createMessageLog } from "./workbench/message_log";
import { askForServer, sayOfServer } from "./workbench/say";

let running: Lifecycle | null = null;

export function activate(context: vscode.ExtensionContext): TestingApi {
  const log = vscode.window.createOutputChannel("Fuselight", { log: true });
  const messages = createMessageLog();
  const board = createStatusBoard();
  const consent = createConsent(context.workspaceState);
  let hasStatus = false;

  const lifecycle = createLifecycle(
    { context, log, messages, consent, beforeRun },
    {
      state(state, detail) {
        hasStatus = false;
        board.clear(state, detail);
        void jobs.changed({ jobs: [], followed: [] });
      },
      started: () => board.started(),
      connect(client) {
        client.onNotification(statusNotification, (status) => show(status));
        client.onNotification(reportChangedNotification, ({ uri }) => {
          report.changed(uri);
          kernelsChanged(uri);
        });
        client.onNotification(measuredChangedNotification, (of) => void benchmarks.changed(of));
        client.onNotification(tunedChangedNotification, (of) => void tunings.changed(of));
        client.onNotification(jobsChangedNotification, (open) => void jobs.changed(open));
        client.onNotification(ShowMessageNotification.type, sayOfServer);
        client.onRequest(ShowMessageRequest.type, askForServer);
        client.onRequest(confirmRunRequest, (question) => consent.ask(question));
        client.onRequest(previewFixRequest, (fix) => fixes.show(fix));
      },
    },
  );
  running = lifecycle;

  /** Looks for another interpreter before a run that would fail as the last one did. */
  async function beforeRun(folder: string | null): Promise<void> {
    if (board.all().some((one) => one.folder === folder && one.state === "noInterpreter")) {
      await lifecycle.lookAgain("a run was asked for");
    }
  }

  function environmentAppeared(): void {
    if (board.all().some((one) => one.state === "noInterpreter")) {
      void lifecycle.lookAgain("an environment appeared");
    }
  }

  function show(status: FolderStatus): void {
    board.set(status);
    if (!hasStatus) {
      hasStatus = true;
      kernelsChanged(); // documents that were open before the server started
      void benchmarks.changed();
      void tunings.changed();
      agents.changed();
    }
    const hasInterpreter = board.all().some((one) => one.interpreter !== null);
    void vscode.commands.executeCommand("setContext", "fuselight.hasInterpreter", hasInterpreter);
  }

  const fixes = createFixPreviews(lifecycle);
  const report = createReportView(lifecycle, (uris) => jobs.open(uris));
  const documents = createKernelDocuments(lifecycle);
  const marks = createKernelMarks(documents);
  const heat = createKernelHeat(lifecycle, context);
  const kernels = createKernelView(lifecycle, documents, marks);
  const graphs = createGraphView(context.extensionUri, lifecycle, report);
  const benchmarks = createBenchView(context.extensionUri, lifecycle);
  const tunings = createTuneView(context.extensionUri, lifecycle);
  const jobs = createJobView(context, lifecycle);
  const agents = createAgentProvider(context, lifecycle);

  function kernelsChanged(uri?: string): void {
    void graphs.changed(uri);
    void documents.changed(uri);
    void heat.changed(uri);
  }

  const storage = context.storageUri ?? context.globalStorageUri;
  const views = { fixes, report, kernels, marks, heat, graphs, benchmarks, tunings, jobs, agents };
  const parts: Parts = { context, storage, lifecycle, board, consent, log, ...views };
  context.subscriptions.push(
    log,
    messages,
    board,
    documents,
    fixes,
    marks,
    heat,
    graphs,
    benchmarks,
    tunings,
    jobs,
    agents,
    warnOfInterpreters(board),
    watchEnvironments(environmentAppeared),
    createDeviceItem(board),
    warnOfDevices(board),
    report,
    ...registerCommands(parts),
    vscode.workspace.onDidGrantWorkspaceTrust(() => lifecycle.reconcile("trust granted")),
    vscode.workspace.onDidChangeWorkspaceFolders(() => lifecycle.reconcile("folders changed")),
    vscode.workspace.onDidChangeConfiguration((change) => {
      const names = ["fuselight.interpreter", "fuselight.serverInterpreter", "python.defaultInterpreterPath"];
      if (names.some((name) => change.affectsConfiguration(name))) {
        void lifecycle.reconcile("settings changed");
      }
    }),
  );
  void vscode.commands.executeCommand("setContext", "fuselight.active", true);
  return createTestingApi(begin(parts), parts);
}

export async function deactivate(): Promise<void> {
  await running?.stop();
  running = null;
}

async function begin({ context, lifecycle, log }: Parts): Promise<void> {
  const listen = async () => {
    const changed = () => void lifecycle.reconcile("another interpreter selected");
    context.subscriptions.push(...(await onInterpreterSelected(changed, log)));
  };
  if (vscode.workspace.isTrusted) {
    await listen(); // first of all: activating the Python extension may itself select an interpreter
  } else {
    context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(() => void listen()));
  }
  await lifecycle.reconcile("start");
}
