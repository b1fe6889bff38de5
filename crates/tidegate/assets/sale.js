// The sale page: prepares ahead, opens at the second, orders once, and follows what the sale does.

import { call, current, field, insist, now, show, sleep } from "./page.js";
import { Door, refused } from "./pass.js";

const sale = document.getElementById("sale");
const base = `/v1/sales/${sale.dataset.id}`;
const door = new Door(base, sale.dataset);
const signedIn = sale.dataset.signedIn === "true";
const acting = ["submitting", "busy", "offline"];
let busy = false;

// One key for one wish, however often it is sent; forgotten once there is a clear answer.
const keyAt = `key:${base}`;
const wish = () => {
  const key = sessionStorage.getItem(keyAt) ?? crypto.randomUUID();
  sessionStorage.setItem(keyAt, key);
  return key;
};

const waiting = (answer, tries) => {
  field("tries", tries);
  show(answer.status === 0 && !navigator.onLine ? "offline" : "busy");
};

// Solves the challenge before it is needed, and a pass is waiting when the sale opens.
async function prepare() {
  if (!signedIn || door.room || !door.needsPass) return;
  if (door.challenge === "image") return;
  const starts = Number(sale.dataset.starts);
  while (starts - now() > 60_000) await sleep(5_000);
  const refusedWith = await door.ready();
  for (const words of document.querySelectorAll("[data-field=work], [data-field=prepared]")) {
    words.textContent = refusedWith ? words.dataset.doing ?? words.textContent : words.dataset.done;
  }
}

async function buy(form) {
  if (busy) return;
  busy = true;
  const quantity = Number(new FormData(form).get("quantity") ?? 1);
  show("submitting");
  const turn = form.elements.pass?.value;
  for (let passes = 0; ; passes++) {
    const code = turn ? undefined : await door.ready(form, waiting);
    if (code) return settle(code, form);
    const pass = turn || door.pass;
    const body = pass ? { quantity, pass } : { quantity };
    const answer = await insist("POST", `${base}/orders`, body, wish(), waiting);
    sessionStorage.removeItem(keyAt);
    door.drop();
    if (answer.status === 201 || answer.status === 202) {
      location.href = `/orders/${answer.json.id}`;
      return;
    }
    // A pass that ended meanwhile is replaced once, without bothering anybody.
    const again = answer.code === "pass_invalid" && !door.room && door.challenge !== "image" && passes === 0;
    if (!again) return settle(answer.code, form);
  }
}

async function settle(code, form) {
  busy = false;
  if (code === "sold_out") return follow(true);
  if (door.challenge === "image") {
    const answer = form.querySelector("[name=answer]");
    if (answer) answer.value = "";
    door.picture(form);
  }
  refused(code);
}

async function stand() {
  show("queued");
  const place = await door.stand(() => current() === "queued");
  if (!place) return follow(true);
  for (const form of document.querySelectorAll("[data-view=turn] form")) form.elements.pass.value = place.pass;
  for (const clock of document.querySelectorAll("[data-field=turn_clock]")) {
    delete clock.dataset.over;
    clock.dataset.until = Date.parse(place.pass_expires_at);
  }
  show("turn");
}

// What the sale is now. Views in which the visitor is doing something are left alone.
async function follow(settled = false) {
  const answer = await call("GET", base);
  if (answer.status === 0 && !navigator.onLine) {
    if (current() !== "submitting") show("offline");
    return;
  }
  if (answer.status !== 200) return;
  const { state, stock_left: left, unpaid = 0 } = answer.json;
  field("left", left);
  field("left_words", left);
  field("unpaid", unpaid);
  const view = current();
  const over = state === "ended" || (state === "sold_out" && unpaid === 0);
  if (!settled && (busy || ["turn", "limit", "submitting", "busy"].includes(view))) return;
  // A place in line is kept while there is anything to wait for.
  if (!settled && view === "queued" && !over) return;
  const soldOut = view === "for_now" || view === "sold_out";
  if (state === "live" && soldOut) for (const note of document.querySelectorAll("[data-field=returned]")) note.hidden = false;
  const open = signedIn ? "ready" : "sign_in";
  show({ upcoming: "upcoming", live: open, paused: "paused", sold_out: unpaid > 0 ? "for_now" : "sold_out", ended: "ended" }[state]);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-buy]")) {
    event.preventDefault();
    buy(form);
  } else if (form.matches("[data-join]")) {
    event.preventDefault();
    if (busy) return;
    busy = true;
    door.join(form, waiting).then((code) => {
      busy = false;
      return code ? settle(code, form) : stand();
    });
  }
});
document.addEventListener("zero", ({ target }) => {
  if (target.dataset.zero === "start" && current() === "upcoming") show(signedIn ? "ready" : "sign_in");
  if (target.dataset.field === "turn_clock" && current() === "turn") follow(true);
});
addEventListener("offline", () => acting.includes(current()) || busy || show("offline"));
addEventListener("online", () => busy || (sale.dataset.view === "offline" && follow(true)));

if (door.challenge === "image" && signedIn) {
  for (const form of document.querySelectorAll("[data-buy], [data-join]")) if (form.querySelector("[data-picture]")) door.picture(form);
}
prepare();
if (sale.dataset.view === "queued") stand();
// How often to look: before the start the clock is enough, and after the end there is nothing to see.
const pause = () => (current() === "upcoming" ? 20_000 : 3_000) * (1 + Math.random() / 2);
(async () => {
  for (;;) {
    await sleep(pause());
    if (document.visibilityState === "visible" && current() !== "ended") await follow();
  }
})();
