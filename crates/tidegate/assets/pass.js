// How a visitor gets a pass: a proof of work in the background, a picture to read, or a place in line.

import { call, field, insist, now, sleep, span } from "./page.js";

// Solves a challenge in a worker; what goes into `answer`, or nothing if there can be no worker.
function work(challenge) {
  return new Promise((done) => {
    const worker = new Worker(new URL("./work.js", import.meta.url), { type: "module" });
    const end = (answer) => {
      worker.terminate();
      done(answer);
    };
    worker.onmessage = ({ data }) => end(btoa(JSON.stringify(data)));
    worker.onerror = () => end(undefined);
    worker.postMessage(challenge);
  });
}

export class Door {
  // `base` is /v1/sales/… or /v1/draws/…
  constructor(base, { challenge, pass, room }) {
    this.base = base;
    this.challenge = challenge;
    this.needsPass = pass === "true";
    this.room = room === "true";
    this.store = `pass:${base}`;
  }

  // The pass at hand, if it is still good.
  get pass() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.store));
      return kept && Date.parse(kept.expires_at) > now() + 2000 ? kept.pass : undefined;
    } catch {
      return undefined;
    }
  }

  keep(issued) {
    sessionStorage.setItem(this.store, JSON.stringify(issued));
  }

  drop() {
    sessionStorage.removeItem(this.store);
  }

  // Shows a picture in this form, and another one before it ends.
  async picture(form) {
    const box = form?.querySelector("[data-picture]");
    if (!box || this.challenge !== "image") return;
    clearTimeout(this.next);
    const offered = await insist("GET", `${this.base}/challenge`);
    if (offered.status !== 200) return;
    form.elements.challenge_id.value = offered.json.id;
    form.elements.answer.value = "";
    form.elements.answer.required = true;
    box.querySelector("img").src = offered.json.image;
    box.hidden = false;
    this.next = setTimeout(() => this.picture(form), Date.parse(offered.json.expires_at) - now() - 20_000);
  }

  // What the challenge is answered with: empty where none is asked for, `{ code }` where there is no answer.
  async answer(form, waiting) {
    if (this.challenge === "none") return {};
    if (this.challenge === "image") {
      const { challenge_id: id, answer } = form?.elements ?? {};
      return id?.value ? { challenge_id: id.value, answer: answer.value } : { code: "challenge_required" };
    }
    const offered = await insist("GET", `${this.base}/challenge`, undefined, undefined, waiting);
    if (offered.status !== 200) return { code: offered.code };
    const answer = await work(offered.json.challenge);
    return answer ? { challenge_id: offered.json.id, answer } : { code: "challenge_failed" };
  }

  // Gets a pass where one is needed, once at a time. Gives the refusal's code if there is none to be had.
  ready(form, waiting) {
    this.pending ??= this.get(form, waiting).finally(() => (this.pending = undefined));
    return this.pending;
  }

  async get(form, waiting) {
    if (!this.needsPass || this.pass) return undefined;
    if (this.room) return "queue_required";
    const answer = await this.answer(form, waiting);
    if (answer.code) return answer.code;
    const ask = waiting ? insist : call;
    const issued = await ask("POST", `${this.base}/passes`, answer, undefined, waiting);
    if (issued.status !== 201) return issued.code;
    this.keep(issued.json);
    return undefined;
  }

  // Joins the line; gives the refusal's code if that is not possible.
  async join(form, waiting) {
    const answer = await this.answer(form, waiting);
    if (answer.code) return answer.code;
    const joined = await insist("POST", `${this.base}/queue`, answer, undefined, waiting);
    return joined.status === 200 ? undefined : joined.code;
  }

  // Stands in line while `stays()`; asking keeps the place. Gives the place once it is this visitor's turn.
  async stand(stays) {
    while (stays()) {
      const place = await call("GET", `${this.base}/queue`);
      if (place.status === 200 && place.json.state === "admitted") {
        this.keep({ pass: place.json.pass, expires_at: place.json.pass_expires_at });
        return place.json;
      }
      if (place.status === 200) describe(place.json);
      if ([401, 403, 404].includes(place.status) || place.code === "ended") return undefined;
      // Who is far away need not ask as often.
      const eta = place.status === 200 && place.json.position !== null ? place.json.eta_s : 0;
      await sleep(Math.min(Math.max(eta * 100, 1500), 10_000) * (0.8 + Math.random() * 0.4));
    }
    return undefined;
  }
}

function describe(place) {
  field("position", place.position ?? "–");
  field("chance", Math.round(place.chance * 100));
  field("eta", span(place.eta_s * 1000));
  for (const element of document.querySelectorAll("[data-field=before_start]")) element.hidden = place.position !== null;
  for (const element of document.querySelectorAll("[data-field=hopeless]")) element.hidden = place.state !== "hopeless";
}
