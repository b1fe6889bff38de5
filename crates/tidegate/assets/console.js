// What the console's pages share. Everything works without it; with it, live parts follow the server.

import { localTimes } from "./page.js";

// A live part changes only where something has: what is open stays open, and whoever is in a field stays there.
const shown = new Map();
function take(text) {
  const fresh = document.createElement("template");
  fresh.innerHTML = text;
  for (const part of fresh.content.querySelectorAll("[data-live][id]")) {
    const known = shown.get(part.id);
    const now = part.innerHTML;
    if (known === now) continue;
    const here = document.getElementById(part.id);
    // Somebody is filling in a form in there, and it is still offered.
    const busy = here?.querySelector("details[open] form") && known === undefined;
    shown.set(part.id, now);
    if (!here || busy) continue;
    localTimes(part);
    here.replaceChildren(...part.childNodes);
  }
}

function follow(board, word) {
  const say = (lost) => {
    const text = lost ? word.dataset.lostWord : word.dataset.liveWord;
    if (word.textContent === text) return;
    word.hidden = false;
    word.dataset.tone = lost ? "warn" : "good";
    word.textContent = text;
  };
  const stream = new EventSource(board.dataset.liveUrl);
  stream.addEventListener("live", (event) => {
    take(event.data);
    say(false);
  });
  stream.addEventListener("error", () => {
    say(true);
    // The browser comes back by itself unless it was refused.
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 5000, board, word);
  });
}

const board = document.querySelector("[data-live-url]");
if (board) follow(board, document.getElementById("stream"));

// Beside a time in UTC, what a clock shows here.
const dates = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
function translate(field) {
  const time = new Date(`${field.value}Z`);
  const beside = document.getElementById(field.dataset.utc);
  if (beside) beside.textContent = Number.isNaN(time.getTime()) ? "" : beside.dataset.words.replace("{}", dates.format(time));
}
for (const field of document.querySelectorAll("[data-utc]")) translate(field);
document.addEventListener("input", (event) => {
  if (event.target.dataset?.utc) translate(event.target);
});
