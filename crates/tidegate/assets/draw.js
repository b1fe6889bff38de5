// The draw page: plays a seat and lets the wheel, or a card, reveal what the server has decided.

import { current, field, insist, show, sleep } from "./page.js";
import { Door, refused } from "./pass.js";

const draw = document.getElementById("draw");
const base = `/v1/draws/${draw.dataset.id}`;
const door = new Door(base, draw.dataset);
const disc = document.querySelector(".disc");
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
const keyAt = `key:${base}`;
let busy = false, turned = 0;

const wish = () => {
  const key = sessionStorage.getItem(keyAt) ?? crypto.randomUUID();
  sessionStorage.setItem(keyAt, key);
  return key;
};
const waiting = (answer, tries) => {
  field("tries", tries);
  show(answer.status === 0 && !navigator.onLine ? "offline" : "busy");
};

async function reveal(prize) {
  if (disc) {
    const slices = [...disc.querySelectorAll("path")];
    const fitting = slices.filter((slice) => slice.dataset.prize === (prize?.id ?? "0"));
    const at = slices.indexOf(fitting[Math.floor(Math.random() * fitting.length)]);
    const angle = 360 - ((at + 0.5) * 360) / slices.length;
    turned += 360 * 5 + ((angle - turned) % 360 + 360) % 360;
    disc.style.transform = `rotate(${turned}deg)`;
    await sleep(still ? 0 : 4200);
  } else {
    const cards = [...document.querySelectorAll("[data-card]")];
    for (const card of cards) delete card.dataset.open;
    const card = cards[Math.floor(Math.random() * cards.length)];
    card.dataset.open = "";
    card.textContent = prize?.name ?? "–";
    await sleep(still ? 0 : 700);
  }
}

// A play that waits is asked for until it is told.
async function told(play) {
  while (play.state === "queued") {
    await sleep(700);
    const answer = await insist("GET", `/v1/plays/${play.id}`, undefined, undefined, waiting);
    if (answer.status === 200) play = answer.json;
  }
  return play;
}

async function play(form) {
  if (busy) return;
  busy = true;
  const seed = form.elements.client_seed.value.trim();
  show("submitting");
  if (door.room && !door.pass) {
    const code = await door.join(form, waiting);
    if (code) return settle(code, form);
    show("queued");
    if (!(await door.stand(() => true))) return settle("busy", form);
    show("submitting");
  }
  const code = await door.ready(form, waiting);
  if (code) return settle(code, form);
  const body = { ...(seed && { client_seed: seed }), ...(door.pass && { pass: door.pass }) };
  const answer = await insist("POST", `${base}/plays`, body, wish(), waiting);
  sessionStorage.removeItem(keyAt);
  door.drop();
  if (answer.status >= 300) return settle(answer.code, form);
  show("submitting");
  const result = await told(answer.json);
  if (result.state === "rejected") return settle(result.reason, form);
  await reveal(result.prize);
  for (const link of document.querySelectorAll("[data-field=play_link]")) link.href = `/plays/${result.id}`;
  field("prize", result.prize?.name ?? "");
  const content = document.querySelector("[data-field=content]");
  content.hidden = !result.delivery?.content;
  content.textContent = result.delivery?.content ?? "";
  show(result.won ? "won" : "lost");
  busy = false;
}

function settle(code, form) {
  busy = false;
  if (door.challenge === "image") door.picture(form);
  refused(code);
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-play]")) return;
  event.preventDefault();
  play(event.target);
});
for (const again of document.querySelectorAll("[data-again]")) again.addEventListener("click", () => location.reload());
document.addEventListener("zero", ({ target }) => target.dataset.zero === "start" && current() === "upcoming" && location.reload());
addEventListener("online", () => current() === "offline" && !busy && location.reload());
addEventListener("offline", () => busy || show("offline"));
if (door.challenge === "image" && draw.dataset.signedIn === "true") {
  for (const form of document.querySelectorAll("[data-play]")) door.picture(form);
}
