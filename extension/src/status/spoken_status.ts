/**
 * What the status item and its messages say.
 *
 * Invariant: nothing of VS Code is imported. The state is not said twice.
 */

/** The message about an interpreter that cannot run code: what is wrong, and where the interpreter comes from. */
export function interpreterMessage(detail: string, why: string | null): string {
  const problem = detail.replace(/\.$/, "");
  return `Fuselight: ${problem}${why ? ` (interpreter: ${why})` : ""}.`;
}

/** `Fuselight, ready. 2 targets analyzed`; the detail alone where it begins with the state, as `starting GPT2`. */
export function spoken(state: string, detail: string): string {
  const isRepeated = detail.toLowerCase().startsWith(`${state} `);
  return isRepeated ? `Fuselight, ${detail}` : `Fuselight, ${state}. ${detail}`;
}
