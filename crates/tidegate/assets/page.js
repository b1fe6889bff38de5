// What all pages share: times in the visitor's own zone, clocks that follow the server's time, views, and calls that end.

const html = document.documentElement;

// Clients' clocks are wrong: countdowns follow the server's, from the moment its answer began to arrive.
const serverTime = Number(html.dataset.now);
const arrived = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart || performance.now());
const ahead = serverTime ? serverTime - arrived : 0;
export const now = () => Date.now() + ahead;

const dates = new Intl.DateTimeFormat(html.lang, { dateStyle: "medium", timeStyle: "short" });
export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) time.textContent = dates.format(new Date(time.dateTime));
}

// 3:07, 1:02:03, 2 d 01:02:03
export function span(milliseconds) {
  let s = Math.max(0, Math.ceil(milliseconds / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;
  s %= 60;
  if (days) return `${days} ${html.lang === "en" ? "d" : "天"} ${two(hours)}:${two(minutes)}:${two(s)}`;
  return hours ? `${hours}:${two(minutes)}:${two(s)}` : `${minutes}:${two(s)}`;
}

// Every element with data-until counts down; at zero it says so once, as an event of its own.
function tick() {
  for (const clock of document.querySelectorAll("[data-until]")) {
    const left = Number(clock.dataset.until) - now();
    const text = span(left);
    if (clock.textContent !== text) clock.textContent = text;
    if (left <= 0 && !clock.dataset.over) {
      clock.dataset.over = "yes";
      clock.dispatchEvent(new CustomEvent("zero", { bubbles: true }));
    }
  }
}

// Shows one of the views in #views. Whoever cannot see it hears its heading, or finds the focus there.
export function show(name) {
  const views = document.getElementById("views");
  const host = views.closest("main [data-view]") ?? document.querySelector("main [data-view]");
  const focused = views.contains(document.activeElement);
  for (const view of views.querySelectorAll(":scope > [data-view]")) view.hidden = view.dataset.view !== name;
  if (host.dataset.view === name) return;
  host.dataset.view = name;
  const heading = views.querySelector(`:scope > [data-view="${name}"] h2`);
  const said = document.getElementById("said");
  if (focused && heading) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  } else if (said && heading) {
    said.textContent = heading.textContent;
  }
  document.dispatchEvent(new CustomEvent("shown", { detail: name }));
}
export const current = () => document.querySelector("main [data-view]").dataset.view;

// Says in a sentence why something was refused; the sentences come with the page. No code: says nothing any more.
export function say(code) {
  const note = document.getElementById("note");
  const words = document.querySelector(`template[data-said="${code}"]`) ?? (code && document.querySelector("template[data-said=busy]"));
  note.hidden = !words;
  note.textContent = words?.content.textContent ?? "";
}

export function field(name, value) {
  for (const element of document.querySelectorAll(`[data-field="${name}"]`)) {
    if (element.dataset.words) element.textContent = element.dataset.words.replace("{}", value);
    else if (element.tagName === "PROGRESS") element.value = value;
    else element.textContent = value;
  }
}

export const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A call of the API. Never throws and always ends: no answer is status 0.
export async function call(method, path, body, key) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  try {
    const signal = AbortSignal.timeout(15_000);
    const response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
    const json = await response.json().catch(() => ({}));
    const wait = Math.min(Number(response.headers.get("retry-after")) || 1, 10);
    return { status: response.status, json, code: json.code, wait };
  } catch {
    return { status: 0, json: {}, code: "offline", wait: 1 };
  }
}

export const unclear = ({ status, code }) => status === 0 || status === 429 || status >= 500 || code === "idempotency_in_flight";

// Asks until there is a clear answer: the same request with the same key, with growing pauses that differ from others'.
export async function insist(method, path, body, key, waiting = () => {}) {
  for (let tries = 1; ; tries++) {
    const answer = await call(method, path, body, key);
    if (!unclear(answer)) return answer;
    waiting(answer, tries);
    await sleep((answer.wait * 1000 + Math.min(tries, 6) * 300) * (0.7 + Math.random() * 0.6));
  }
}

// What is shown while that takes long.
export function waiting(answer, tries) {
  field("tries", tries);
  show(answer.status === 0 && !navigator.onLine ? "offline" : "busy");
}

// One key for one wish, however often it is sent. It is forgotten once the wish has been granted: refusals are not
// remembered under a key, so that the same one may be sent again.
export class Wish {
  constructor(base) {
    this.store = `key:${base}`;
  }
  get key() {
    const key = sessionStorage.getItem(this.store) ?? crypto.randomUUID();
    sessionStorage.setItem(this.store, key);
    return key;
  }
  answered({ status, code }) {
    if (status < 300 || code === "idempotency_key_reused") sessionStorage.removeItem(this.store);
  }
}

// A session lasts an hour from its last use, and waiting uses nothing: it is kept, and if it ends that is said in time.
export async function keepSession(ended) {
  for (;;) {
    await sleep(600_000 * (0.8 + Math.random() * 0.4));
    if ((await call("GET", "/v1/me")).status === 401) return ended();
  }
}

// A page from the browser's own memory shows what was.
addEventListener("pageshow", (event) => event.persisted && location.reload());
// What a form was answered is said once, not again with every reload.
if (new URLSearchParams(location.search).has("said")) history.replaceState(null, "", location.pathname);
const reload = document.querySelector("[data-reload]");
if (reload) setTimeout(() => location.reload(), Number(reload.dataset.reload));

localTimes(document);
setInterval(tick, 250);
tick();
