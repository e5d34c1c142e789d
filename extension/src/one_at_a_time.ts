/** Calls `work` again where it was called while it worked, once for all these calls. */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let [isAtIt, isDue] = [false, false];
  return async () => {
    isDue = true;
    if (isAtIt) {
      return;
    }
    isAtIt = true;
    try {
      while (isDue) {
        isDue = false;
        await work();
      }
    } finally {
      isAtIt = false;
    }
  };
}
