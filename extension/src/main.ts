/**
 * Entry point of the extension: creates its parts and connects them.
 *
 * Invariant: activation returns without waiting for an interpreter or the server; the status item shows both.
 */

import * as vscode from "vscode";
import {
  type Range,
  type RequestType,
  ShowMessageNotification,
  ShowMessageRequest,
} from "vscode-languageclient/node";
import { measuredAt } from "./bench/target";
import { createBenchView } from "./bench/view";
import { registerCommands } from "./commands";
import { createConsent } from "./consent";
import { linesAtCursor } from "./cursor";
import { createGraphView } from "./graphs/view";
import { onInterpreterSelected } from "./interpreter/environment";
import { createDeviceItem, warnOfDevices } from "./kernels/device_picker";
import { createKernelDocuments, type FetchKernel } from "./kernels/documents";
import { createKernelHeat } from "./kernels/heat";
import { createKernelMarks } from "./kernels/marks";
import { createKernelView } from "./kernels/view";
import { createLifecycle, type Lifecycle } from "./lifecycle";
import { createMessageLog } from "./message_log";
import {
  clientCommand,
  confirmRunRequest,
  graphsRequest,
  kernelDocumentRequest,
  kernelLinesRequest,
  kernelsAtRequest,
  measuredChangedNotification,
  measuredExportRequest,
  measuredRequest,
  reportChangedNotification,
  reportTreeRequest,
  type Status,
  serverCommand,
  statusNotification,
  type TargetAtCursor,
  targetAtRequest,
} from "./protocol";
import { createReportView, type ReportView } from "./report_view";
import { askForServer, sayOfServer } from "./say";
import { createStatusBoard, warnOfInterpreters } from "./status";
import { createTestingApi, type TestingApi } from "./testing_api";

let running: Lifecycle | null = null;

export function activate(context: vscode.ExtensionContext): TestingApi {
  const log = vscode.window.createOutputChannel("Fuselight", { log: true });
  const messages = createMessageLog();
  const board = createStatusBoard();
  const consent = createConsent(context.workspaceState);
  let report: ReportView | null = null;
  let kernelsChanged: (uri?: string) => void = () => undefined;
  let hasStatus = false;

  const lifecycle = createLifecycle(
    { context, log, messages, consent },
    {
      state(state, detail) {
        hasStatus = false;
        board.clear(state, detail);
      },
      connect(client) {
        client.onNotification(statusNotification, (status) => show(status));
        client.onNotification(reportChangedNotification, ({ uri }) => {
          report?.changed(uri);
          kernelsChanged(uri);
        });
        client.onNotification(measuredChangedNotification, (of) => void benchmarks.changed(of));
        client.onNotification(ShowMessageNotification.type, sayOfServer);
        client.onRequest(ShowMessageRequest.type, askForServer);
        client.onRequest(confirmRunRequest, (question) => consent.ask(question));
      },
    },
  );
  running = lifecycle;
  const storage = context.storageUri ?? context.globalStorageUri;

  function show(status: Status): void {
    board.set(status);
    if (!hasStatus) {
      hasStatus = true;
      kernelsChanged(); // documents that were open before the server started
      void benchmarks.changed();
    }
    const hasInterpreter = board.all().some((one) => one.interpreter !== null);
    void vscode.commands.executeCommand("setContext", "fuselight.hasInterpreter", hasInterpreter);
  }

  /** Sends a request; null while the server does not run. */
  async function request<P, R>(type: RequestType<P, R, void>, params: P): Promise<R | null> {
    const client = lifecycle.client();
    return client === null ? null : await client.sendRequest<R>(type.method, params);
  }
  const targetAtCursor: TargetAtCursor = async () => {
    const lines = linesAtCursor();
    if (lines === null) {
      return null;
    }
    const { uri, line } = lines;
    await lifecycle.ready();
    return { uri, target: (await request(targetAtRequest, { uri, line }))?.target ?? null };
  };
  const toRange = (range: Range) => lifecycle.client()?.protocol2CodeConverter.asRange(range) ?? null;

  report = createReportView(
    async (uri) => (await request(reportTreeRequest, { uri: uri.toString() }))?.nodes ?? [],
    toRange,
  );
  const fetchDocument: FetchKernel = (id) => request(kernelDocumentRequest, id);
  const documents = createKernelDocuments(fetchDocument);
  const marks = createKernelMarks(documents);
  const heat = createKernelHeat(
    async (uri) => (await request(kernelLinesRequest, { uri: uri.toString() }))?.lines ?? [],
    context,
  );
  const kernels = createKernelView(
    async (at) => {
      const answer = await request(kernelsAtRequest, at);
      if (answer === null) {
        await lifecycle.warnNotRunning();
      }
      return answer?.kernels ?? null;
    },
    fetchDocument,
    documents,
  );
  const graphs = createGraphView({
    extension: context.extensionUri,
    fetch: (of) => request(graphsRequest, of),
    toRange,
    run: ({ uri, target }) =>
      vscode.commands.executeCommand(serverCommand.run, { uri, target: target === "" ? "__main__" : target }),
  });
  const benchmarks = createBenchView({
    extension: context.extensionUri,
    fetch: (of) => request(measuredRequest, measuredAt(of)),
    exported: (of, format) => request(measuredExportRequest, { ...measuredAt(of), format }),
    benchmark: (of) => vscode.commands.executeCommand(clientCommand.benchmark, of),
    cancel: (of) => vscode.commands.executeCommand("fuselight.cancelBenchmark", of),
    forget: (of, run) => vscode.commands.executeCommand(serverCommand.forgetBench, { ...of, run }),
  });
  kernelsChanged = (uri) => {
    void graphs.changed(uri);
    void documents.changed(uri);
    void heat.changed(uri);
  };

  context.subscriptions.push(
    log,
    messages,
    board,
    documents,
    marks,
    heat,
    graphs,
    benchmarks,
    warnOfInterpreters(board),
    createDeviceItem(board),
    warnOfDevices(board),
    report,
    ...registerCommands({
      context,
      storage,
      lifecycle,
      board,
      consent,
      report,
      kernels,
      graphs,
      benchmarks,
      targetAtCursor,
      log,
    }),
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
  const ready = begin(context, lifecycle, log);
  return createTestingApi({ ready, board, lifecycle, consent, report, marks, heat, storage });
}

export async function deactivate(): Promise<void> {
  await running?.stop();
  running = null;
}

async function begin(
  context: vscode.ExtensionContext,
  lifecycle: Lifecycle,
  log: vscode.LogOutputChannel,
): Promise<void> {
  if (vscode.workspace.isTrusted) {
    // First of all: activating the Python extension may itself select an interpreter.
    context.subscriptions.push(
      ...(await onInterpreterSelected(() => void lifecycle.reconcile("another interpreter selected"), log)),
    );
  }
  await lifecycle.reconcile("start");
}
