// Deals a closed draw again, from its proof alone, as docs/fairness.md describes it.

import { field } from "./page.js";
import { concat, hex, hmac, sha256, unhex, utf8 } from "./sha256.js";

const ALL = 1_000_000_000;

// A number below `bound`, each as likely as the others.
function number(seed, label, bound) {
  const limit = 2n ** 64n - (2n ** 64n % BigInt(bound));
  for (let turn = 0; ; turn++) {
    const digest = hmac(seed, utf8(`${label}\n${turn}`));
    const word = new DataView(digest.buffer).getBigUint64(0);
    if (word < limit) return Number(word % BigInt(bound));
  }
}

// Everything the draw was bound to, as text.
function table(proof) {
  const lines = ["tidegate draw 1", `draw ${proof.draw_id}`, `strategy ${proof.strategy}`, `seats ${proof.seats}`];
  for (const prize of proof.prizes) lines.push(`prize ${prize.id} ${prize.kind} ${prize.odds ?? 0} ${prize.stock} ${prize.name}`);
  return lines.map((line) => `${line}\n`).join("");
}

// Which prize lies behind which seat.
function deck(seed, proof) {
  const row = Array.from({ length: proof.seats }, (_, i) => i + 1), behind = new Map();
  const cards = proof.prizes.flatMap((prize) => Array(prize.stock).fill(prize.id));
  cards.forEach((card, place) => {
    const pick = place + number(seed, `card\n${place}`, row.length - place);
    [row[place], row[pick]] = [row[pick], row[place]];
    behind.set(row[place], card);
  });
  return behind;
}

function outcome(seed, proof, play, left, behind) {
  if (proof.strategy === "deck") return behind.get(play.seat) ?? null;
  const playing = proof.prizes.filter((prize) => proof.strategy !== "whole" || left.get(prize.id) > 0);
  const odds = (prizes) => prizes.reduce((sum, prize) => sum + prize.odds, 0);
  const bound = ALL - (odds(proof.prizes) - odds(playing));
  if (bound === 0) return null;
  let drawn = number(seed, `play\n${play.seat}\n${play.client_seed}`, bound);
  for (const prize of playing) {
    if (drawn < prize.odds) return left.get(prize.id) > 0 ? prize.id : null;
    drawn -= prize.odds;
  }
  return null;
}

// What is wrong with a proof, in a sentence; nothing if it holds.
export async function check(proof, progress = () => {}) {
  const names = [proof.draw_id, ...proof.prizes.map((prize) => prize.name)];
  if (names.some((name) => /[\u0000-\u001f]/.test(name))) return "a name has control characters";
  const seed = unhex(proof.seed);
  if (hex(sha256(concat(seed, utf8(table(proof))))) !== proof.commitment) return "the commitment does not follow from seed and table";
  const left = new Map(proof.prizes.map((prize) => [prize.id, prize.stock]));
  const behind = proof.strategy === "deck" ? deck(seed, proof) : new Map();
  const seats = new Set();
  let history = new Uint8Array(32);
  for (const [index, play] of proof.plays.entries()) {
    const place = index + 1;
    if (play.number !== place) return `play ${play.number} stands in place ${place}`;
    if (seats.has(play.seat) || play.seat < 1 || play.seat > proof.seats) return `play ${place}: seat ${play.seat} is not free`;
    seats.add(play.seat);
    const due = outcome(seed, proof, play, left, behind);
    if (due !== play.prize) return `play ${place}: told ${play.prize}, due ${due}`;
    if (due !== null) left.set(due, left.get(due) - 1);
    history = sha256(concat(history, utf8(`${place} ${play.seat} ${due ?? 0} ${play.client_seed}\n`)));
    if (hex(history) !== play.hash) return `play ${place}: its hash does not follow`;
    if (place % 500 === 0) {
      progress(place);
      await new Promise((done) => setTimeout(done));
    }
  }
  if (proof.plays.length !== proof.plays_count || hex(history) !== proof.plays_hash) return "the plays do not end in plays_count and plays_hash";
  return null;
}

function result(name, fields = {}) {
  for (const box of document.querySelectorAll("[data-result]")) box.hidden = box.dataset.result !== name;
  for (const [key, value] of Object.entries(fields)) field(key, value);
  if (name !== "working") document.getElementById("said").textContent = document.querySelector(`[data-result="${name}"]`).innerText;
}

async function verify(id) {
  result("working", { done: "" });
  const response = await fetch(`/v1/draws/${encodeURIComponent(id)}/proof`);
  if (response.status === 404) return result("missing");
  if (!response.ok) throw new Error(`answered ${response.status}`);
  const proof = await response.json();
  const bound = { commitment: proof.commitment, hash: proof.plays_hash };
  if (!proof.seed) return result("open", bound);
  if (proof.draw_id !== id) return result("wrong", { wrong: "this is the proof of another draw" });
  const wrong = await check(proof, (done) => result("working", { done: `${done} / ${proof.plays_count}` }));
  return wrong ? result("wrong", { wrong }) : result("holds", { holds: proof.plays_count, ...bound });
}

const id = new URLSearchParams(location.search).get("draw")?.trim();
// A proof that breaks off is none.
if (id) verify(id).catch(() => result("unknown"));
