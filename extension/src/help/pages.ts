/**
 * Pages to read: the explanation of a finding's code, and the result of "Check the Environment".
 *
 * Invariant: a page opens as a rendered preview inside the editor, also where the editor runs in a browser and the
 * extension on another machine. Only pages that the extension carries or that the server made are shown; a code that is
 * not one of ours opens its web page.
 */

import * as vscode from "vscode";
import { doctorRequest } from "../messages/protocol";
import type { Lifecycle } from "../server/lifecycle";
import { textOf, warn } from "../workbench/say";

const pageOfOurs = /\/(FL\d{3})\.(?:md|html)$/;

/** Opens the page at `address`: one of ours from the extension's own folder, torch's on the web. */
export async function openPage(extension: vscode.Uri, address: string): Promise<void> {
  const { scheme, path } = vscode.Uri.parse(address);
  const name = pageOfOurs.exec(path)?.[1];
  if (scheme === "file" && name !== undefined) {
    await showRendered(vscode.Uri.joinPath(extension, "docs", "findings", `${name}.md`));
  } else if (scheme === "https") {
    await vscode.env.openExternal(vscode.Uri.parse(address));
  }
}

/** "Check the Environment": a cancel ends the processes that the check started. */
export async function checkEnvironment(
  lifecycle: Lifecycle,
  folder: string | null,
  storage: vscode.Uri,
): Promise<void> {
  const client = await lifecycle.ready();
  if (client === null) {
    return lifecycle.warnNotRunning();
  }
  const title = "Fuselight: checking Python, torch, compilers and devices";
  const content = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title, cancellable: true },
    async (_, token) => {
      try {
        return await client.sendRequest(doctorRequest, { folder }, token);
      } catch (error) {
        if (!token.isCancellationRequested) {
          void warn(`Fuselight could not check the environment: ${textOf(error)}`);
        }
        return null;
      }
    },
  );
  if (content !== null) {
    // A file, so that the preview comes back after a reload of the window.
    const file = vscode.Uri.joinPath(storage, "environment.md");
    await vscode.workspace.fs.writeFile(file, Buffer.from(content, "utf8"));
    await showRendered(file);
  }
}

async function showRendered(file: vscode.Uri): Promise<void> {
  try {
    await vscode.commands.executeCommand("markdown.showPreview", file);
  } catch {
    await vscode.window.showTextDocument(file, { preview: true }); // the built-in Markdown extension is disabled
  }
}
