/** Whether a Python file can have targets. */

/** A target needs torch by name, in its own text or in that of a directive; a name that only contains it does not count. */
const sign = /\btorch(?:vision|audio)?\b|^\s*#\s*fuselight:/m;

export function usesTorch(text: string): boolean {
  return sign.test(text);
}
