/**
 * Parses the data that names a benchmark (arguments of commands, the saved state of a page) and the page's messages.
 *
 * Invariant: nothing of VS Code is imported. Malformed data is no target and no message.
 */

import type { BenchShown, BenchTarget, ExportFormat, PageMessage } from "../messages/bench";
import { fieldsOf } from "../messages/fields.ts";
import { fileOf } from "../messages/file_name.ts";
import type { PagePlace } from "../messages/page_types";
import type { MeasuredParams } from "../messages/server_types";
import { isSourceUri } from "../messages/source_uri.ts";
import { spokenTarget } from "../messages/target_name.ts";

/** Null for data that names no target of a file. */
export function benchTargetIn(value: unknown): BenchTarget | null {
  const { uri, target } = fieldsOf(value);
  return typeof uri === "string" && uri !== "" && typeof target === "string" ? { uri, target } : null;
}

/** The same, with the chosen runs. */
export function benchShownIn(value: unknown): BenchShown | null {
  const of = benchTargetIn(value);
  const { run, with: other } = fieldsOf(value);
  return of && { ...of, run: idIn(run), with: idIn(other) };
}

/** Where a file is after a rename of `from`, itself or a folder around it, to `to`; null if that is another one. */
export function renamedUri(uri: string, from: string, to: string): string | null {
  const isInside = uri.startsWith(`${from}/`);
  return uri === from || isInside ? `${to}${uri.slice(from.length)}` : null;
}

/** The parameters of a request for it. */
export function measuredAt({ uri, target, run, with: other }: BenchShown): MeasuredParams {
  return { uri, target, ...(run === null ? {} : { run }), ...(other === null ? {} : { with: other }) };
}

/** Title of the tab. It names the file, because several files may have a target of that name. */
export function benchTitleOf({ uri, target }: BenchTarget): string {
  return `Benchmark: ${spokenTarget(target)} (${fileOf(uri)})`;
}

const formats: ReadonlySet<unknown> = new Set<ExportFormat>(["json", "csv", "html"]);

/** A message of the page; null for anything else. */
export function pageMessageIn(value: unknown): PageMessage | null {
  const message = fieldsOf(value);
  switch (message["type"]) {
    case "ready":
    case "benchmark":
    case "cancel":
    case "chooseFile":
      return { type: message["type"] };
    case "open": {
      const place = placeIn(message["place"]);
      return place && { type: "open", place };
    }
    case "choose":
      return { type: "choose", run: idIn(message["run"]), with: idIn(message["with"]) };
    case "forget": {
      const run = idIn(message["run"]);
      return run === null ? null : { type: "forget", run };
    }
    case "export":
      return formats.has(message["format"])
        ? { type: "export", format: message["format"] as ExportFormat }
        : null;
    case "picture": {
      const { name, data } = message;
      const isFile = typeof name === "string" && /^[^/\\:]+\.png$/.test(name);
      return isFile && typeof data === "string" ? { type: "picture", name, data } : null;
    }
    default:
      return null;
  }
}

/** A line of a file or of a cell; nothing else is opened. */
export function placeIn(value: unknown): PagePlace | null {
  const { uri, path, line, text } = fieldsOf(value);
  const isLine = typeof line === "number" && Number.isSafeInteger(line) && line >= 0;
  return isSourceUri(uri) && isLine && typeof path === "string" && typeof text === "string"
    ? { uri, path, line, text }
    : null;
}

function idIn(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** The bytes of a PNG; null for anything else. */
export function pictureIn(data: unknown): Uint8Array | null {
  const start = "data:image/png;base64,";
  if (typeof data !== "string" || !data.startsWith(start)) {
    return null;
  }
  const bytes = Buffer.from(data.slice(start.length), "base64");
  const signature = [0x89, 0x50, 0x4e, 0x47];
  return signature.every((byte, index) => bytes[index] === byte) ? bytes : null;
}

/** The answer to a request for a benchmark; null for anything else. */
export function startedIn(
  value: unknown,
): { started: boolean; target: string | null; message: string } | null {
  const { started, target, message } = fieldsOf(value);
  return typeof started === "boolean" && typeof message === "string"
    ? { started, target: typeof target === "string" ? target : null, message }
    : null;
}
