/** The folder whose status the item shows. */

/** The key of the status of files that are outside every folder. */
export const outside = "";

/**
 * The folder, of those with a status, that stands for a document in `folder` (null: outside every folder).
 *
 * A document that no folder has, such as the preview of a fix or an untitled file, belongs to the work that was shown
 * `last`. Null only if nothing has a status.
 */
export function shownFolder(
  folder: string | null,
  known: ReadonlySet<string>,
  last: string | null,
): string | null {
  const candidates = [folder, outside, last, ...known];
  return candidates.find((candidate) => candidate !== null && known.has(candidate)) ?? null;
}
