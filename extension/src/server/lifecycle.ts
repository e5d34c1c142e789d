/**
 * Owns the language client: starts, keeps or restarts it according to the resolved interpreters.
 *
 * Invariant: changes run one after another (`queue`), so a start never overlaps a stop. Another interpreter for the
 * user's models reaches the server as a message, never as a restart.
 */

import * as vscode from "vscode";
import {
  DidSaveTextDocumentNotification,
  type LanguageClient,
  type Range,
  type RequestType,
  State,
} from "vscode-languageclient/node";
import { look } from "../interpreter/environment";
import { changedFolders, type Resolution, resolve, serverStep } from "../interpreter/resolve";
import { readSettings } from "../interpreter/settings";
import { interpreterChangedNotification, lookAgainRequest, trustNotification } from "../messages/protocol";
import type { FolderState } from "../messages/server_types";
import { textOf, warn } from "../workbench/say";
import { type ClientParts, createClient, hasBundledLibraries } from "./client";
import { isLostConnection } from "./lost_connection";

const stopMilliseconds = 5000;

export interface Hooks {
  /** Called for each new client, before it starts, to register handlers. */
  readonly connect: (client: LanguageClient) => void;
  /** The server stopped or failed; `detail` is for the user. */
  readonly state: (state: FolderState, detail: string) => void;
  /** The server runs, after a start or a crash. */
  readonly started: () => void;
}

export type Lifecycle = ReturnType<typeof createLifecycle>;

