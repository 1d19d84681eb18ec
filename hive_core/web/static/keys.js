// Keys: single letters move, open and act. They can be switched off, and never act inside of a field.
const rows = () => [...document.querySelectorAll("main .item, main .agent-row")];
const toggle = document.getElementById("single-keys");
const stored = "hive-single-keys-off";
let going = false;

toggle.checked = localStorage.getItem(stored) === null;
toggle.addEventListener("change", () => (toggle.checked ? localStorage.removeItem(stored) : localStorage.setItem(stored, "1")));

function current() {
  return document.querySelector("main .current") ?? document.activeElement?.closest("main .item, main .agent-row");
}

function move(by) {
  const all = rows(), at = all.indexOf(current());
  const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
  if (!next) return;
  current()?.classList.remove("current");
  next.classList.add("current");
  next.scrollIntoView({ block: "nearest" });
  (next.querySelector("a.open[href], a.to") ?? next.querySelector("a"))?.focus({ preventScroll: true });
}

function open(hash = "") {
  const link = current()?.querySelector("a.open[href], a.to");
  if (link) location.assign(link.href + hash);
}

function form(key) {
  const selector = `form[data-key="${key}"]`;
  const found = current()?.querySelector(selector) ?? document.querySelector(`:not(.settle, .settle *) > ${selector}`);
  const folded = found?.closest(".settle details");
  if (folded) folded.open = true;
  const field = found?.querySelector("input:not([type=hidden]), textarea, button");
  field?.focus();
  field?.scrollIntoView({ block: "center" });
  return Boolean(field);
}

// Where the form of a key is on another page, that page is opened, and goes on to the form.
const TABS = { c: "talk", t: "tasks" };

function follow(key) {
  const tab = TABS[key] && document.querySelector(`.tabs a[href$="/${TABS[key]}"]`);
  if (tab) location.assign(`${tab.href}#${key}`);
  else if (!TABS[key]) open(`#${key}`);
}

function fold(open) {
  const row = current();
  if (row?.getAttribute("aria-expanded") === String(!open)) row.querySelector("a.fold")?.click();
}

function help() {
  const details = document.getElementById("help");
  details.open = !details.open;
  details.querySelector("summary").focus();
}

// Rows that are selected, by name: they stay so when the tree is drawn anew.
const tree = document.getElementById("tree"), selected = new Set();

function select() {
  const name = tree && current()?.dataset.name;
  if (!name) return;
  if (!selected.delete(name)) selected.add(name);
  markSelected();
}

function markSelected() {
  for (const row of rows()) row.ariaSelected = selected.has(row.dataset.name) ? "true" : null;
  const status = document.getElementById("selected");
  status.textContent = `${selected.size} selected: s stops them, x selects another one or leaves one out.`;
  status.hidden = selected.size === 0;
}
if (tree) new MutationObserver(() => selected.size && markSelected()).observe(tree, { childList: true });

function stop() {
  const name = current()?.dataset.name;
  if (selected.size) location.assign(`/selected/stop?agents=${[...selected].map(encodeURIComponent)}`);
  else if (name) location.assign(`/agents/${name}/ask/stop`);
  else document.querySelector("[data-action=stop]")?.click();
}

function next() {
  const link = document.querySelector("[data-action=new]");
  if (link) link.click();
  else location.assign(`/next?${new URLSearchParams({ after: location.pathname })}`);
}

const keys = {
  j: () => move(1), k: () => move(-1), h: () => fold(false), l: () => fold(true), "?": help,
  "/": () => document.getElementById("filter")?.focus(),
  n: next, s: stop, x: select,
  m: () => form("m") || document.querySelector("[data-action=move]")?.click(),
  v: () => document.querySelector("[data-action=graph]")?.click(),
  w: () => current()?.querySelector("a.why")?.click(),
};
for (const key of ["a", "d", "r", "c", "t"]) keys[key] = () => form(key) || follow(key);
for (const key of ["+", "-", "[", "]"]) keys[key] = () => document.querySelector(`.steps [data-key="${key}"]`)?.click();

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !toggle.checked) return;
  if (event.target.closest("input, textarea, select")) return;
  const { key } = event;
  if (going) {
    going = false;
    document.querySelector(`header nav [data-key="${CSS.escape(key)}"]`)?.click();
  } else if (key === "g") {
    going = true;
  } else if (key === "Enter" && event.target === document.body) {
    open();
  } else if (/^[1-9]$/.test(key)) {
    document.querySelector(`.tabs [data-key="${key}"]`)?.click();
  } else if (Object.hasOwn(keys, key)) {
    keys[key]();
  } else {
    return;
  }
  if (key !== "Enter") event.preventDefault();
}

document.addEventListener("keydown", onKey);
if (/^#[acdrt]$/.test(location.hash)) form(location.hash.slice(1));
