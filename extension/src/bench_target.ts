/**
 * Which benchmark is meant: by a lens of the server's, by a kept state of the page; and the names that follow from it.
 *
 * Invariant: nothing of VS Code is imported: these are plain data, and anything else is no target.
 */

import type { BenchShown, BenchTarget } from "./bench_messages";

/** Null for what names no target of a file. */
export function benchTargetIn(value: unknown): BenchTarget | null {
  const { uri, target } = fieldsOf(value);
  return typeof uri === "string" && uri !== "" && typeof target === "string" ? { uri, target } : null;
}

/** The same, with the runs that were chosen. */
export function benchShownIn(value: unknown): BenchShown | null {
  const of = benchTargetIn(value);
  const { run, with: other } = fieldsOf(value);
  const id = (one: unknown) => (typeof one === "string" && one !== "" ? one : null);
  return of && { ...of, run: id(run), with: id(other) };
}

/** As the tab has it. */
export function benchTitleOf({ uri, target }: BenchTarget): string {
  const file = decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
  return `Benchmark: ${target || `__main__ of ${file}`}`;
}

/** The bytes of a PNG that the page has made; null for anything else. */
export function pictureIn(data: unknown): Uint8Array | null {
  const start = "data:image/png;base64,";
  if (typeof data !== "string" || !data.startsWith(start)) {
    return null;
  }
  const bytes = Buffer.from(data.slice(start.length), "base64");
  const signature = [0x89, 0x50, 0x4e, 0x47];
  return signature.every((byte, index) => bytes[index] === byte) ? bytes : null;
}

/** What the server answers to a request for a benchmark; null for what is no such answer. */
export function startedIn(
  value: unknown,
): { started: boolean; target: string | null; message: string } | null {
  const { started, target, message } = fieldsOf(value);
  return typeof started === "boolean" && typeof message === "string"
    ? { started, target: typeof target === "string" ? target : null, message }
    : null;
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
