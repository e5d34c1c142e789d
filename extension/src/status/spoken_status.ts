/**
 * The status item's text for a screen reader.
 *
 * Invariant: nothing of VS Code is imported. The state is not said twice.
 */

/** `Fuselight, ready. 2 targets analyzed`; the detail alone where it begins with the state, as `starting GPT2`. */
export function spoken(state: string, detail: string): string {
  const isRepeated = detail.toLowerCase().startsWith(`${state} `);
  return isRepeated ? `Fuselight, ${detail}` : `Fuselight, ${state}. ${detail}`;
}
