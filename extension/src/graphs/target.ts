/**
 * Parses the data that names a target: nodes of the report, arguments of commands, the saved state of a page.
 *
 * Invariant: nothing of VS Code is imported. Malformed data is no target.
 */

import { fieldsOf } from "../messages/fields.ts";
import type { GraphTarget } from "../messages/graphs";
import type { OfferedTarget } from "../messages/page_types";

/** Null for data that names no file. */
export function targetIn(value: unknown): GraphTarget | null {
  const { uri, target } = fieldsOf(value);
  const isFile = typeof uri === "string" && uri !== "";
  return isFile ? { uri, target: typeof target === "string" ? target : null } : null;
}

/** The offered target with this name, else the only one. */
export function amongOffered(offered: readonly OfferedTarget[], name: string | null): OfferedTarget | null {
  const only = offered.length === 1 ? offered[0] : undefined;
  return offered.find(({ target, label }) => target === name || label === name) ?? only ?? null;
}

/** Title of the tab. */
export function titleOf({ uri, target }: GraphTarget): string {
  const file = decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
  return `Graphs: ${target === null ? file : target || "__main__"}`;
}
