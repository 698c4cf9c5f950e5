// Asks for the page again every second or so, and puts what is new in the place of what was. Without this file the page
// reloads itself.
"use strict";

const SILENT = "fedrel watch does not respond; is it still running?";
const OFTEN = 1000; // milliseconds
const SELDOM = 5000; // in the background, or where nothing moves but what is watched may begin again
const pause = document.getElementById("pause");
let tag = "";
let paused = false;
let waiting = 0;
let said = document.getElementById("moving")?.dataset.said ?? "";

const say = (id, text) => {
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
};
const isMoving = () => document.getElementById("moving")?.dataset.moving === "yes";

async function look() {
  clearTimeout(waiting);
  if (paused || !document.getElementById("moving")) return;
  try {
    const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.status === 401) return location.reload(); // the session is over: sign in again
    if (answer.status !== 304) {
      tag = answer.headers.get("ETag") ?? "";
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
    say("alarm", "");
  } catch {
    say("alarm", SILENT);
  }
  if (isMoving()) waiting = setTimeout(look, document.hidden ? SELDOM : OFTEN);
  pause.hidden = !isMoving();
}

// Each part of <main> has an id. What has not changed stays, with its focus, its selection and how far it is scrolled.
function show(page) {
  const main = document.getElementById("main");
  const next = page.getElementById("main");
  if (!next) return;
  let at = main.firstElementChild;
  for (const part of [...next.children]) {
    const old = part.id && main.querySelector(`:scope > [id="${CSS.escape(part.id)}"]`);
    if (old && old.outerHTML === part.outerHTML) {
      if (old === at) at = at.nextElementSibling;
      else main.insertBefore(old, at);
    } else if (old) {
      if (old === at) at = at.nextElementSibling;
      replace(old, document.adoptNode(part));
    } else {
      main.insertBefore(document.adoptNode(part), at);
    }
  }
  while (at) {
    const over = at;
    at = at.nextElementSibling;
    over.remove();
  }
  document.title = page.title;
  const now = document.getElementById("moving")?.dataset.said ?? "";
  if (now !== said) say("live", (said = now));
}

function replace(old, part) {
  const scrolled = old.querySelector(".scroll");
  const place = scrolled && [scrolled.scrollTop, scrolled.scrollLeft];
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const key = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.matches(".scroll") ? ".scroll" : focused.matches("a[href]") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : null);
  old.replaceWith(part);
  const inner = part.querySelector(".scroll");
  if (inner && place) [inner.scrollTop, inner.scrollLeft] = place;
  if (key) part.querySelector(key)?.focus({ preventScroll: true });
}

pause?.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  if (!paused) look();
});
document.addEventListener("visibilitychange", () => document.hidden || look());
if (pause) look();
