// What makes the pages nicer where JavaScript runs. Each of them works without.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);

  // --- copying -------------------------------------------------------------------------------------------------

  const copy = async (button) => {
    // An id stands just before its button, and the button has the whole of it.
    const source = byId(button.dataset.copy) ?? button.previousElementSibling;
    const label = button.firstChild;
    try {
      await navigator.clipboard.writeText(button.dataset.copyText ?? source.textContent);
      label.data = "Copied";
    } catch {
      // Not allowed here: select it, so that one key is left to press.
      getSelection().selectAllChildren(source);
      label.data = "Selected";
    }
    setTimeout(() => { label.data = "Copy"; }, 2000);
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
    // Nothing that is being read goes away while the list is paused.
    if (calls.dataset.paused !== undefined) return;
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
    for (const button of document.querySelectorAll("[data-copy], [data-copy-text]")) {
      button.hidden = false;
      button.addEventListener("click", () => copy(button));
    }
  });
  document.addEventListener("anew", (event) => outdate(event.target));
  document.addEventListener("htmx:sse:after:connection", () => say("on", "Listening"));
  document.addEventListener("htmx:sse:error", () => say("off", "Connecting again …"));
  document.addEventListener("htmx:sse:close", () => say("off", "Disconnected"));
  document.addEventListener("htmx:sse:after:message", (event) => trim(event.target));
})();
