// Pausing the list of calls, and how many calls it has.
(() => {
  "use strict";

  document.addEventListener("DOMContentLoaded", () => {
    const calls = document.getElementById("calls");
    const pause = document.getElementById("pause");
    // An older page has no stream.
    if (!calls || !pause || !calls.hasAttribute("hx-sse:connect")) return;

    const isPaused = () => calls.dataset.paused !== undefined;
    const held = () => calls.querySelectorAll("tr:not(.shown)");

    const label = () => {
      const count = isPaused() ? held().length : 0;
      pause.textContent = isPaused() ? `Resume${count ? ` (${count} new)` : ""}` : "Pause";
    };

    pause.hidden = false;
    pause.addEventListener("click", () => {
      if (isPaused()) {
        delete calls.dataset.paused;
      } else {
        // The style sheet hides the rows that come now, which do not have this class.
        for (const row of calls.rows) row.classList.add("shown");
        calls.dataset.paused = "";
      }
      label();
    });

    document.addEventListener("htmx:sse:after:message", () => {
      const newest = calls.rows[0];
      if (newest?.dataset.counted) document.getElementById("counted").textContent = newest.dataset.counted;
      if (!isPaused()) return;
      // What is held back is bounded as the list is; the log still has the rest.
      const waiting = held();
      for (const row of [...waiting].slice(Number(calls.dataset.most))) row.remove();
      label();
    });

    // A menu closes like one.
    document.addEventListener("keydown", (event) => {
      const menu = document.querySelector("details.menu[open]");
      if (event.key !== "Escape" || !menu) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  });
})();
