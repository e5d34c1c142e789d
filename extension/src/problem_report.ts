/**
 * "Report a Problem": everything that would be sent is first shown, and the user is the one who sends it.
 *
 * Invariant: versions, settings and logs only; the user's code is left out by the server, and nothing leaves the
 * machine from here.
 */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { serverCommand } from "./protocol";
import type { Resolution } from "./resolve";
import type { StatusBoard } from "./status";

interface Parts {
  readonly context: vscode.ExtensionContext;
  readonly client: LanguageClient | null;
  readonly resolution: Resolution | null;
  readonly board: StatusBoard;
}

export async function reportProblem(parts: Parts): Promise<void> {
  const document = await vscode.workspace.openTextDocument({
    language: "markdown",
    content: await compose(parts),
  });
  await vscode.window.showTextDocument(document, { preview: false });
}

async function compose({ context, client, resolution, board }: Parts): Promise<string> {
  const version = String(context.extension.packageJSON.version);
  const server = resolution?.server;
  return [
    "# Fuselight: a problem",
    "",
    "<!-- Nothing has been sent. Read this through, take out what you would rather keep, and say below what you",
    "did, what you saw and what you expected. Your code is not in here, but paths are. -->",
    "",
    "## What happened",
    "",
    "",
    "## Editor",
    "",
    `- Fuselight ${version}, ${vscode.env.appName} ${vscode.version}, Node ${process.version}, ${process.platform} ${process.arch}`,
    `- workspace: ${vscode.workspace.workspaceFolders?.length ?? 0} folders, ${vscode.workspace.isTrusted ? "trusted" : "not trusted"}`,
    `- the server's Python: ${server ? `${server.interpreter.executable} (${server.why})` : (resolution?.serverWhy ?? "none")}`,
    ...(resolution?.folders ?? []).map(
      (folder) =>
        `- ${folder.uri || "files outside"}: ${folder.choice?.interpreter.executable ?? "none"} (${folder.why})`,
    ),
    ...board.all().map((status) => `- state: ${status.state}: ${status.text} ${status.detail}`.trimEnd()),
    "",
    "## Server",
    "",
    await fromServer(client),
    "",
  ].join("\n");
}

async function fromServer(client: LanguageClient | null): Promise<string> {
  if (client === null) {
    return "The language server is not running. The log (Fuselight: Show Log) says why.";
  }
  try {
    const text: unknown = await vscode.commands.executeCommand(serverCommand.problemReport);
    return typeof text === "string" ? text : "The server gave no report.";
  } catch (error) {
    return `The server could not make its report: ${String(error)}`;
  }
}
