/**
 * Parses the data that names a target (nodes of the report, arguments of commands, the saved state of a page) and the
 * page's messages.
 *
 * Invariant: nothing of VS Code is imported. Malformed data is no target and no message.
 */

import { fieldsOf } from "../messages/fields.ts";
import { fileOf } from "../messages/file_name.ts";
import type { GraphTarget, ViewMessage } from "../messages/graphs";
import type { LinePosition, LineRange, OfferedTarget } from "../messages/page_types";
import { isSourceUri } from "../messages/source_uri.ts";
import { spokenTarget } from "../messages/target_name.ts";

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

/** A message of the page; null for anything else. */
export function viewMessageIn(value: unknown): ViewMessage | null {
  const message = fieldsOf(value);
  switch (message["type"]) {
    case "ready":
    case "run":
      return { type: message["type"] };
    case "choose": {
      const target = targetIn(message["target"]);
      return target && { type: "choose", target };
    }
    case "open": {
      const range = rangeIn(message["range"]);
      const { uri } = message;
      return isSourceUri(uri) && range ? { type: "open", uri, range } : null;
    }
    default:
      return null;
  }
}

function rangeIn(value: unknown): LineRange | null {
  const { start, end } = fieldsOf(value);
  const [first, last] = [positionIn(start), positionIn(end)];
  return first && last && { start: first, end: last };
}

function positionIn(value: unknown): LinePosition | null {
  const { line, character } = fieldsOf(value);
  return isCount(line) && isCount(character) ? { line, character } : null;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** Title of the tab. */
export function titleOf({ uri, target }: GraphTarget): string {
  return `Graphs: ${target === null ? fileOf(uri) : spokenTarget(target)}`;
}
