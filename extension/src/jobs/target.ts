/**
 * Parses the data that names a job (the saved state of a page, arguments of commands) and the page's messages.
 *
 * Invariant: nothing of VS Code is imported. Malformed data is no job and no message.
 */

import { placeIn } from "../bench/target.ts";
import { fieldsOf } from "../messages/fields.ts";
import { fileOf } from "../messages/file_name.ts";
import type { JobMessage, JobShown } from "../messages/job";
import type { JobPage } from "../messages/page_types";

/** Null for data that names no job. */
export function jobShownIn(value: unknown): JobShown | null {
  const { uri, target, against } = fieldsOf(value);
  return typeof uri === "string" && uri !== "" && typeof target === "string" && target !== ""
    ? { uri, target, against: typeof against === "string" && against !== "" ? against : null }
    : null;
}

/** Title of the tab. */
export function jobTitleOf({ uri }: Pick<JobShown, "uri">): string {
  return `Job: ${fileOf(uri.replace(/\/+$/, ""))}`;
}

/** A message of the page; null for anything else. */
export function jobMessageIn(value: unknown): JobMessage | null {
  const { type, place, against } = fieldsOf(value);
  switch (type) {
    case "ready":
    case "compareOther":
    case "close":
    case "reopen":
      return { type };
    case "compare":
      return { type, against: typeof against === "string" && against !== "" ? against : null };
    case "open": {
      const at = placeIn(place);
      return at && { type, place: at };
    }
    default:
      return null;
  }
}

/** The page of a job that cannot be shown; `message` says why. */
export function emptyPage({ uri, target }: JobShown, message: string): JobPage {
  const flags = { found: false, running: false, stale: false };
  const lists = { statements: [], facts: [], notes: [], findings: [], differences: [], waits: [] };
  const parts = { ranks: null, timeline: null, caches: null, start: null, comparison: null };
  return {
    ...flags,
    ...lists,
    ...parts,
    job: target,
    source: uri,
    message,
    title: fileOf(uri.replace(/\/+$/, "")),
    when: "",
    more_findings: 0,
    more_differences: 0,
    steps: [],
    steps_of: "",
    others: [],
    against: "",
  };
}
