// Fields that count only together with another one are disabled without it. Where no script runs they are ignored.
(() => {
  "use strict";

  const counts = (field) => {
    const fields = new FormData(field.form);
    const { onlyWith, unless } = field.dataset;
    if (unless) return !fields.get(unless);
    const [name, value] = onlyWith.split("=");
    return fields.get(name) === value;
  };

  const look = () => {
    for (const field of document.querySelectorAll("[data-only-with], [data-unless]")) field.disabled = !counts(field);
  };

  document.addEventListener("DOMContentLoaded", look);
  for (const event of ["input", "change", "htmx:after:swap", "htmx:after:settle"]) document.addEventListener(event, look);
  // Going back, a browser fills forms in after they were looked at.
  addEventListener("pageshow", look);
})();
