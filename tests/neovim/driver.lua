-- What the session needs of Neovim: waiting, answering questions, and a record of all that happens, written as JSON.
--
-- Invariant: nothing here talks to the server past Neovim's own client, and each wait has a deadline.

local driver = { record = { questions = {}, messages = {}, unknown = {}, progress = {}, waits = {} } }
local record = driver.record
local seconds = tonumber(vim.env.NEOVIM_TEST_SECONDS) or 240

--- The title of each question's chosen button, by a word of the question.
driver.answers = {}

vim.ui.select = function(items, options, choose)
  local prompt, titles, chosen = options.prompt or "", {}, nil
  for _, item in ipairs(items) do
    local title = (options.format_item or tostring)(item)
    titles[#titles + 1] = title
    for word, answer in pairs(driver.answers) do
      if prompt:find(word, 1, true) and title:find(answer, 1, true) == 1 then
        chosen = chosen or item
      end
    end
  end
  record.questions[#record.questions + 1] = { prompt = prompt, titles = titles, answered = chosen ~= nil }
  choose(chosen)
end

vim.notify = function(message, level)
  record.messages[#record.messages + 1] = { text = message, level = level or vim.log.levels.INFO }
end

-- A method that Neovim does not know is looked up here, and found missing.
setmetatable(vim.lsp.handlers, {
  __index = function(_, method)
    if type(method) == "string" and method:find("/", 1, true) then
      record.unknown[#record.unknown + 1] = method
    end
  end,
})

vim.api.nvim_create_autocmd("LspProgress", {
  callback = function(event)
    local value = event.data.params.value
    record.progress[#record.progress + 1] = { kind = value.kind, message = value.message or "" }
  end,
})

local PAUSE = 200 -- milliseconds

--- Waits until `is_true`, which is called once in a pause: Neovim would call it after each event, its answers included.
function driver.wait(what, is_true)
  local began = vim.uv.now()
  local called = began - PAUSE
  local came = vim.wait(seconds * 1000, function()
    if vim.uv.now() - called < PAUSE then
      return false
    end
    local is_now = is_true()
    called = vim.uv.now()
    return is_now
  end, PAUSE)
  record.waits[#record.waits + 1] = { what = what, came = came, seconds = (vim.uv.now() - began) / 1000 }
  if not came then
    error("did not come: " .. what)
  end
end

function driver.client()
  return vim.lsp.get_clients({ name = "fuselight" })[1]
end

function driver.request(method, params, buffer)
  local answers = vim.lsp.buf_request_sync(buffer, method, params, seconds * 1000) or {}
  local answer = answers[driver.client().id] or {}
  if answer.err then
    error(method .. ": " .. vim.inspect(answer.err))
  end
  return answer.result
end

function driver.command(name, argument, buffer)
  local answer = driver.client():request_sync(
    "workspace/executeCommand",
    { command = name, arguments = { argument } },
    seconds * 1000,
    buffer
  )
  if answer == nil or answer.err then
    error(name .. ": " .. vim.inspect(answer))
  end
  return answer.result
end

function driver.lenses(buffer)
  local document = { textDocument = vim.lsp.util.make_text_document_params(buffer) }
  local shown = {}
  for _, lens in ipairs(driver.request("textDocument/codeLens", document, buffer) or {}) do
    shown[#shown + 1] = {
      line = lens.range.start.line,
      title = lens.command.title,
      command = lens.command.command,
    }
  end
  return shown
end

function driver.diagnostics(buffer)
  return vim.tbl_map(function(diagnostic)
    return { line = diagnostic.lnum, code = tostring(diagnostic.code), message = diagnostic.message }
  end, vim.diagnostic.get(buffer))
end

function driver.has_code(buffer, pattern)
  return vim.iter(vim.diagnostic.get(buffer)):any(function(diagnostic)
    return tostring(diagnostic.code):match(pattern) ~= nil
  end)
end

function driver.ended_runs()
  return #vim.tbl_filter(function(progress)
    return progress.kind == "end"
  end, record.progress)
end

function driver.text(buffer)
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

--- Runs `session` and writes the record; a failure is part of it.
function driver.run(session)
  local ok, failure = xpcall(session, debug.traceback)
  record.failure = not ok and failure or nil
  vim.fn.writefile({ vim.json.encode(record) }, vim.env.NEOVIM_TEST_RECORD)
  vim.cmd("qa!")
end

return driver
