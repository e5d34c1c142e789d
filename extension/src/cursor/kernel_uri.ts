/**
 * The URI of a generated text: `fuselight-kernel:/<target>/<file name>?<identity>`.
 *
 * Invariant: the URI has everything that the server needs to make the text again, so that a tab survives a reload.
 * Nothing of VS Code is imported.
 */

import type { KernelDocumentParams } from "../messages/server_types";
import { spokenTarget } from "../messages/target_name.ts";

export const kernelScheme = "fuselight-kernel";

/** `name` is shown on the tab; its ending selects the language. */
export function partsOf(id: KernelDocumentParams, name: string): { path: string; query: string } {
  const { uri, target, kernel, form } = id;
  return {
    path: `/${spokenTarget(target).replaceAll("/", "_")}/${name.replaceAll("/", "_")}`,
    query: new URLSearchParams({ uri, target, kernel, form }).toString(),
  };
}

/** Null for a query that no version of Fuselight made. */
export function idOf(query: string): KernelDocumentParams | null {
  const fields = new URLSearchParams(query);
  const [uri, kernel, form] = ["uri", "kernel", "form"].map((name) => fields.get(name));
  return uri && kernel && form ? { uri, target: fields.get("target") ?? "", kernel, form } : null;
}
