-- One session of a user: open, consent, findings, hover, a fix, kernels, pages, a search, a restart.
--
-- The configuration is the snippet of docs/editors.md. Files are named by the environment.

package.path = vim.fn.fnamemodify(debug.getinfo(1).source:sub(2), ":h") .. "/?.lua;" .. package.path
local driver = require("driver")
local record = driver.record
local model, helper = vim.env.NEOVIM_TEST_MODEL, vim.env.NEOVIM_TEST_HELPER
local BREAK = 9 -- 0-based line of the model that breaks the graph

local function open()
  vim.cmd.edit(model)
  local buffer = vim.api.nvim_get_current_buf()
  driver.wait("the client", function()
    return driver.client() ~= nil and driver.client().initialized
  end)
  return buffer
end

local function range(line)
  return { start = { line = line, character = 4 }, ["end"] = { line = line, character = 4 } }
end

local function at_target(buffer)
  return { uri = vim.uri_from_bufnr(buffer), target = "Net" }
end

local function consent_and_findings(buffer)
  record.lenses_before = driver.lenses(buffer)
  driver.answers = { ["Run code of this folder"] = "Run" }
  vim.cmd("silent write!")
  driver.wait("a finding", function()
    return driver.has_code(buffer, "^GB") and driver.ended_runs() > 0
  end)
  record.diagnostics = driver.diagnostics(buffer)
  record.lenses = driver.lenses(buffer)
  record.hover = driver.request(
    "textDocument/hover",
    { textDocument = vim.lsp.util.make_text_document_params(buffer), position = { line = BREAK, character = 12 } },
    buffer
  ).contents
end

local function fix(buffer)
  local context = { diagnostics = {}, triggerKind = 1 }
  local document = vim.lsp.util.make_text_document_params(buffer)
  local asked = { textDocument = document, range = range(BREAK), context = context }
  local function titles()
    return vim.tbl_map(function(action)
      return action.title
    end, driver.request("textDocument/codeAction", asked, buffer) or {})
  end
  record.actions = titles()
  local before = driver.text(buffer)
  vim.api.nvim_win_set_cursor(0, { BREAK + 1, 8 })
  local function is_fix(action)
    return action.title:find(vim.env.NEOVIM_TEST_FIX, 1, true) ~= nil
  end
  vim.lsp.buf.code_action({ filter = is_fix, apply = true })
  driver.wait("the edit of the fix", function()
    return driver.text(buffer) ~= before
  end)
  record.fixed = driver.text(buffer)
end

local function changed_by_another_program()
  local text = table.concat(vim.fn.readfile(helper), "\n"):gsub("return x", "print(x)\n    return x")
  vim.fn.writefile(vim.split(text, "\n"), helper)
  local other = vim.fn.bufadd(helper)
  driver.wait("a run after another program wrote a file", function()
    return driver.has_code(other, "^GB")
  end)
  record.diagnostics_elsewhere = driver.diagnostics(other)
end

local function kernels(buffer)
  driver.command("fuselight.server.kernels", at_target(buffer), buffer)
  local function kernel_lens()
    return vim.iter(driver.lenses(buffer)):find(function(lens)
      return lens.command == "fuselight.server.showKernel"
    end)
  end
  driver.wait("a lens of a line with kernels", function()
    return kernel_lens() ~= nil
  end)
  driver.answers["Which kernel"] = ""
  driver.command("fuselight.server.showKernel", at_target(buffer), buffer)
  driver.wait("the text of a kernel", function()
    return vim.api.nvim_get_current_buf() ~= buffer
  end)
  record.kernel = {
    name = vim.api.nvim_buf_get_name(0),
    text = driver.text(vim.api.nvim_get_current_buf()),
  }
  vim.api.nvim_set_current_buf(buffer)
end

local function pages(buffer)
  driver.command("fuselight.server.showBenchmark", at_target(buffer), buffer)
  driver.command("fuselight.server.showDetails", at_target(buffer), buffer)
  driver.command("fuselight.server.showGraphs", at_target(buffer), buffer)
  driver.command("fuselight.server.noAction", nil, buffer)
end

local function tune(buffer)
  local asked = at_target(buffer)
  record.tuning = driver.command("fuselight.server.tune", asked, buffer)
  driver.wait("the end of the search", function()
    local titles = vim.tbl_map(function(lens)
      return lens.title
    end, driver.lenses(buffer))
    record.tuned = vim.iter(titles):find(function(title)
      return title:find("uned: ", 1, true) ~= nil
    end)
    return record.tuned ~= nil and not vim.list_contains(titles, "Cancel Tuning")
  end)
  driver.command("fuselight.server.showTuning", asked, buffer)
end

local function restart(buffer)
  local first = driver.client()
  first:stop()
  driver.wait("the end of the first server", function()
    return first:is_stopped()
  end)
  record.questions_before_restart = #record.questions
  vim.cmd.edit({ bang = true })
  driver.wait("the second server", function()
    local second = driver.client()
    return second ~= nil and second.id ~= first.id and second.initialized
  end)
  -- The results of the first session are shown again without a run: only another text runs.
  vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { "# another text" })
  local runs = driver.ended_runs()
  vim.cmd("silent write!")
  driver.wait("a run of the second server", function()
    return driver.ended_runs() > runs
  end)
  record.lenses_after_restart = driver.lenses(buffer)
end

driver.run(function()
  local buffer = open()
  record.capabilities = driver.client().capabilities
  consent_and_findings(buffer)
  fix(buffer)
  vim.cmd("silent write!")
  driver.wait("no finding after the fix", function()
    return not driver.has_code(buffer, "^GB")
  end)
  tune(buffer)
  kernels(buffer)
  changed_by_another_program()
  pages(buffer)
  restart(buffer)
  driver.client():stop()
  driver.wait("the end of the second server", function()
    return driver.client() == nil
  end)
end)
