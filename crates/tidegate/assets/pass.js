// How a visitor gets a pass: a proof of work in the background, a picture to read, or a place in line.

import { call, field, insist, show, sleep, span } from "./page.js";

// Solves a challenge in a worker; what goes into `answer`.
function work(challenge) {
  return new Promise((done) => {
    const worker = new Worker(new URL("./work.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      worker.terminate();
      done(btoa(JSON.stringify(data)));
    };
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
      return kept && Date.parse(kept.expires_at) > Date.now() + 2000 ? kept.pass : undefined;
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

  // A picture for whoever reads; `form` shows it.
  async picture(form) {
    const box = form.querySelector("[data-picture]");
    if (!box) return;
    const offered = await insist("GET", `${this.base}/challenge`, undefined, undefined, () => {});
    if (offered.status !== 200) return;
    this.offered = offered.json;
    box.querySelector("img").src = offered.json.image;
    box.querySelector("input").required = true;
    box.hidden = false;
    box.querySelector("[data-another]")?.addEventListener("click", () => this.picture(form), { once: true });
  }

  // What the challenge is answered with; `undefined` where none is asked for.
  async answer(form) {
    if (this.challenge === "none") return {};
    if (this.challenge === "image") {
      return { challenge_id: this.offered?.id, answer: form?.querySelector("[name=answer]")?.value ?? "" };
    }
    const offered = await insist("GET", `${this.base}/challenge`, undefined, undefined, () => {});
    if (offered.status !== 200) return undefined;
    return { challenge_id: offered.json.id, answer: await work(offered.json.challenge) };
  }

  // Gets a pass where one is needed. Gives the refusal's code if there is none to be had.
  async ready(form, waiting = () => {}) {
    if (!this.needsPass || this.pass) return undefined;
    if (this.room) return "queue_required";
    const answer = await this.answer(form);
    if (!answer) return "challenge_failed";
    const issued = await insist("POST", `${this.base}/passes`, answer, undefined, waiting);
    if (issued.status === 201) {
      this.keep(issued.json);
      return undefined;
    }
    return issued.code;
  }

  // Joins the line; gives the refusal's code if that is not possible.
  async join(form, waiting) {
    const answer = await this.answer(form);
    if (!answer) return "challenge_failed";
    const joined = await insist("POST", `${this.base}/queue`, answer, undefined, waiting);
    return joined.status === 200 ? undefined : joined.code;
  }

  // Stands in line until it is this visitor's turn; asking keeps the place.
  async stand(shown) {
    for (;;) {
      const place = await call("GET", `${this.base}/queue`);
      if (place.status === 200 && place.json.state === "admitted") {
        this.keep({ pass: place.json.pass, expires_at: place.json.pass_expires_at });
        return place.json;
      }
      if (place.status === 200) describe(place.json);
      if (place.status === 404 || place.status === 401 || place.code === "ended") return undefined;
      if (!shown(place)) return undefined;
      await sleep(1500 + Math.random() * 1000);
    }
  }
}

function describe(place) {
  field("position", place.position ?? "–");
  field("chance", Math.round(place.chance * 100));
  field("eta", span(place.eta_s * 1000));
  for (const element of document.querySelectorAll("[data-field=before_start]")) element.hidden = place.position !== null;
  for (const element of document.querySelectorAll("[data-field=hopeless]")) element.hidden = place.state !== "hopeless";
}

// What a refusal looks like.
export function refused(code) {
  const views = { not_started: "upcoming", paused: "paused", ended: "ended", limit_reached: "limit", sold_out: "sold_out" };
  if (code === "unauthenticated") {
    location.href = `/sign-in?next=${location.pathname}`;
    return;
  }
  show(views[code] ?? "ready");
}
