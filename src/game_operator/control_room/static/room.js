// What makes the pages nicer where JavaScript runs. Each of them works without.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);

  // --- copying -------------------------------------------------------------------------------------------------

  const copy = async (button) => {
    const source = byId(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Not allowed here: select it, so that one key is left to press.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };

  // --- the list of calls ---------------------------------------------------------------------------------------

  const say = (state, text) => {
    const pulse = byId("pulse");
    if (!pulse) return;
    pulse.hidden = false;
    pulse.dataset.state = state;
    if (byId("pulse-text").textContent !== text) byId("pulse-text").textContent = text;
  };

  const trim = (calls) => {
    while (calls.rows.length > Number(calls.dataset.most)) calls.rows[calls.rows.length - 1].remove();
  };

  // The sandbox has started again: what stands here is of the run before, and its numbers now belong to other calls.
  const outdate = (calls) => {
    for (const row of calls.rows) {
      row.removeAttribute("id");
      row.className = "past";
      row.title = "Of the run before the sandbox started again";
      for (const link of row.querySelectorAll("a")) link.replaceWith(...link.childNodes);
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", () => copy(button));
    }
  });
  // --- an amount won stands for a win --------------------------------------------------------------------------

  document.addEventListener("input", (event) => {
    if (event.target.name !== "won" || !event.target.value) return;
    const win = event.target.form?.querySelector("input[name=outcome][value=win]");
    if (win) win.checked = true;
  });

  document.addEventListener("anew", (event) => outdate(event.target));
  document.addEventListener("htmx:sse:after:connection", () => say("on", "Listening"));
  document.addEventListener("htmx:sse:error", () => say("off", "Connecting again …"));
  document.addEventListener("htmx:sse:close", () => say("off", "Disconnected"));
  document.addEventListener("htmx:sse:after:message", (event) => trim(event.target));
})();
