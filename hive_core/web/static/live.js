// Live rows: one event stream while the page is visible. A frame names elements by id and brings their HTML.
export const policy = globalThis.trustedTypes?.createPolicy("hive", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
const { topics, title } = document.body.dataset;
const QUIET = 5000, BADGE = 60000, AGAIN = 1000, EVENTS = 200, OFFERED = 50;
let after = document.body.dataset.after, source = null, heard = Date.now(), asked = false;

function heardNow(event) {
  heard = Date.now();
  if (event.lastEventId) after = event.lastEventId;
  banner("");
}

function banner(text) {
  const element = document.getElementById("banner");
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}

function count(waiting) {
  document.getElementById("waiting").textContent = waiting;
  document.title = waiting ? `(${waiting}) ${title}` : title;
}

function fill(element, html) {
  element.innerHTML = policy.createHTML(html);
}

// Rows that came since the tree took another shape: those that are loaded may be older.
const newer = new Map();
let loads = 0;

function takeTree(values) {
  if (values.tree) return reloadTree();
  for (const [id, html] of Object.entries(values.rows)) {
    if (loads) newer.set(id, html);
    showRow(id, html);
  }
}

function showRow(id, html) {
  const row = document.getElementById(id);
  if (!row || row.getAttribute("aria-expanded") === "false") return;
  const focused = row.contains(document.activeElement) && document.activeElement !== row.firstElementChild;
  if (focused && !row.firstElementChild.contains(document.activeElement)) return;
  while (row.children.length > 1) row.lastElementChild.remove();
  row.insertAdjacentHTML("beforeend", policy.createHTML(html));
  if (watched?.dataset.row === id) reload("agent");
}

async function reloadTree() {
  const place = document.getElementById("tree");
  if (!place || asked) return;
  asked = true;
  loads += 1;
  await new Promise((done) => setTimeout(done, AGAIN));
  asked = false;
  const html = await fetch(`/tree/rows${location.search}`).then((response) => (response.ok ? response.text() : "")).catch(() => "");
  loads -= 1;
  const focused = document.activeElement?.closest("[role=row]")?.id;
  if (html) fill(place, html);
  newer.forEach((cells, id) => showRow(id, cells));
  if (!loads) newer.clear();
  if (html && focused) document.getElementById(focused)?.querySelector("a.to")?.focus();
}

// Pages whose rows are drawn anew as a whole: the row under the cursor and the focus stay.
const reloading = new Set(), watched = document.querySelector("[data-agent]");

async function reload(topic) {
  const place = document.querySelector(`[data-rows][data-live="${topic}"]`);
  if (!place || reloading.has(topic)) return;
  reloading.add(topic);
  await new Promise((done) => setTimeout(done, Number(place.dataset.pause ?? AGAIN))); // a reply from before the change is not kept for so long
  reloading.delete(topic);
  const response = await fetch(place.dataset.rows + location.search);
  if (!response.ok) return;
  const html = await response.text();
  const at = (place.querySelector(".current a.to") ?? place.querySelector(".current a"))?.href;
  const focused = place.contains(document.activeElement) ? document.activeElement.href : undefined;
  const link = (href) => href && [...place.querySelectorAll("a")].find((each) => each.href === href);
  const opened = [...place.querySelectorAll("details")].map((each) => each.open);
  fill(place, html);
  place.querySelectorAll("details").forEach((each, at) => { each.open = Boolean(opened[at]); });
  link(at)?.closest(".item")?.classList.add("current");
  link(focused)?.focus({ preventScroll: true });
  for (const turn of document.querySelectorAll("#running .ended")) turn.remove();
}

// The page of an agent: what events name it, the text of its running turns, and its own row.
function takeAgent(values) {
  if (watched && values.names.includes(watched.dataset.agent)) reload("agent");
}

function takeTurn(values) {
  const place = document.getElementById("running");
  if (!place) return;
  let turn = [...place.children].find((each) => each.dataset.title === values.title);
  if (!turn && values.ended) return;
  if (!turn) {
    turn = document.createElement("article");
    turn.dataset.title = values.title;
    turn.append(document.createElement("h2"), Object.assign(document.createElement("div"), { className: "said" }));
    turn.firstChild.textContent = `${values.title}, running`;
    turn.lastChild.append(document.createElement("bdi"));
    place.append(turn);
  }
  const text = turn.querySelector("bdi");
  if (values.whole && values.text) text.textContent = "";
  text.append(values.text);
  turn.classList.toggle("ended", values.ended);
  place.hidden = false;
}

// Rows of frames have no forms: those are of a login, so the page asks for them. Forms that end so many letters are asked
// for anew with the number.
function fillItem(row, html) {
  if (row.querySelector(".k-mail, .k-dead-letters")) row.querySelector(".settle")?.remove();
  const focused = row.contains(document.activeElement) && !document.activeElement.closest(".settle");
  for (const cell of [...row.children]) if (!cell.matches(".settle")) cell.remove();
  row.insertAdjacentHTML("afterbegin", policy.createHTML(html));
  if (focused) row.querySelector("a.open")?.focus({ preventScroll: true });
}

// While somebody points at the list, or has the focus in it, nothing in it moves: what came is held until they leave.
const list = document.getElementById("attention"), note = document.getElementById("held");
let held = null, pointed = false;

function isHeld() {
  return pointed || list.contains(document.activeElement);
}

function takeAttention(values) {
  count(values.waiting);
  if (!list) return;
  if (!isHeld()) return showAttention(values);
  held = { ...values, rows: { ...held?.rows, ...values.rows } };
  const order = new Set(values.order), rows = [...list.children];
  for (const row of rows) row.classList.toggle("over", !order.has(row.id));
  const over = rows.filter((row) => !order.has(row.id)).length, fresh = values.order.length - rows.length + over;
  note.querySelector("span").textContent = `${fresh} new, ${over} settled: shown when you leave the list.`;
  note.hidden = !fresh && !over;
}

function release() {
  if (!list || isHeld()) return;
  const values = held;
  held = null;
  note.hidden = true;
  if (values) showAttention(values);
  else takeForms();
}

list?.addEventListener("pointerenter", () => { pointed = true; });
list?.addEventListener("pointerleave", () => { pointed = false; release(); });
// Between two controls of the list nothing has the focus for a moment.
list?.addEventListener("focusout", (event) => { if (!list.contains(event.relatedTarget)) release(); });

function showAttention(values) {
  const order = new Set(values.order);
  for (const row of [...list.children]) if (!order.has(row.id)) row.remove();
  values.order.forEach((id, at) => {
    const row = document.getElementById(id) ?? Object.assign(document.createElement("li"), { id, className: "item" });
    if (values.rows[id]) fillItem(row, values.rows[id]);
    if (list.children[at] !== row) list.insertBefore(row, list.children[at] ?? null);
  });
  document.getElementById("nothing").hidden = values.order.length > 0;
  takeForms();
}

async function takeForms() {
  const lacking = () => [...list.children].slice(0, OFFERED).filter((row) => !row.querySelector(".settle"));
  if (reloading.has("forms") || !lacking().length) return;
  reloading.add("forms");
  await new Promise((done) => setTimeout(done, AGAIN));
  reloading.delete("forms");
  const response = await fetch("/attention/rows");
  if (!response.ok || isHeld()) return; // forms make rows higher
  const fresh = new DOMParser().parseFromString(policy.createHTML(await response.text()), "text/html");
  for (const row of lacking()) {
    const forms = fresh.getElementById(row.id)?.querySelector(".settle");
    if (forms) row.append(document.importNode(forms, true));
  }
}

let unshown = 0;

function takeAudit(values) {
  const list = document.getElementById("audit"), note = document.getElementById("unshown");
  unshown += values.left_out;
  if (note && unshown) note.textContent = `${unshown} events came too fast to be shown. Load the page to see the newest.`;
  for (const [id, html] of list ? values.first : []) {
    if (document.getElementById(id)) continue;
    const row = Object.assign(document.createElement("li"), { id, className: "item" });
    fill(row, html);
    list.prepend(row);
  }
  while (list && list.children.length > EVENTS) list.lastElementChild.remove();
}

function open() {
  if (source) return;
  source = new EventSource(`/live?topics=${topics}&after=${after}&agent=${encodeURIComponent(watched?.dataset.agent ?? "")}`);
  heard = Date.now();
  const takes = { tree: takeTree, attention: takeAttention, audit: takeAudit, agent: takeAgent, turn: takeTurn, timeline: () => reload("timeline"), tasks: () => reload("tasks"), cost: () => reload("cost") };
  for (const [topic, take] of Object.entries(takes)) {
    source.addEventListener(topic, (event) => { heardNow(event); take(JSON.parse(event.data)); });
  }
  source.addEventListener("beat", heardNow);
  source.addEventListener("gap", () => location.reload());
}

function close() {
  source?.close();
  source = null;
}

async function badge() {
  if (!document.hidden) return;
  const response = await fetch("/badge");
  if (response.ok) count((await response.json()).waiting);
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
setInterval(badge, BADGE);
// A browser never opens a stream again that was answered with a fault, as while hived starts. Without a login there is none.
setInterval(async () => {
  if (!source || Date.now() - heard <= QUIET) return;
  banner("No news for 5 seconds: the rows may be old.");
  if (source.readyState !== EventSource.CLOSED) return;
  close();
  const { status } = await fetch("/badge").catch(Response.error);
  if (status === 401) banner("This login has ended: load the page to log in again.");
  else if (!document.hidden) open();
}, 1000);
if (!document.hidden) open();