export function createLifecycle(parts: Omit<ClientParts, "resolution">, hooks: Hooks) {
  const { context, log } = parts;
  let client: LanguageClient | null = null;
  let resolution: Resolution | null = null;
  let queue: Promise<void> = Promise.resolve();
  /** Documents that were saved while no server was running. */
  const savedMeanwhile = new Set<vscode.TextDocument>();
  context.subscriptions.push(
    vscode.workspace.onDidSaveTextDocument((document) => {
      if (!client?.isRunning() && document.languageId === "python") {
        savedMeanwhile.add(document);
      }
    }),
    vscode.workspace.onDidCloseTextDocument((document) => savedMeanwhile.delete(document)),
  );

  async function reportSaves(running: LanguageClient): Promise<void> {
    const saved = [...savedMeanwhile].filter((document) => !document.isClosed && !document.isDirty);
    savedMeanwhile.clear();
    for (const document of saved) {
      const textDocument = { uri: running.code2ProtocolConverter.asUri(document.uri) };
      await running.sendNotification(DidSaveTextDocumentNotification.type, { textDocument });
    }
  }

  function enqueue(step: () => Promise<void>): Promise<void> {
    queue = queue.then(step, step).catch((error: unknown) => {
      log.error(textOf(error));
      hooks.state("failed", textOf(error));
    });
    return queue;
  }

  async function start(): Promise<void> {
    if (resolution?.server == null) {
      hooks.state("noInterpreter", resolution?.serverWhy ?? "");
      log.error(resolution?.serverWhy ?? "");
      return;
    }
    const { server } = resolution;
    const executable = [server.interpreter.executable, ...server.interpreter.args].join(" ");
    log.info(`starting the language server with ${executable} (${server.why})`);
    hooks.state("starting", "Starting the language server.");
    const started = createClient(server, { ...parts, resolution: () => resolution });
    started.onDidChangeState(({ oldState, newState }) => {
      log.info(`language server: ${State[oldState]} -> ${State[newState]}`);
      if (client !== started) {
        return;
      }
      if (newState === State.Stopped) {
        hooks.state("failed", "The language server stopped. The log has the reason.");
      } else if (newState === State.Running) {
        // After a crash, the client starts the server by itself.
        const ready = started.start(); // the start that is in progress: documents are opened at its end
        void ready
          .then(() => {
            hooks.started();
            return reportSaves(started);
          })
          .catch((error: unknown) => log.warn(textOf(error)));
      }
    });
    hooks.connect(started);
    client = started;
    try {
      await started.start();
    } catch (error) {
      await stop(); // frees what the client registered
      throw new Error(`The language server did not start: ${textOf(error)}`);
    }
    await reportSaves(started);
  }

  async function stop(): Promise<void> {
    const stopping = client;
    client = null;
    try {
      if (stopping?.needsStop()) {
        await stopping.stop(stopMilliseconds);
      }
      await stopping?.dispose();
    } catch (error) {
      // A server that hangs does not answer. The client ends its process, and the next one may start.
      log.warn(`the language server did not stop in order: ${textOf(error)}`);
    }
  }

  /** Whether the server runs or is about to; a client that has given up stays stopped. */
  const isAlive = () => client?.state === State.Running || client?.state === State.Starting;

  async function apply(cause: string): Promise<void> {
    const trust = vscode.workspace.isTrusted;
    const settings = readSettings();
    const bundled = hasBundledLibraries(context);
    const next = resolve(settings, await look(settings, { trust, bundled, log }), trust);
    const step = serverStep(isAlive() ? resolution : null, next);
    const changed = changedFolders(resolution, next);
    // A kept server is still the old choice; only the interpreters of folders are new.
    resolution = step === "keep" ? { ...next, server: resolution?.server ?? null } : next;
    for (const folder of next.folders) {
      const chosen = folder.choice?.interpreter.executable ?? "no interpreter";
      log.info(`${cause}: ${folder.uri || "files outside any folder"}: ${chosen} (${folder.why})`);
    }
    if (step !== "keep") {
      await stop(); // also a client whose server is gone
    }
    if (step !== "keep") {
      await start();
      return;
    }
    for (const folder of changed) {
      await client?.sendNotification(interpreterChangedNotification, { folder: folder || null });
    }
  }

  const restart = () =>
    enqueue(async () => {
      await stop();
      resolution = null;
      await apply("restart");
    });

  const runningClient = () => (client?.isRunning() ? client : null);

  /** The client after a start in progress; null if the server does not run then. */
  async function ready(): Promise<LanguageClient | null> {
    await queue;
    return runningClient();
  }

  /** Says that the server does not run, with a way to start it. */
  async function warnNotRunning(): Promise<void> {
    const action = "Restart Language Server";
    const text = "The Fuselight language server is not running.";
    if ((await warn(text, action)) === action) {
      await restart();
    }
  }

  /** Sends a request; null while the server does not run. */
  async function request<P, R>(type: RequestType<P, R, void>, params: P): Promise<R | null> {
    try {
      return (await runningClient()?.sendRequest<R>(type.method, params)) ?? null;
    } catch (error) {
      if (isLostConnection(error)) {
        return null; // the server ended before its answer
      }
      throw error;
    }
  }

  return {
    /** The running client, or null. */
    client: runningClient,
    ready,
    warnNotRunning,
    request,
    /** A range of the server's; null without one, and while the server does not run. */
    toRange: (range: Range | null) =>
      (range && runningClient()?.protocol2CodeConverter.asRange(range)) ?? null,
    /** Runs a command of the server, which exists only while the server runs; waits for a start in progress. */
    async ask(command: string, ...args: readonly unknown[]): Promise<unknown> {
      return (await ready()) === null ? warnNotRunning() : vscode.commands.executeCommand(command, ...args);
    },
    resolution: () => resolution,
    /** Resolves the interpreters again and applies the result. */
    reconcile: (cause: string) =>
      enqueue(async () => {
        await apply(cause);
        if (cause === "trust granted") {
          await client?.sendNotification(trustNotification, { trusted: true });
        }
      }),
    /** Resolves the interpreters again, also where none could run code, and waits until the server uses the result. */
    lookAgain: (cause: string) =>
      enqueue(async () => {
        await apply(cause);
        await request(lookAgainRequest, {});
      }),
    restart,
    stop: () => enqueue(stop),
  };
}
