/**
 * Where VS Code enters: puts the parts together and tells them of each other.
 *
 * Invariant: activation returns without waiting for an interpreter or the server; both show in the status item.
 */

import * as vscode from "vscode";
import { measuredAt } from "./bench_target";
import { createBenchView } from "./bench_view";
import { registerCommands } from "./commands";
import { createConsent } from "./consent";
import { createDeviceItem, warnOfDevices } from "./device_picker";
import { onInterpreterSelected } from "./environment";
import { createGraphView } from "./graph_view";
import { createKernelDocuments, type FetchKernel } from "./kernel_documents";
import { createKernelHeat } from "./kernel_heat";
import { createKernelMarks } from "./kernel_marks";
import { createKernelView } from "./kernel_view";
import { createLifecycle, type Lifecycle } from "./lifecycle";
import { createMessageLog } from "./message_log";
import {
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
} from "./protocol";
import { createReportView, type ReportView } from "./report_view";
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
  let hasSpoken = false;

  const lifecycle = createLifecycle(
    { context, log, messages, consent },
    {
      state(state, detail) {
        hasSpoken = false;
        board.clear(state, detail);
      },
      connect(client) {
        client.onNotification(statusNotification, (status) => show(status));
        client.onNotification(reportChangedNotification, ({ uri }) => {
          report?.changed(uri);
          kernelsChanged(uri);
        });
        client.onNotification(measuredChangedNotification, (of) => void benchmarks.changed(of));
        client.onRequest(confirmRunRequest, (question) => consent.ask(question));
      },
    },
  );
  running = lifecycle;

  function show(status: Status): void {
    board.set(status);
    if (!hasSpoken) {
      hasSpoken = true;
      kernelsChanged(); // texts that were open before there was a server
      void benchmarks.changed();
    }
    const found = board.all().some((one) => one.interpreter !== null);
    void vscode.commands.executeCommand("setContext", "fuselight.hasInterpreter", found);
  }

  report = createReportView(
    async (uri) => {
      const client = lifecycle.client();
      return client ? (await client.sendRequest(reportTreeRequest, { uri: uri.toString() })).nodes : [];
    },
    (node) => (node.range ? (lifecycle.client()?.protocol2CodeConverter.asRange(node.range) ?? null) : null),
  );

  const fetchDocument: FetchKernel = async (id) => {
    const client = lifecycle.client();
    return client ? await client.sendRequest(kernelDocumentRequest, id) : null;
  };
  const documents = createKernelDocuments(fetchDocument);
  const marks = createKernelMarks(documents);
  const heat = createKernelHeat(async (uri) => {
    const client = lifecycle.client();
    return client ? (await client.sendRequest(kernelLinesRequest, { uri: uri.toString() })).lines : [];
  }, context);
  const kernels = createKernelView(
    async (at) => {
      const client = lifecycle.client();
      if (client === null) {
        void vscode.window.showWarningMessage("The Fuselight language server is not running.");
        return null;
      }
      return (await client.sendRequest(kernelsAtRequest, at)).kernels;
    },
    fetchDocument,
    documents,
  );
  const graphs = createGraphView({
    extension: context.extensionUri,
    fetch: async (of) => {
      const client = lifecycle.client();
      return client ? await client.sendRequest(graphsRequest, of) : null;
    },
    toRange: (range) => lifecycle.client()?.protocol2CodeConverter.asRange(range) ?? null,
    run: (of) => {
      const target = of.target === "" ? "__main__" : of.target;
      return vscode.commands.executeCommand(serverCommand.run, { uri: of.uri, target });
    },
  });
  const benchmarks = createBenchView({
    extension: context.extensionUri,
    fetch: async (of) => (await lifecycle.client()?.sendRequest(measuredRequest, measuredAt(of))) ?? null,
    exported: async (of, format) => {
      const at = { ...measuredAt(of), format };
      return (await lifecycle.client()?.sendRequest(measuredExportRequest, at)) ?? null;
    },
    benchmark: (of) => vscode.commands.executeCommand("fuselight.benchmark", of),
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
    ...registerCommands({ context, lifecycle, board, consent, report, kernels, graphs, benchmarks, log }),
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
  return createTestingApi({ ready, board, lifecycle, consent, report, marks, heat });
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
    // Asked for first: waking the Python extension may itself select an interpreter.
    context.subscriptions.push(
      ...(await onInterpreterSelected(() => void lifecycle.reconcile("another interpreter selected"), log)),
    );
  }
  await lifecycle.reconcile("start");
}
