/**
 * Which target's graphs are meant: by a node of the report, by what the server puts into commands, by a kept state.
 *
 * Invariant: nothing of VS Code is imported: these are plain data, and anything else is no target.
 */

import type { GraphTarget, OfferedTarget } from "./graph_messages";

/** Null for what names no file. */
export function targetIn(value: unknown): GraphTarget | null {
  const fields: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : {};
  const { uri, target } = fields;
  if (typeof uri !== "string" || uri === "") {
    return null;
  }
  return { uri, target: typeof target === "string" ? target : null };
}

/** The one that a name of a command means, whose name for the file's own block is `__main__`. */
export function amongOffered(offered: readonly OfferedTarget[], name: string | null): OfferedTarget | null {
  const only = offered.length === 1 ? offered[0] : undefined;
  return offered.find(({ target, label }) => target === name || label === name) ?? only ?? null;
}

/** As the tab has it. */
export function titleOf({ uri, target }: GraphTarget): string {
  const file = decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
  return `Graphs: ${target === null ? file : target || "__main__"}`;
}
