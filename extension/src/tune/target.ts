/**
 * Parses the messages of a search's page and titles its tab.
 *
 * Invariant: nothing of VS Code is imported. Malformed data is no message.
 */

import type { BenchTarget } from "../messages/bench";
import { fieldsOf } from "../messages/fields.ts";
import { fileOf } from "../messages/file_name.ts";
import { spokenTarget } from "../messages/target_name.ts";
import type { TuneMessage } from "../messages/tune";

const kinds: ReadonlySet<unknown> = new Set<TuneMessage["type"]>([
  "ready",
  "tune",
  "cancel",
  "copy",
  "openFile",
  "applyFixes",
]);

/** A message of the page; null for anything else. */
export function tuneMessageIn(value: unknown): TuneMessage | null {
  const { type } = fieldsOf(value);
  return kinds.has(type) ? { type: type as TuneMessage["type"] } : null;
}

/** Title of the tab. It names the file, because several files may have a target of that name. */
export function tuningTitleOf({ uri, target }: BenchTarget): string {
  return `Tuning: ${spokenTarget(target)} (${fileOf(uri)})`;
}
