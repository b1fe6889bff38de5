// The sale page: gets a pass in advance, opens on time, orders once, and follows the state of the sale.

import {
  IdempotencyKey, call, callUntilAnswered, currentView, keepSessionAlive, serverNow, setField, showMessage,
  showRetrying, showView, sleep,
} from "./page.js";
import { PassClient } from "./pass.js";

const sale = document.getElementById("sale");
const base = `/v1/sales/${sale.dataset.id}`;
const passes = new PassClient(base, sale.dataset);
const idempotency = new IdempotencyKey(base);
const starts = Number(sale.dataset.starts);
const signedIn = sale.dataset.signedIn === "true";
const toSignIn = () => (location.href = `/sign-in?next=${location.pathname}`);
// An order or join request is in progress: nothing else may change the view.
let acting = false;
// The view before the connection was lost.
let viewBeforeOffline;

// Gets a pass before the sale opens, at a random time to spread the load.
async function prepare() {
  if (!signedIn || passes.room || !passes.needsPass || passes.challenge === "image") return;
  const lead = 15_000 + Math.random() * 285_000;
  while (serverNow() < starts - lead && currentView() === "upcoming") await sleep(1_000);
  const code = await passes.ready();
  if (code === "unauthenticated") return toSignIn();
  for (const status of document.querySelectorAll("[data-field=work], [data-field=prepared]")) {
    if (!code) status.textContent = status.dataset.done;
  }
}

async function buy(form) {
  if (acting) return;
  acting = true;
  showMessage();
  showView("submitting");
  const quantity = Number(form.elements.quantity.value);
  const admittedPass = form.elements.pass?.value;
  for (let attempt = 0; ; attempt++) {
    const code = admittedPass ? undefined : await passes.ready(form, showRetrying);
    if (code) return showRefusal(code, form);
    const pass = admittedPass || passes.pass;
    const body = pass ? { quantity, pass } : { quantity };
    const answer = await callUntilAnswered("POST", `${base}/orders`, body, idempotency.key, showRetrying);
    idempotency.settle(answer);
    if (answer.status === 201 || answer.status === 202) {
      passes.drop();
      location.href = `/orders/${answer.json.id}`;
      return;
    }
    // An expired pass is replaced once. If the server's clock is slightly behind, the order is sent again.
    const expired = ["pass_invalid", "pass_required"].includes(answer.code);
    if (expired) passes.drop();
    const early = answer.code === "not_started" && serverNow() >= starts && attempt < 20;
    if (early) await sleep(300 + Math.random() * 300);
    const again = early || (expired && attempt === 0 && !passes.room && passes.challenge !== "image");
    if (!again) return showRefusal(answer.code, form);
  }
}

// Shows a refusal.
async function showRefusal(code, form) {
  if (code === "unauthenticated") return toSignIn();
  // The server renders the buyer's existing orders.
  if (["limit_reached", "idempotency_key_reused"].includes(code)) {
    location.href = `${location.pathname}?said=${code}`;
    return;
  }
  await refresh(true);
  acting = false;
  showMessage(code);
  if (!form.closest("[hidden]")) passes.picture(form);
}

async function join(form) {
  if (acting) return;
  acting = true;
  showMessage();
  showView("submitting");
  const code = await passes.join(form, showRetrying);
  acting = false;
  return code ? showRefusal(code, form) : waitForTurn();
}

// Waits in the waiting room and then shows the order form with the pass.
async function waitForTurn() {
  showView("queued");
  const place = await passes.wait(() => ["queued", "offline"].includes(currentView()));
  if (!["queued", "offline"].includes(currentView())) return;
  if (!place) return refresh(true);
  for (const form of document.querySelectorAll("[data-view=turn] form")) form.elements.pass.value = place.pass;
  for (const clock of document.querySelectorAll("[data-field=turn_clock]")) {
    delete clock.dataset.over;
    clock.dataset.until = Date.parse(place.pass_expires_at);
  }
  showView("turn");
}

// Shows the current state of the sale. Does not interrupt a visitor who is ordering, unless `force` is set.
async function refresh(force = false) {
  const retrying = () => callUntilAnswered("GET", base, undefined, undefined, showRetrying);
  const answer = await (force ? retrying() : call("GET", base));
  if (answer.status === 0 && !navigator.onLine) return showOffline();
  if (answer.status !== 200) return;
  const { state, stock_left: left, unpaid = 0 } = answer.json;
  setField("left", left);
  setField("left_words", left);
  setField("unpaid", unpaid);
  for (const input of document.querySelectorAll("input[name=quantity][type=number]")) {
    input.max = Math.max(1, Math.min(input.max, left));
  }
  const view = currentView();
  const over = state === "ended" || (state === "sold_out" && unpaid === 0);
  if (!force && (acting || ["turn", "limit"].includes(view))) return;
  // A place in the waiting room is kept until the sale is over.
  if (!force && view === "queued" && !over) return;
  const returned = state === "live" && ["for_now", "sold_out"].includes(view);
  if (returned) {
    for (const note of document.querySelectorAll("[data-field=returned]")) note.hidden = false;
  }
  const open = signedIn ? "ready" : "sign_in";
  const ahead = serverNow() < starts ? "upcoming" : open;
  const soldOut = unpaid > 0 ? "for_now" : "sold_out";
  showView({ upcoming: ahead, live: open, paused: "paused", sold_out: soldOut, ended: "ended" }[state]);
}

function showOffline() {
  if (acting || currentView() === "offline") return;
  viewBeforeOffline = currentView();
  showView("offline");
}

function resumeOnline() {
  if (acting || currentView() !== "offline") return;
  if (viewBeforeOffline === "queued") waitForTurn();
  else if (["turn", "limit"].includes(viewBeforeOffline)) showView(viewBeforeOffline);
  else refresh(true);
}

function openOnTime() {
  if (currentView() === "upcoming" && serverNow() >= starts) showView(signedIn ? "ready" : "sign_in");
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const act = form.matches("[data-buy]") ? buy : form.matches("[data-join]") ? join : undefined;
  if (!act) return;
  event.preventDefault();
  act(form);
});
document.addEventListener("click", ({ target }) => target.matches("[data-another]") && passes.picture(target.form));
document.addEventListener("zero", ({ target }) => {
  if (target.dataset.zero === "start") openOnTime();
  if (target.dataset.field === "turn_clock" && currentView() === "turn") refresh(true);
});
// Loads a picture challenge only for the form that is visible.
function loadPicture() {
  const form = document.querySelector(`[data-view="${currentView()}"].view form:has([data-picture])`);
  if (signedIn) passes.picture(form);
}
document.addEventListener("view", ({ detail }) => ["ready", "upcoming"].includes(detail) && loadPicture());
addEventListener("offline", showOffline);
addEventListener("online", resumeOnline);

openOnTime();
loadPicture();
prepare();
if (currentView() === "queued") waitForTurn();
if (signedIn) keepSessionAlive(() => acting || showView("sign_in"));

// Polling interval: short while units may come back, long before the start because the countdown opens the sale.
const interval = () => ({ for_now: 3_000, paused: 3_000, upcoming: 20_000 })[currentView()] ?? 6_000;
(async () => {
  while (currentView() !== "ended") {
    await sleep(interval() * (1 + Math.random() / 2));
    if (document.visibilityState === "visible") await refresh();
  }
})();
