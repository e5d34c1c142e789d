/**
 * "Check the Environment": what the server finds of the folder's Python, as a page to read.
 *
 * Invariant: to cancel it ends what was started; the page is text, and nothing of it runs anything.
 */

import * as vscode from "vscode";
import { type LanguageClient, ResponseError } from "vscode-languageclient/node";
import { doctorRequest } from "./protocol";

export async function checkEnvironment(client: LanguageClient, folder: string | null): Promise<void> {
  const content = await vscode.window.withProgress(
    {
      location: vscode.ProgressLocation.Notification,
      title: "Fuselight: checking Python, torch, compilers and devices",
      cancellable: true,
    },
    (_, token) => asked(client, folder, token),
  );
  if (content === null) {
    return;
  }
  const document = await vscode.workspace.openTextDocument({ language: "markdown", content });
  await vscode.window.showTextDocument(document, { preview: false });
}

async function asked(
  client: LanguageClient,
  folder: string | null,
  token: vscode.CancellationToken,
): Promise<string | null> {
  try {
    return await client.sendRequest(doctorRequest, { folder }, token);
  } catch (error) {
    if (!token.isCancellationRequested) {
      const words = error instanceof ResponseError ? error.message : String(error);
      void vscode.window.showWarningMessage(`Fuselight could not check the environment: ${words}`);
    }
    return null;
  }
}
