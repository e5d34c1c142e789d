/**
 * The name of a target as a reader says it: `step in main` for `main.<locals>.step`, `__main__` for the block that has
 * no name. Nothing of VS Code is imported.
 */
export function spokenTarget(target: string): string {
  return target.split(".<locals>.").reverse().join(" in ") || "__main__";
}
