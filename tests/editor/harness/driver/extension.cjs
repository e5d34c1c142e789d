/**
 * Runs the commands that the tests send to the socket FUSELIGHT_DRIVER, and answers when they are done.
 *
 * Invariant: a window that is about to be loaded again has no socket, so that no command is lost.
 */

const fs = require("node:fs");
const http = require("node:http");
const { json } = require("node:stream/consumers");
const vscode = require("vscode");

const reload = "workbench.action.reloadWindow";
const socket = process.env.FUSELIGHT_DRIVER;

async function answer(request, response) {
  const { command, args } = await json(request);
  if (command === reload) {
    fs.rmSync(socket);
    response.end(); // nobody is there to do so afterwards
  }
  await vscode.commands.executeCommand(command, ...args);
  response.end();
}

exports.activate = ({ subscriptions }) => {
  const server = http.createServer((request, response) =>
    answer(request, response).catch(
      (error) => response.headersSent || response.writeHead(500).end(String(error)),
    ),
  );
  fs.rmSync(socket, { force: true }); // of a window that was closed
  server.listen(socket);
  subscriptions.push({ dispose: () => server.close() });
};
