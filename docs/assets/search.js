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

// The theme knows Ctrl+K only once it has the index, and shows its field some moments after the button. What is typed
// before goes into the field once it is there.
let typed = null;

function field() {
  return [...document.body.children].map((each) => each.shadowRoot?.querySelector("[role=combobox]")).find(Boolean);
}

function hasFocus(input) {
  return input.getRootNode().activeElement === input;
}

function handOver() {
  const input = field();
  if (typed === null) return;
  if (!input || !hasFocus(input)) return void requestAnimationFrame(handOver);
  input.value = typed + input.value;
  typed = null;
  input.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true }));
}

function keep(event) {
  if (event.key === "Escape") typed = null;
  else if (event.key === "Backspace") typed = typed.slice(0, -1);
  else if (event.key.length === 1) typed += event.key;
  else return;
  event.preventDefault();
}

addEventListener("keydown", (event) => {
  const isCommand = event.ctrlKey || event.metaKey;
  if (typed !== null && !isCommand) return keep(event);
  if (!isCommand || event.key !== "k" || field()) return;
  event.preventDefault();
  document.querySelector(".md-search__button").click();
}, { capture: true });

addEventListener("click", (event) => {
  if (typed !== null || field() || !event.target.closest(".md-search__button")) return;
  typed = "";
  requestAnimationFrame(handOver);
}, { capture: true });
