/** The commands of a window, run by the extension `driver`: the palette would draw a list of all commands for each. */

import http from "node:http";
import { setTimeout } from "node:timers/promises";

const startMilliseconds = 90_000;
/** How a connection fails while the window is starting. */
const notYet = new Set(["ENOENT", "ECONNREFUSED"]);

/** Runs a command in the window of `socket`, once it has started; resolves when the command is done. */
export async function runCommand(socket, command, ...args) {
  const deadline = Date.now() + startMilliseconds;
  for (;;) {
    try {
      return await send(socket, { command, args });
    } catch (error) {
      if (!notYet.has(error.code) || Date.now() > deadline) {
        throw error;
      }
    }
    await setTimeout(50);
  }
}

function send(socketPath, message) {
  return new Promise((done, fail) => {
    const request = http.request({ socketPath, method: "POST" }, async (response) => {
      const parts = await response.toArray();
      if (response.statusCode === 200) {
        done();
      } else {
        fail(new Error(`${message.command}: ${Buffer.concat(parts)}`));
      }
    });
    request.once("error", fail);
    request.end(JSON.stringify(message));
  });
}
