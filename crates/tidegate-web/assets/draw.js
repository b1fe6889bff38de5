// The draw page: plays, and lets the wheel or a card reveal the server's result.

import {
  IdempotencyKey, call, callUntilAnswered, currentView, keepSessionAlive, serverNow, setField, showMessage,
  showRetrying, showView, sleep,
} from "./page.js";
import { PassClient } from "./pass.js";

const draw = document.getElementById("draw");
const base = `/v1/draws/${draw.dataset.id}`;
const passes = new PassClient(base, draw.dataset);
const idempotency = new IdempotencyKey(base);
const disc = document.querySelector(".disc");
const cards = [...document.querySelectorAll("[data-card]")];
const form = document.querySelector("[data-play]");
const signedIn = draw.dataset.signedIn === "true";
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)").matches;
// A play is in progress: nothing else may change the view.
let acting = false;
let rotation = 0;
let pickedCard;

// Turns the wheel to a slice of the prize, or opens a card.
async function reveal(prize) {
  if (disc) {
    const slices = [...disc.querySelectorAll("path")];
    const matching = slices.filter((slice) => slice.dataset.prize === (prize?.id ?? "0"));
    if (!matching.length) return;
    const at = slices.indexOf(matching[Math.floor(Math.random() * matching.length)]);
    const angle = 360 - ((at + 0.5) * 360) / slices.length;
    rotation += 360 * 5 + ((angle - rotation) % 360 + 360) % 360;
    disc.style.transform = `rotate(${rotation}deg)`;
    await sleep(reducedMotion ? 0 : 4200);
  } else {
    const card = pickedCard ?? cards[Math.floor(Math.random() * cards.length)];
    card.dataset.open = "";
    card.textContent = prize?.name ?? "–";
    await sleep(reducedMotion ? 0 : 700);
  }
}

// Polls a queued play until it has a result.
async function awaitResult(play) {
  while (play.state === "queued") {
    await sleep(700);
    const answer = await callUntilAnswered("GET", `/v1/plays/${play.id}`, undefined, undefined, showRetrying);
    if (answer.status !== 200) return { state: "rejected", reason: answer.code };
    play = answer.json;
  }
  return play;
}

// Waits in the waiting room, if the draw has one. Resolves to a problem code on failure.
async function awaitTurn() {
  if (!passes.room || passes.pass) return undefined;
  const code = await passes.join(form, showRetrying);
  if (code) return code;
  showView("queued");
  const place = await passes.wait(() => ["queued", "offline"].includes(currentView()));
  return place ? undefined : "place_expired";
}

async function play() {
  if (acting) return;
  acting = true;
  showMessage();
  const seed = form.elements.client_seed.value.trim();
  showView("submitting");
  const code = (await awaitTurn()) ?? (await passes.ready(form, showRetrying));
  if (code) return showRefusal(code);
  showView("submitting");
  const body = { ...(seed && { client_seed: seed }), ...(passes.pass && { pass: passes.pass }) };
  const answer = await callUntilAnswered("POST", `${base}/plays`, body, idempotency.key, showRetrying);
  idempotency.settle(answer);
  passes.drop();
  if (answer.status >= 300) return showRefusal(answer.code);
  showView("submitting");
  const result = await awaitResult(answer.json);
  if (result.state === "rejected") return showRefusal(result.reason);
  await reveal(result.prize);
  for (const link of document.querySelectorAll("[data-field=play_link]")) link.href = `/plays/${result.id}`;
  setField("prize", result.prize?.name ?? "");
  const content = document.querySelector("[data-field=content]");
  content.hidden = !result.delivery?.content;
  content.textContent = result.delivery?.content ?? "";
  showView(result.won ? "won" : "lost");
  acting = false;
}

// Shows a refusal.
async function showRefusal(code) {
  if (code === "unauthenticated") return (location.href = `/sign-in?next=${location.pathname}`);
  if (["limit_reached", "idempotency_key_reused"].includes(code)) {
    return (location.href = `${location.pathname}?said=${code}`);
  }
  acting = false;
  await refresh(true);
  showMessage(code);
  passes.picture(form);
}

// Shows the current state of the draw. Does not interrupt a play or its result, unless `force` is set.
async function refresh(force = false) {
  const retrying = () => callUntilAnswered("GET", base, undefined, undefined, showRetrying);
  const answer = await (force ? retrying() : call("GET", base));
  if (answer.status !== 200) return;
  const { state, seats_left: left, plays_left: mine } = answer.json;
  setField("seats_left", left);
  if (currentView() === "queued" && ["sold_out", "ended"].includes(state)) showView(state);
  if (!force && (acting || ["won", "lost"].includes(currentView()))) return;
  setField("plays_left", mine);
  const open = signedIn ? (mine > 0 ? "ready" : "limit") : "sign_in";
  const ahead = serverNow() < Number(draw.dataset.starts) ? "upcoming" : open;
  showView({ upcoming: ahead, live: open, paused: "paused", sold_out: "sold_out", ended: "ended" }[state]);
}

document.addEventListener("submit", (event) => {
  if (event.target !== form) return;
  event.preventDefault();
  play();
});
document.addEventListener("click", ({ target }) => {
  if (target.matches("[data-again]")) location.reload();
  if (target.matches("[data-card]") && currentView() === "ready") {
    pickedCard = target;
    form.requestSubmit();
  }
});
document.addEventListener("zero", ({ target }) => {
  const opens = target.dataset.zero === "start" && currentView() === "upcoming";
  if (opens) showView(signedIn ? "ready" : "sign_in");
});
addEventListener("offline", () => acting || showView("offline"));
addEventListener("online", () => acting || (currentView() === "offline" && refresh(true)));
if (signedIn) {
  passes.picture(form);
  keepSessionAlive(() => acting || showView("sign_in"));
}
(async () => {
  while (currentView() !== "ended") {
    await sleep((currentView() === "paused" ? 3_000 : 10_000) * (1 + Math.random() / 2));
    if (document.visibilityState === "visible") await refresh();
  }
})();
