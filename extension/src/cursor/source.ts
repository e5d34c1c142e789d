/**
 * The files that URIs stand for: a generated kernel stands for its source file, a cell for its notebook.
 *
 * Invariant: nothing is asked of the server; a URI has all of it.
 */

import * as vscode from "vscode";
import type { KernelDocumentParams } from "../messages/server_types";
import { notebookOf } from "../workbench/notebook";
import { idOf, kernelScheme, partsOf } from "./kernel_uri";

/** The URI of a generated text; `name` is shown on its tab. */
export function kernelUri(id: KernelDocumentParams, name: string): vscode.Uri {
  return vscode.Uri.from({ scheme: kernelScheme, ...partsOf(id, name) });
}

/** The identity of a generated text; null for any other URI. */
export function kernelOf(uri: vscode.Uri): KernelDocumentParams | null {
  return uri.scheme === kernelScheme ? idOf(uri.query) : null;
}

/** The name of a text in links: the URI of a file, or the identity of a generated text. */
export function linkName(uri: vscode.Uri): string {
  const id = kernelOf(uri);
  return id === null ? uri.toString() : nameOf(id);
}

/** The name of a generated text in links. */
export function nameOf(id: KernelDocumentParams): string {
  return partsOf(id, "").query;
}

/** The source file of a generated text, the notebook of a cell; any other URI unchanged. */
export function sourceOf(uri: vscode.Uri): vscode.Uri {
  const id = kernelOf(uri);
  return id === null ? (notebookOf(uri) ?? uri) : vscode.Uri.parse(id.uri);
}
