// The search index is as large as all pages together, so it is fetched when a reader first touches the page, and not
// with the page. The theme asks for it at once; this holds the request back.
const held = [];
const { open, send } = XMLHttpRequest.prototype;

XMLHttpRequest.prototype.open = function (method, url, ...rest) {
  this.isIndex = String(url).endsWith("/search.json");
  return open.call(this, method, url, ...rest);
};
XMLHttpRequest.prototype.send = function (...body) {
  if (this.isIndex) held.push(() => send.apply(this, body));
  else send.apply(this, body);
};

function letGo() {
  XMLHttpRequest.prototype.send = send;
  for (const go of held.splice(0)) go();
}
for (const touch of ["keydown", "pointerdown", "focusin"]) addEventListener(touch, letGo, { capture: true, once: true });

// The theme knows Ctrl+K only once it has the index. Before, this opens the search, which then waits for the index.
function isReady() {
  return [...document.body.children].some((each) => each.shadowRoot?.querySelector("[role=combobox]"));
}
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "k" || isReady()) return;
  event.preventDefault();
  document.querySelector(".md-search__button").click();
}, { capture: true });
