// Recomputes an ended draw from its published proof, as specified in docs/fairness.md.

import { setField } from "./page.js";
import { concat, hex, hmac, sha256, unhex, utf8 } from "./sha256.js";

const ODDS_TOTAL = 1_000_000_000;

// A uniformly distributed number below `bound`.
function uniform(seed, label, bound) {
  const limit = 2n ** 64n - (2n ** 64n % BigInt(bound));
  for (let turn = 0; ; turn++) {
    const digest = hmac(seed, utf8(`${label}\n${turn}`));
    const word = new DataView(digest.buffer).getBigUint64(0);
    if (word < limit) return Number(word % BigInt(bound));
  }
}

// The terms covered by the commitment, as text.
function terms(proof) {
  const lines = ["tidegate draw 1", `draw ${proof.draw_id}`, `strategy ${proof.strategy}`, `seats ${proof.seats}`];
  for (const { id, kind, odds, stock, name } of proof.prizes) {
    lines.push(`prize ${id} ${kind} ${odds ?? 0} ${stock} ${name}`);
  }
  return lines.map((line) => `${line}\n`).join("");
}

// The prize of each seat in a shuffled deck.
function shuffleDeck(seed, proof) {
  const seats = Array.from({ length: proof.seats }, (_, i) => i + 1);
  const prizes = new Map();
  const cards = proof.prizes.flatMap((prize) => Array(prize.stock).fill(prize.id));
  cards.forEach((card, place) => {
    const pick = place + uniform(seed, `card\n${place}`, seats.length - place);
    [seats[place], seats[pick]] = [seats[pick], seats[place]];
    prizes.set(seats[place], card);
  });
  return prizes;
}

// The prize of a play, or null.
function outcome(seed, proof, play, left, deck) {
  if (proof.strategy === "deck") return deck.get(play.seat) ?? null;
  const available = proof.prizes.filter((prize) => proof.strategy !== "whole" || left.get(prize.id) > 0);
  const odds = (prizes) => prizes.reduce((sum, prize) => sum + prize.odds, 0);
  const bound = ODDS_TOTAL - (odds(proof.prizes) - odds(available));
  if (bound === 0) return null;
  let drawn = uniform(seed, `play\n${play.seat}\n${play.client_seed}`, bound);
  for (const prize of available) {
    if (drawn < prize.odds) return left.get(prize.id) > 0 ? prize.id : null;
    drawn -= prize.odds;
  }
  return null;
}

// Verifies a proof. Resolves to the first error, or to null.
export async function check(proof, progress = () => {}) {
  const names = [proof.draw_id, ...proof.prizes.map((prize) => prize.name)];
  if (names.some((name) => /[\u0000-\u001f]/.test(name))) return "a name has control characters";
  const seed = unhex(proof.seed);
  if (hex(sha256(concat(seed, utf8(terms(proof))))) !== proof.commitment) {
    return "the commitment does not match the seed and the terms";
  }
  const left = new Map(proof.prizes.map((prize) => [prize.id, prize.stock]));
  const deck = proof.strategy === "deck" ? shuffleDeck(seed, proof) : new Map();
  const seats = new Set();
  let history = new Uint8Array(32);
  for (const [index, play] of proof.plays.entries()) {
    const place = index + 1;
    if (play.number !== place) return `play ${play.number} is at position ${place}`;
    if (seats.has(play.seat) || play.seat < 1 || play.seat > proof.seats) {
      return `play ${place}: seat ${play.seat} is taken or does not exist`;
    }
    seats.add(play.seat);
    const expected = outcome(seed, proof, play, left, deck);
    if (expected !== play.prize) return `play ${place}: published prize ${play.prize}, expected ${expected}`;
    if (expected !== null) left.set(expected, left.get(expected) - 1);
    history = sha256(concat(history, utf8(`${place} ${play.seat} ${expected ?? 0} ${play.client_seed}\n`)));
    if (hex(history) !== play.hash) return `play ${place}: wrong hash`;
    if (place % 500 === 0) {
      progress(place);
      await new Promise((done) => setTimeout(done));
    }
  }
  if (proof.plays.length !== proof.plays_count || hex(history) !== proof.plays_hash) {
    return "plays_count or plays_hash does not match the plays";
  }
  return null;
}

// Shows one of the results and fills in its fields.
function showResult(name, fields = {}) {
  for (const box of document.querySelectorAll("[data-result]")) box.hidden = box.dataset.result !== name;
  for (const [key, value] of Object.entries(fields)) setField(key, value);
  if (name === "working") return;
  const text = document.querySelector(`[data-result="${name}"]`).innerText;
  document.getElementById("announcer").textContent = text;
}

async function verify(id) {
  showResult("working", { done: "" });
  const response = await fetch(`/v1/draws/${encodeURIComponent(id)}/proof`);
  if (response.status === 404) return showResult("missing");
  if (!response.ok) throw new Error(`status ${response.status}`);
  const proof = await response.json();
  const published = { commitment: proof.commitment, hash: proof.plays_hash };
  if (!proof.seed) return showResult("open", published);
  if (proof.draw_id !== id) return showResult("wrong", { wrong: "the proof belongs to another draw" });
  const wrong = await check(proof, (done) => showResult("working", { done: `${done} / ${proof.plays_count}` }));
  return wrong ? showResult("wrong", { wrong }) : showResult("holds", { holds: proof.plays_count, ...published });
}

const id = new URLSearchParams(location.search).get("draw")?.trim();
// An incomplete response is no proof.
if (id) verify(id).catch(() => showResult("unknown"));
