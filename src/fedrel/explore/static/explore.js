// Saves reloads: what is chosen is asked for from here, and the <main> of the answer replaces that of this page. The
// address always says what is shown. Without this file the same links and forms work on their own.
"use strict";

const SILENT = "fedrel explore does not respond; is it still running?";
const NARROW = matchMedia("(max-width: 44rem)");
let newest = 0; // the number of the latest request: an older answer that comes later is dropped
let waiting = 0;

const main = () => document.getElementById("main");
const say = (id, text) => (document.getElementById(id).textContent = text);
const isOurs = (link) => link.origin === location.origin && ["/", "/calibration", "/document"].includes(link.pathname);

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href.baseVal ?? link.href, location.href);
  if (!isOurs(address) || link.hasAttribute("download")) return;
  event.preventDefault();
  go(address, { focus: link.classList.contains("row") ? (NARROW.matches ? "#detail" : "row") : "heading" });
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "filter") return; // the answer to signing in leads on by itself
  event.preventDefault();
  choose("q");
});

document.addEventListener("input", (event) => {
  if (event.target.id === "least") say("at-least", Number(event.target.value).toFixed(2));
  if (!event.target.closest("#filter")) return;
  clearTimeout(waiting);
  waiting = setTimeout(choose, 200);
});

// Asks for what the form says; the form itself stays as it is, so that one can go on typing.
function choose() {
  clearTimeout(waiting);
  const form = document.getElementById("filter");
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value && !(name === "least" && Number(value) === 0) && !(name === "order" && value === "sure")) {
      fields.append(name, value);
    }
  }
  const address = new URL(form.getAttribute("action"), location.href);
  address.search = fields;
  go(address, { keepForm: true, replace: true });
}

async function go(address, { focus, keepForm, replace, back } = {}) {
  const mine = ++newest;
  main().setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== newest) return;
    if (!page.getElementById("main")) throw new Error("not a page of fedrel explore");
    if (!back) history[replace ? "replaceState" : "pushState"](null, "", address);
    show(page, { focus, keepForm, hash: address.hash });
  } catch {
    if (mine === newest) say("alarm", SILENT);
  } finally {
    if (mine === newest) main().removeAttribute("aria-busy");
  }
}

function show(page, { focus, keepForm, hash }) {
  const next = document.adoptNode(page.getElementById("main"));
  const form = document.getElementById("filter");
  const open = form?.querySelector("details")?.open;
  if (keepForm && form && next.querySelector("#filter")) {
    recount(form, next.querySelector("#filter"));
    for (const part of [...main().children]) if (part !== form) part.remove();
    next.querySelector("#filter").remove();
    main().append(...next.children);
  } else {
    main().replaceWith(next);
    const details = document.querySelector("#filter details");
    if (details && open !== undefined) details.open = open;
  }
  document.querySelector("header nav")?.replaceWith(document.adoptNode(page.querySelector("header nav")));
  document.title = page.title;
  say("alarm", "");
  say("live", document.querySelector("#detail")?.textContent || document.querySelector("h1")?.textContent || "");
  settle();
  const current = document.querySelector(".row[aria-current]");
  if (focus === "row" && current) current.focus({ preventScroll: true });
  else if (focus) (document.querySelector("#detail") ?? document.querySelector("h1"))?.focus({ preventScroll: true });
  if (hash) document.querySelector(hash)?.scrollIntoView({ block: "center" });
  else if (focus === "row") current?.scrollIntoView({ block: "nearest" });
  else if (focus) window.scrollTo(0, 0);
}

function recount(form, next) {
  for (const choice of next.querySelectorAll(".choice")) {
    const { name, value } = choice.querySelector("input");
    const mine = [...form.elements].find((it) => it.name === name && it.value === value);
    mine?.closest(".choice").querySelector("small")?.replaceWith(choice.querySelector("small"));
  }
}

// On a narrow screen the filter is closed until one asks for it.
function settle() {
  const details = document.querySelector("#filter details");
  if (details && NARROW.matches && !details.dataset.settled) details.open = false;
  if (details) details.dataset.settled = "yes";
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && typing?.id === "q") return typing.blur();
  if (typing || event.target.closest(".scroll")) return;
  const act = {
    "/": () => document.getElementById("q")?.select(),
    Escape: () => document.querySelector(".detail .back a, .text .back a, .chips a")?.click(),
    n: () => document.querySelector("a[rel=next]")?.click(),
    p: () => document.querySelector("a[rel=prev]")?.click(),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    j: () => move(1),
    k: () => move(-1),
  }[event.key];
  if (!act || event.target.closest(".detail, svg") && event.key.startsWith("Arrow")) return;
  event.preventDefault();
  act();
});

function move(step) {
  const rows = [...document.querySelectorAll(".row")];
  const at = rows.findIndex((row) => row === document.activeElement);
  const from = at >= 0 ? at : rows.findIndex((row) => row.hasAttribute("aria-current"));
  const row = rows[Math.max(0, Math.min(rows.length - 1, from + step))];
  row?.focus();
  row?.scrollIntoView({ block: "nearest" });
  if (row && !NARROW.matches) go(new URL(row.href), { focus: "row", replace: true });
}

addEventListener("popstate", () => go(new URL(location.href), { back: true, focus: "heading" }));
settle();
