/**
 * A limit on how long something is waited for.
 *
 * Invariant: nothing of VS Code is imported. Whatever comes later is ignored, also a failure.
 */

export async function within<T>(milliseconds: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const text = `no answer within ${milliseconds / 1000} seconds`;
    timer = setTimeout(() => reject(new Error(text)), milliseconds);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
