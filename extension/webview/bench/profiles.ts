/**
 * Which configuration's profile the page shows.
 *
 * Invariant: without a choice of the user, it is the profile that the server shows on the lines of the editor.
 */

import type { ProfileDetails } from "../../src/messages/page_types";

const first = ["written", "default"];

export function profileOf(
  profiles: Readonly<Record<string, ProfileDetails>>,
  chosen: string | null,
): string | null {
  const names = Object.keys(profiles);
  if (chosen !== null && names.includes(chosen)) {
    return chosen;
  }
  const compiled = names.filter((name) => name !== "eager");
  const profiled = compiled.filter((name) => profiles[name]?.source !== "");
  const there = profiled.length > 0 ? profiled : compiled.length > 0 ? compiled : names;
  return first.find((name) => there.includes(name)) ?? there[0] ?? null;
}
