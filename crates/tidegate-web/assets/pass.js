// Obtains a pass: by a proof of work in the background, a picture challenge, or the waiting room.

import { call, callUntilAnswered, formatCountdown, serverNow, setField, sleep } from "./page.js";

// Solves a proof of work in a worker. Resolves to `undefined` if workers are not available.
function solve(challenge) {
  return new Promise((done) => {
    const worker = new Worker(new URL("./proof_of_work.js", import.meta.url), { type: "module" });
    const end = (answer) => {
      worker.terminate();
      done(answer);
    };
    worker.onmessage = ({ data }) => end(btoa(JSON.stringify(data)));
    worker.onerror = () => end(undefined);
    worker.postMessage(challenge);
  });
}

export class PassClient {
  // `base` is /v1/sales/… or /v1/draws/…
  constructor(base, { challenge, pass, room }) {
    this.base = base;
    this.challenge = challenge;
    this.needsPass = pass === "true";
    this.room = room === "true";
    this.storageKey = `pass:${base}`;
  }

  // The stored pass, if it is still valid.
  get pass() {
    try {
      const stored = JSON.parse(sessionStorage.getItem(this.storageKey));
      return stored && Date.parse(stored.expires_at) > serverNow() + 2000 ? stored.pass : undefined;
    } catch {
      return undefined;
    }
  }

  store(issued) {
    sessionStorage.setItem(this.storageKey, JSON.stringify(issued));
  }

  drop() {
    sessionStorage.removeItem(this.storageKey);
  }

  // Shows a picture challenge in the form, and replaces it before it expires.
  async picture(form) {
    const box = form?.querySelector("[data-picture]");
    if (!box || this.challenge !== "image") return;
    clearTimeout(this.next);
    const offered = await callUntilAnswered("GET", `${this.base}/challenge`);
    if (offered.status !== 200) return;
    form.elements.challenge_id.value = offered.json.id;
    form.elements.answer.value = "";
    form.elements.answer.required = true;
    box.querySelector("img").src = offered.json.image;
    box.hidden = false;
    const lifetime = Date.parse(offered.json.expires_at) - serverNow();
    this.next = setTimeout(() => this.picture(form), lifetime - 20_000);
  }

  // The answer to the challenge: empty if there is none, `{ code }` if it could not be solved.
  async answer(form, onRetry) {
    if (this.challenge === "none") return {};
    if (this.challenge === "image") {
      const { challenge_id: id, answer } = form?.elements ?? {};
      return id?.value ? { challenge_id: id.value, answer: answer.value } : { code: "challenge_required" };
    }
    const offered = await callUntilAnswered("GET", `${this.base}/challenge`, undefined, undefined, onRetry);
    if (offered.status !== 200) return { code: offered.code };
    const answer = await solve(offered.json.challenge);
    return answer ? { challenge_id: offered.json.id, answer } : { code: "challenge_failed" };
  }

  // Gets a pass if the sale requires one; concurrent calls share one request. Resolves to a problem code on failure.
  ready(form, onRetry) {
    this.pending ??= this.get(form, onRetry).finally(() => (this.pending = undefined));
    return this.pending;
  }

  async get(form, onRetry) {
    if (!this.needsPass || this.pass) return undefined;
    if (this.room) return "queue_required";
    const answer = await this.answer(form, onRetry);
    if (answer.code) return answer.code;
    const send = onRetry ? callUntilAnswered : call;
    const issued = await send("POST", `${this.base}/passes`, answer, undefined, onRetry);
    if (issued.status !== 201) return issued.code;
    this.store(issued.json);
    return undefined;
  }

  // Joins the waiting room. Resolves to a problem code on failure.
  async join(form, onRetry) {
    const answer = await this.answer(form, onRetry);
    if (answer.code) return answer.code;
    const joined = await callUntilAnswered("POST", `${this.base}/queue`, answer, undefined, onRetry);
    return joined.status === 200 ? undefined : joined.code;
  }

  // Waits in the waiting room while `isWaiting()`; polling keeps the place. Resolves to the place when it is admitted.
  async wait(isWaiting) {
    while (isWaiting()) {
      const place = await call("GET", `${this.base}/queue`);
      if (place.status === 200 && place.json.state === "admitted") {
        this.store({ pass: place.json.pass, expires_at: place.json.pass_expires_at });
        return place.json;
      }
      if (place.status === 200) showPlace(place.json);
      if ([401, 403, 404].includes(place.status) || place.code === "ended") return undefined;
      // Visitors with a long wait poll less often.
      const eta = place.status === 200 && place.json.position !== null ? place.json.eta_s : 0;
      await sleep(Math.min(Math.max(eta * 100, 1500), 10_000) * (0.8 + Math.random() * 0.4));
    }
    return undefined;
  }
}

function showPlace(place) {
  setField("position", place.position ?? "–");
  setField("chance", Math.round(place.chance * 100));
  setField("eta", formatCountdown(place.eta_s * 1000));
  const hide = (name, hidden) => {
    for (const element of document.querySelectorAll(`[data-field=${name}]`)) element.hidden = hidden;
  };
  hide("before_start", place.position !== null);
  hide("hopeless", place.state !== "hopeless");
}
