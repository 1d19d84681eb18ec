import { policy } from "./live.js";

// Forms: what is sent once is not sent twice; the lines of a long difference come while one scrolls.
document.addEventListener("submit", (event) => {
  const { target } = event;
  if (target.method !== "post") return;
  if (target.dataset.sent) event.preventDefault();
  target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

async function follow(link) {
  const response = await fetch(link.href);
  if (!response.ok) return;
  const more = new DOMParser().parseFromString(policy.createHTML(await response.text()), "text/html");
  const place = link.closest("#difference");
  link.parentElement.remove();
  place.append(...document.importNode(more.getElementById("difference"), true).childNodes);
  watch();
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    follow(entry.target);
  }
}, { rootMargin: "600px" });

function watch() {
  const link = document.querySelector("#difference a.more");
  if (link) seen.observe(link);
}
watch();
