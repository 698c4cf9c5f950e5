// Saves reloads: forms are sent from here, and the <main> of the answer replaces that of this page. Without this file
// the same forms work on their own.
"use strict";

const KEYS = {
  ArrowRight: "#judge button[value=right]",
  ArrowLeft: "#judge button[value=wrong]",
  ArrowDown: "#judge button[value=unknown]",
  u: "#undo button",
  s: "#skip button",
};
const SILENT =
  "fedrel review does not respond, so your last answer may not be stored. Restart it, then answer again: " +
  "nothing counts twice.";
let busy = false;

const main = () => document.getElementById("main");
const say = (id, text) => (document.getElementById(id).textContent = text);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.id === "pick") picking(event);
  else if (event.key === "Escape") closePicks(event);
  else judging(event);
});

function judging(event) {
  const typing = event.target.closest("input, select, textarea");
  const button = !typing && document.querySelector(KEYS[event.key] ?? "#none");
  if (!typing && event.key === "/") {
    event.preventDefault();
    document.getElementById("q").focus();
  } else if (!typing && event.key === "c") {
    openPicks(event);
  } else if (button && !button.disabled && !event.repeat) {
    event.preventDefault();
    button.click();
  }
}

// Another relation: typing narrows the list, Enter takes the first that is left.
const picks = () => [...document.querySelectorAll(".pick")];

function openPicks(event) {
  const list = document.getElementById("another");
  if (!list) return;
  event.preventDefault();
  list.open = true;
  document.getElementById("pick").focus();
}

function closePicks(event) {
  const list = document.getElementById("another");
  if (!list?.open || !list.contains(event.target)) return;
  list.open = false;
  list.querySelector("summary").focus();
}

function picking(event) {
  if (event.key === "Escape") closePicks(event);
  if (event.key !== "Enter") return;
  event.preventDefault();
  if (!event.repeat) document.querySelector(".pick.first")?.click();
}

function narrow() {
  const typed = document.getElementById("pick").value.trim().toLowerCase();
  const fit = (button) => `${button.textContent} ${button.value}`.toLowerCase().includes(typed);
  for (const button of picks()) {
    button.hidden = !fit(button);
    button.classList.remove("first");
  }
  picks().find((button) => !button.hidden)?.classList.add("first");
}

function prepare() {
  const find = document.querySelector(".find");
  if (!find) return;
  find.hidden = false;
  narrow();
}

document.addEventListener("input", (event) => event.target.id === "pick" && narrow());
document.addEventListener("DOMContentLoaded", prepare);

document.addEventListener("submit", (event) => {
  const form = event.target;
  const here = form.getAttribute("action");
  if (here === "/login") return; // its answer leads on by itself
  event.preventDefault();
  if (!busy) send(form, here, event.submitter);
});

async function send(form, action, button) {
  busy = true;
  main().setAttribute("aria-busy", "true");
  const withFile = form.enctype === "multipart/form-data";
  const fields = withFile ? new FormData(form) : new URLSearchParams(new FormData(form));
  if (button?.name) fields.set(button.name, button.value);
  const post = form.getAttribute("method") === "post";
  try {
    const answer = post ? await fetch(action, { method: "POST", body: fields }) : await fetch(`${action}?${fields}`);
    show(await answer.text(), answer, button);
  } catch {
    say("alarm", SILENT);
  } finally {
    busy = false;
    main().removeAttribute("aria-busy");
  }
}

function show(html, answer, button) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const next = page.getElementById("main");
  if (!next) throw new Error("not a page of fedrel review");
  const had = button && document.activeElement === button && selector(button);
  main().replaceWith(document.adoptNode(next));
  prepare();
  document.title = page.title;
  say("alarm", "");
  if (answer.ok) history.replaceState(null, "", answer.url);
  // The focus stays on the button that was pressed; if that is gone, it moves to the question.
  const stay = had && document.querySelector(had);
  if (stay && !stay.disabled && stay.checkVisibility()) stay.focus();
  else if (had || !answer.ok) document.getElementById("question").focus();
  say("live", ["main .note", "#sentence", "#claim:not(.note)"].map(words).filter(Boolean).join(" – "));
  window.scrollTo(0, 0);
}

// The text of an element without the small numbers next to names.
function words(place) {
  const copy = document.querySelector(place)?.cloneNode(true);
  copy?.querySelectorAll("sup").forEach((number) => number.remove());
  return copy?.textContent.replace(/\s+/g, " ").trim();
}

function selector(button) {
  const value = button.name ? `[name="${button.name}"]${button.value ? `[value="${button.value}"]` : ""}` : "";
  return `form[action="${button.form.getAttribute("action")}"] button${value}`;
}
