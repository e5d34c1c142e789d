/** Runs `work` once more, after it has ended, for all the calls that came while it ran. */
export function coalesce(work: () => Promise<void>): () => Promise<void> {
  let [isRunning, isDue] = [false, false];
  return async () => {
    isDue = true;
    if (isRunning) {
      return;
    }
    isRunning = true;
    try {
      while (isDue) {
        isDue = false;
        await work();
      }
    } finally {
      isRunning = false;
    }
  };
}
