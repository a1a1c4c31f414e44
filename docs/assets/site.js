// The theme puts wide tables into boxes that scroll. The keyboard must reach a box to scroll it.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) box.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });

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
