// The sale page: prepares ahead, opens at the second, orders once, and follows what the sale does.

import { Wish, call, current, field, insist, keepSession, now, say, show, sleep, waiting } from "./page.js";
import { Door } from "./pass.js";

const sale = document.getElementById("sale");
const base = `/v1/sales/${sale.dataset.id}`;
const door = new Door(base, sale.dataset);
const wish = new Wish(base);
const starts = Number(sale.dataset.starts);
const signedIn = sale.dataset.signedIn === "true";
const toSignIn = () => (location.href = `/sign-in?next=${location.pathname}`);
// Whether something the visitor asked for is under way: then nothing else changes the view.
let acting = false;
// What was shown when the network went.
let before;

// Solves the challenge before it is needed, so that a pass waits when the sale opens; everybody at another moment.
async function prepare() {
  if (!signedIn || door.room || !door.needsPass || door.challenge === "image") return;
  const lead = 15_000 + Math.random() * 285_000;
  while (now() < starts - lead && current() === "upcoming") await sleep(1_000);
  const code = await door.ready();
  if (code === "unauthenticated") return toSignIn();
  for (const words of document.querySelectorAll("[data-field=work], [data-field=prepared]")) {
    if (!code) words.textContent = words.dataset.done;
  }
}

async function buy(form) {
  if (acting) return;
  acting = true;
  say();
  show("submitting");
  const quantity = Number(form.elements.quantity.value);
  const turn = form.elements.pass?.value;
  for (let tries = 0; ; tries++) {
    const code = turn ? undefined : await door.ready(form, waiting);
    if (code) return settle(code, form);
    const pass = turn || door.pass;
    const answer = await insist("POST", `${base}/orders`, pass ? { quantity, pass } : { quantity }, wish.key, waiting);
    wish.answered(answer);
    if (answer.status === 201 || answer.status === 202) {
      door.drop();
      location.href = `/orders/${answer.json.id}`;
      return;
    }
    // A pass that ended meanwhile is replaced once, and a server whose clock is a moment behind is waited for.
    const spent = ["pass_invalid", "pass_required"].includes(answer.code);
    if (spent) door.drop();
    const early = answer.code === "not_started" && now() >= starts && tries < 20;
    if (early) await sleep(300 + Math.random() * 300);
    const again = early || (spent && tries === 0 && !door.room && door.challenge !== "image");
    if (!again) return settle(answer.code, form);
  }
}

// What a refusal looks like.
async function settle(code, form) {
  if (code === "unauthenticated") return toSignIn();
  // The server knows what this buyer has, and what of it was asked for before.
  if (["limit_reached", "idempotency_key_reused"].includes(code)) {
    location.href = `${location.pathname}?said=${code}`;
    return;
  }
  await follow(true);
  acting = false;
  say(code);
  if (!form.closest("[hidden]")) door.picture(form);
}

async function join(form) {
  if (acting) return;
  acting = true;
  say();
  show("submitting");
  const code = await door.join(form, waiting);
  acting = false;
  return code ? settle(code, form) : stand();
}

async function stand() {
  show("queued");
  const place = await door.stand(() => ["queued", "offline"].includes(current()));
  if (!["queued", "offline"].includes(current())) return;
  if (!place) return follow(true);
  for (const form of document.querySelectorAll("[data-view=turn] form")) form.elements.pass.value = place.pass;
  for (const clock of document.querySelectorAll("[data-field=turn_clock]")) {
    delete clock.dataset.over;
    clock.dataset.until = Date.parse(place.pass_expires_at);
  }
  show("turn");
}

// What the sale is now. While the visitor acts, or has something, they are left alone.
async function follow(settled = false) {
  const answer = settled ? await insist("GET", base, undefined, undefined, waiting) : await call("GET", base);
  if (answer.status === 0 && !navigator.onLine) return goneOffline();
  if (answer.status !== 200) return;
  const { state, stock_left: left, unpaid = 0 } = answer.json;
  field("left", left);
  field("left_words", left);
  field("unpaid", unpaid);
  for (const input of document.querySelectorAll("input[name=quantity][type=number]")) input.max = Math.max(1, Math.min(input.max, left));
  const view = current();
  const over = state === "ended" || (state === "sold_out" && unpaid === 0);
  if (!settled && (acting || ["turn", "limit"].includes(view))) return;
  // A place in line is kept while there is anything to wait for.
  if (!settled && view === "queued" && !over) return;
  const returned = state === "live" && ["for_now", "sold_out"].includes(view);
  if (returned) for (const note of document.querySelectorAll("[data-field=returned]")) note.hidden = false;
  const open = signedIn ? "ready" : "sign_in";
  const ahead = now() < starts ? "upcoming" : open;
  show({ upcoming: ahead, live: open, paused: "paused", sold_out: unpaid > 0 ? "for_now" : "sold_out", ended: "ended" }[state]);
}

function goneOffline() {
  if (acting || current() === "offline") return;
  before = current();
  show("offline");
}

function backOnline() {
  if (acting || current() !== "offline") return;
  if (before === "queued") stand();
  else if (["turn", "limit"].includes(before)) show(before);
  else follow(true);
}

const opened = () => current() === "upcoming" && now() >= starts && show(signedIn ? "ready" : "sign_in");

document.addEventListener("submit", (event) => {
  const form = event.target;
  const act = form.matches("[data-buy]") ? buy : form.matches("[data-join]") ? join : undefined;
  if (!act) return;
  event.preventDefault();
  act(form);
});
document.addEventListener("click", ({ target }) => target.matches("[data-another]") && door.picture(target.form));
document.addEventListener("zero", ({ target }) => {
  if (target.dataset.zero === "start") opened();
  if (target.dataset.field === "turn_clock" && current() === "turn") follow(true);
});
// A picture is fetched when its form is shown, not for forms that are not.
const pictured = () => signedIn && door.picture(document.querySelector(`[data-view="${current()}"].view form:has([data-picture])`));
document.addEventListener("shown", ({ detail }) => ["ready", "upcoming"].includes(detail) && pictured());
addEventListener("offline", goneOffline);
addEventListener("online", backOnline);

opened();
pictured();
prepare();
if (current() === "queued") stand();
if (signedIn) keepSession(() => acting || show("sign_in"));

// How often to look: often only where something may come back; before the start the clock is enough.
const pause = () => ({ for_now: 3_000, paused: 3_000, upcoming: 20_000 })[current()] ?? 6_000;
(async () => {
  while (current() !== "ended") {
    await sleep(pause() * (1 + Math.random() / 2));
    if (document.visibilityState === "visible") await follow();
  }
})();
