/**
 * Numbers and sentences as the page shows them.
 *
 * Invariant: at most three significant digits, always with a unit, and a dash for an unknown value.
 */

import type {
  ConfigurationRow,
  KernelRow,
  LineChange,
  LineRow,
  MeasuredPage,
  PagePlace,
  StepRow,
  WallPart,
} from "../../src/messages/page_types";

export const unknown = "\u2013";

/** `38.4 µs`, `12.3 ms`, `1.23 s`, of microseconds. */
export function time(us: number | null): string {
  return us === null ? unknown : scaled(us, 1000, ["µs", "ms", "s"]);
}

/** `1.5 MB`, of bytes, in powers of 1000. */
export function bytes(count: number | null): string {
  return count === null ? unknown : scaled(count, 1000, ["B", "KB", "MB", "GB", "TB"]);
}

/** Three digits, without exponents: 1234.5 is `1,230`. */
export function number(value: number | null): string {
  if (value === null) {
    return unknown;
  }
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** Formats a share from 0 to 1; a share above 0 is never shown as 0%. */
export function percent(share: number | null): string {
  if (share === null) {
    return unknown;
  }
  const inHundred = share * 100;
  if (inHundred > 0 && inHundred < 0.1) {
    return "<0.1%";
  }
  return `${inHundred.toFixed(inHundred < 10 ? 1 : 0)}%`;
}

/** `+12%` for 0.12. */
export function change(part: number | null): string {
  if (part === null) {
    return unknown;
  }
  const rounded = (part * 100).toFixed(Math.abs(part) < 0.1 ? 1 : 0);
  return `${Number(rounded) >= 0 ? "+" : "\u2212"}${rounded.replace("-", "")}%`;
}

export type Pair = Pick<LineChange, "before_us" | "after_us" | "change">;

/** Formats a change. Two known times without a change differ by less than their spreads. */
export function changeOf(pair: Pair): string {
  const isWithin = pair.change === null && pair.before_us !== null && pair.after_us !== null;
  return isWithin ? "within the spread" : change(pair.change);
}

/** `12.3 ms ± 1.2%`; a spread as wide as the time itself has no number. */
export function withSpread({ us, spread }: Pick<ConfigurationRow, "us" | "spread">): string {
  const around = spread !== null && spread >= 1 ? ">100%" : percent(spread);
  return us === null || spread === null ? time(us) : `${time(us)} ± ${around}`;
}

/** The reason why a configuration has no time; null if it has one or has failed. */
export function withoutTime(
  { us, failure, first_us }: Pick<ConfigurationRow, "us" | "failure" | "first_us">,
  { running, partial }: Pick<MeasuredPage, "running" | "partial">,
): string | null {
  if (us !== null || failure !== null) {
    return null;
  }
  const pending = first_us === null ? "not yet measured" : "still measuring";
  return running && partial ? pending : "not measured";
}

/** `1.62×`; a factor below 0.1 keeps two digits, `0.0047×`. */
export function speedup(factor: number | null): string {
  if (factor === null) {
    return unknown;
  }
  return `${factor < 0.1 && factor > 0 ? number(Number(factor.toPrecision(2))) : factor.toFixed(2)}×`;
}

/** `as in source` for the configuration `written`; other names unchanged. */
export function configurationName(name: string): string {
  return name === "written" ? "as in source" : name;
}

export function placeOf(place: PagePlace): string {
  return `${place.path}:${place.line + 1}`;
}

/** `2026-01-31 13:00`, in local time. */
export function moment(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) {
    return iso;
  }
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** A file name like those of the server's exports: `Net-2026-01-31.png`. */
export function pictureName({ title, when }: MeasuredPage): string {
  const name = title.replaceAll(/[^\p{L}\p{N}_.-]+/gu, "_") || "benchmark";
  return `${[name, when.slice(0, 10)].filter((part) => part !== "").join("-")}.png`;
}

/** A configuration's accuracy as a word and a sentence; a separate table has the details. */
export function accuracy({ accuracy: cell }: ConfigurationRow): readonly [string, string] {
  if (cell === null) {
    return [unknown, ""];
  }
  const verdict = { true: "passed", false: "FAILED", null: "not compared" }[String(cell.passed)] ?? "";
  return [verdict, cell.text.replace(/^not compared(: )?/, "")];
}

/** The line under the heading. */
export function summary(page: MeasuredPage): string {
  const inputs = page.inputs.length > 0 ? ` of ${page.inputs.join(", ")}` : "";
  const device = page.machine.find(({ name }) => name === "device")?.value;
  const isMeasured = page.configurations.some(({ us }) => us !== null);
  const unmeasured = page.running && page.partial ? "started" : "attempted";
  const tried = isMeasured ? `measured${device === undefined ? "" : ` on ${device}`}` : unmeasured;
  const when = page.when === "" ? "" : `${tried}, ${moment(page.when)}`;
  return [page.path, `${page.work}${inputs}`, when].filter((part) => part !== "").join(" \u00b7 ");
}

/** A statement of the server as a sentence of the page; a leading configuration name keeps its case. */
export function sentence(text: string, names: readonly string[]): string {
  const isName = names.some((name) => text.startsWith(`${name} `));
  return isName ? text : text.charAt(0).toUpperCase() + text.slice(1);
}

/** The notes about the numbers, without those that repeat the failure of a row. */
export function notesOf({ notes, configurations }: MeasuredPage): readonly string[] {
  const words = (text: string) => text.replaceAll(/[\s.]+/g, " ").trim();
  const failures = configurations.flatMap(({ failure }) => (failure === null ? [] : [words(failure)]));
  return notes.filter((note) => !failures.includes(words(note)));
}

/** The description of a chart's item, one string per line. */
export function lineWords({ place, us, share, kernels }: LineRow): readonly string[] {
  const shown = kernels.slice(0, 4).map((kernel) => shorten(kernel, 60));
  const more = kernels.length > shown.length ? [`and ${kernels.length - shown.length} more`] : [];
  return [
    placeOf(place),
    shorten(place.text, 70),
    `${time(us)}, ${percent(share)} of the kernels' time`,
    ...shown,
    ...more,
  ];
}

export function partWords({ label, us, share, place, what }: WallPart): readonly string[] {
  return [
    shorten(label, 70),
    `${time(us)}, ${percent(share)} of the wall time`,
    ...(what === "" ? [] : [shorten(what, 70)]),
    ...(place === null ? [] : [`${placeOf(place)}: ${shorten(place.text, 60)}`]),
  ];
}

export function stepWords(step: StepRow): readonly string[] {
  return [
    shorten(step.name, 70),
    `${time(step.us)}, starts at ${time(step.start_us)}`,
    ...(step.compile_id === null ? [] : [`frame ${step.compile_id}`]),
    ...(step.sampled ? ["measured by sampling"] : []),
    ...(step.place === null ? [] : [`${placeOf(step.place)}: ${shorten(step.place.text, 60)}`]),
  ];
}

export function kernelTime({ us, low_us, high_us }: KernelRow): string {
  return `${time(us)} (${time(low_us)} to ${time(high_us)})`;
}

export function shorten(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let [rest, index] = [Math.abs(value), 0];
  // 999.6 µs are 1 ms, not 1,000 µs.
  while (index < units.length - 1 && Number(rest.toPrecision(3)) >= step) {
    rest /= step;
    index += 1;
  }
  return `${value < 0 ? "\u2212" : ""}${number(rest)} ${units[index]}`;
}
