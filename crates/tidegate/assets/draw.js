// The draw page: plays a seat and lets the wheel, or a card, reveal what the server has decided.

import { Wish, call, current, field, insist, keepSession, now, say, show, sleep, waiting } from "./page.js";
import { Door } from "./pass.js";

const draw = document.getElementById("draw");
const base = `/v1/draws/${draw.dataset.id}`;
const door = new Door(base, draw.dataset);
const wish = new Wish(base);
const disc = document.querySelector(".disc");
const cards = [...document.querySelectorAll("[data-card]")];
const form = document.querySelector("[data-play]");
const signedIn = draw.dataset.signedIn === "true";
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
let acting = false, turned = 0, picked;

async function reveal(prize) {
  if (disc) {
    const slices = [...disc.querySelectorAll("path")];
    const fitting = slices.filter((slice) => slice.dataset.prize === (prize?.id ?? "0"));
    if (!fitting.length) return;
    const at = slices.indexOf(fitting[Math.floor(Math.random() * fitting.length)]);
    const angle = 360 - ((at + 0.5) * 360) / slices.length;
    turned += 360 * 5 + ((angle - turned) % 360 + 360) % 360;
    disc.style.transform = `rotate(${turned}deg)`;
    await sleep(still ? 0 : 4200);
  } else {
    const card = picked ?? cards[Math.floor(Math.random() * cards.length)];
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
    if (answer.status !== 200) return { state: "rejected", reason: answer.code };
    play = answer.json;
  }
  return play;
}

// A place in the draw's line, where it has one; gives the refusal's code if there is no turn to be had.
async function line() {
  if (!door.room || door.pass) return undefined;
  const code = await door.join(form, waiting);
  if (code) return code;
  show("queued");
  const place = await door.stand(() => ["queued", "offline"].includes(current()));
  return place ? undefined : "place_expired";
}

async function play() {
  if (acting) return;
  acting = true;
  say();
  const seed = form.elements.client_seed.value.trim();
  show("submitting");
  const code = (await line()) ?? (await door.ready(form, waiting));
  if (code) return settle(code);
  show("submitting");
  const body = { ...(seed && { client_seed: seed }), ...(door.pass && { pass: door.pass }) };
  const answer = await insist("POST", `${base}/plays`, body, wish.key, waiting);
  wish.answered(answer);
  door.drop();
  if (answer.status >= 300) return settle(answer.code);
  show("submitting");
  const result = await told(answer.json);
  if (result.state === "rejected") return settle(result.reason);
  await reveal(result.prize);
  for (const link of document.querySelectorAll("[data-field=play_link]")) link.href = `/plays/${result.id}`;
  field("prize", result.prize?.name ?? "");
  const content = document.querySelector("[data-field=content]");
  content.hidden = !result.delivery?.content;
  content.textContent = result.delivery?.content ?? "";
  show(result.won ? "won" : "lost");
  acting = false;
}

async function settle(code) {
  if (code === "unauthenticated") return (location.href = `/sign-in?next=${location.pathname}`);
  if (["limit_reached", "idempotency_key_reused"].includes(code)) return (location.href = `${location.pathname}?said=${code}`);
  acting = false;
  await follow(true);
  say(code);
  door.picture(form);
}

// What the draw is now; whoever plays, or looks at what they won, is left alone.
async function follow(settled = false) {
  const answer = settled ? await insist("GET", base, undefined, undefined, waiting) : await call("GET", base);
  if (answer.status !== 200) return;
  const { state, seats_left: left, plays_left: mine } = answer.json;
  field("seats_left", left);
  if (current() === "queued" && ["sold_out", "ended"].includes(state)) show(state);
  if (!settled && (acting || ["won", "lost"].includes(current()))) return;
  field("plays_left", mine);
  const open = signedIn ? (mine > 0 ? "ready" : "limit") : "sign_in";
  const ahead = now() < Number(draw.dataset.starts) ? "upcoming" : open;
  show({ upcoming: ahead, live: open, paused: "paused", sold_out: "sold_out", ended: "ended" }[state]);
}

document.addEventListener("submit", (event) => {
  if (event.target !== form) return;
  event.preventDefault();
  play();
});
document.addEventListener("click", ({ target }) => {
  if (target.matches("[data-again]")) location.reload();
  if (target.matches("[data-card]") && current() === "ready") {
    picked = target;
    form.requestSubmit();
  }
});
document.addEventListener("zero", ({ target }) => target.dataset.zero === "start" && current() === "upcoming" && show(signedIn ? "ready" : "sign_in"));
addEventListener("offline", () => acting || show("offline"));
addEventListener("online", () => acting || (current() === "offline" && follow(true)));
if (signedIn) {
  door.picture(form);
  keepSession(() => acting || show("sign_in"));
}
(async () => {
  while (current() !== "ended") {
    await sleep((current() === "paused" ? 3_000 : 10_000) * (1 + Math.random() / 2));
    if (document.visibilityState === "visible") await follow();
  }
})();
