// The theme puts wide tables into boxes that scroll. The keyboard must reach a box to scroll it, and a box whose table
// goes on at the right fades out there.
const showEnd = box => box.classList.toggle("goes-on", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
const boxes = () => document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code");
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    box.tabIndex = 0;
    box.addEventListener("scroll", () => showEnd(box), { passive: true });
    showEnd(box);
  }
}).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", () => boxes().forEach(showEnd));
for (const code of document.querySelectorAll(".md-typeset pre > code")) {
  code.addEventListener("scroll", () => showEnd(code), { passive: true });
  showEnd(code);
}

// A button beside each block of code copies it, without the prompts of a shell.
for (const block of document.querySelectorAll(".md-content .highlight:not(.doc-signature) > pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.innerText.replace(/^\$ /gm, ""));
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.after(button);
}
