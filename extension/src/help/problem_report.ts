/**
 * "Report a Problem": opens a report that the user edits and sends.
 *
 * Invariant: it has versions, settings and logs. The server leaves out the user's code, and nothing is sent from here.
 */

import * as vscode from "vscode";
import { serverCommand } from "../messages/protocol";
import type { Lifecycle } from "../server/lifecycle";
import type { StatusBoard } from "../status/status";
import { textOf } from "../workbench/say";

/** What a report describes. */
interface Described {
  readonly context: vscode.ExtensionContext;
  readonly lifecycle: Lifecycle;
  readonly board: StatusBoard;
}

export async function reportProblem(parts: Described): Promise<void> {
  const document = await vscode.workspace.openTextDocument({
    language: "markdown",
    content: await compose(parts),
  });
  await vscode.window.showTextDocument(document, { preview: false });
}

async function compose({ context, lifecycle, board }: Described): Promise<string> {
  const resolution = lifecycle.resolution();
  const version = String(context.extension.packageJSON.version);
  const server = resolution?.server;
  return [
    "# Fuselight: problem report",
    "",
    "<!-- Nothing has been sent. Remove what you want to keep private, and describe below what you did, what you saw",
    "and what you expected. The report has file paths, and none of your code. -->",
    "",
    "## What happened",
    "",
    "",
    "## Editor",
    "",
    `- Fuselight ${version}, ${vscode.env.appName} ${vscode.version}, Node ${process.version}, ${process.platform} ${process.arch}`,
    `- workspace: ${vscode.workspace.workspaceFolders?.length ?? 0} folders, ${vscode.workspace.isTrusted ? "trusted" : "not trusted"}`,
    `- server Python: ${server ? `${server.interpreter.executable} (${server.why})` : (resolution?.serverWhy ?? "none")}`,
    ...(resolution?.folders ?? []).map(
      (folder) =>
        `- ${folder.uri || "files outside folders"}: ${folder.choice?.interpreter.executable ?? "none"} (${folder.why})`,
    ),
    ...board.all().map((status) => `- state: ${status.state}: ${status.text} ${status.detail}`.trimEnd()),
    "",
    "## Server",
    "",
    await fromServer(lifecycle),
    "",
  ].join("\n");
}

async function fromServer(lifecycle: Lifecycle): Promise<string> {
  if (lifecycle.client() === null) {
    return "The language server is not running. The log (Fuselight: Show Log) has the reason.";
  }
  try {
    const text: unknown = await vscode.commands.executeCommand(serverCommand.problemReport);
    return typeof text === "string" ? text : "The server returned no report.";
  } catch (error) {
    return `The server could not make its report: ${textOf(error)}`;
  }
}
