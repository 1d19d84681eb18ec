// Moving an agent: drag its name, or press m on its row, to its new parent. The page of the move then says what hived thinks of it.
const tree = document.getElementById("tree"), status = document.getElementById("moving");
const ROW = ".agent-row", TARGETS = `${ROW}, .head`, FAR = 6;
let carried = "";

function carry(name) {
  carried = name;
  status.textContent = name && `Move ${name}: j and k choose the new parent, Enter takes it, r makes it a root, Escape ends this.`;
  status.hidden = !name;
  tree.classList.toggle("moving", Boolean(name));
  mark(null);
}

function mark(target) {
  tree.querySelector(".drop-target")?.classList.remove("drop-target");
  target?.classList.add("drop-target");
}

// The head of the rows stands for no parent at all.
function drop(target) {
  const name = carried, parent = target.dataset.name;
  carry("");
  if (name && name !== parent) location.assign(`/agents/${encodeURIComponent(name)}/move?${parent ? new URLSearchParams({ parent }) : "root=yes"}`);
}

// A pointer carries an agent from where it has gone some way with the button down. Fingers scroll: they have the form.
let start = null, ended = 0;
const under = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest(TARGETS) ?? null;

tree.addEventListener("dragstart", (event) => event.preventDefault());
tree.addEventListener("pointerdown", (event) => {
  const row = event.target.closest(".name")?.closest(ROW);
  if (row && event.button === 0 && event.pointerType !== "touch") start = { x: event.clientX, y: event.clientY, name: row.dataset.name };
});
addEventListener("pointermove", (event) => {
  if (!start) return;
  if (!carried && Math.hypot(event.clientX - start.x, event.clientY - start.y) > FAR) carry(start.name);
  if (carried) mark(under(event));
});
addEventListener("pointerup", (event) => {
  const dragged = start && carried, target = under(event);
  start = null;
  if (!dragged) return;
  ended = event.timeStamp;
  if (tree.contains(target)) drop(target);
  else carry("");
});
addEventListener("pointercancel", () => { start = null; carry(""); });
// The click that ends a drag opens nothing.
tree.addEventListener("click", (event) => { if (ended && event.timeStamp - ended < 50) event.preventDefault(); }, { capture: true });

// Before the keys of all pages: while an agent is carried, these mean where it goes.
addEventListener("keydown", (event) => {
  const row = tree.querySelector(".current") ?? event.target.closest(`#tree ${ROW}`);
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (!carried && !document.getElementById("single-keys").checked) return;
  if (!carried && event.key === "m" && row) carry(row.dataset.name);
  else if (carried && event.key === "Enter" && row) drop(row);
  else if (carried && event.key === "r") drop(tree.querySelector(".head"));
  else if (carried && event.key === "Escape") { start = null; carry(""); }
  else return;
  event.preventDefault();
  event.stopPropagation();
}, { capture: true });
