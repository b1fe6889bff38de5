// Shared by all pages: local times, countdowns on the server's clock, views, API calls with retries.

const html = document.documentElement;

// Client clocks may be wrong, so countdowns use the server's time, measured when its response began to arrive.
const serverTime = Number(html.dataset.now);
const [navigation] = performance.getEntriesByType("navigation");
const arrived = performance.timeOrigin + (navigation?.responseStart || performance.now());
const clockOffset = serverTime ? serverTime - arrived : 0;
export const serverNow = () => Date.now() + clockOffset;

const dates = new Intl.DateTimeFormat(html.lang, { dateStyle: "medium", timeStyle: "short" });
export function showLocalTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.textContent = dates.format(new Date(time.dateTime));
  }
}

// Formats a duration: 3:07, 1:02:03, 2 d 01:02:03.
export function formatCountdown(milliseconds) {
  let s = Math.max(0, Math.ceil(milliseconds / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(s / 86400);
  const hours = Math.floor(s / 3600) % 24;
  const minutes = Math.floor(s / 60) % 60;
  s %= 60;
  if (days) return `${days} ${html.lang === "en" ? "d" : "天"} ${two(hours)}:${two(minutes)}:${two(s)}`;
  return hours ? `${hours}:${two(minutes)}:${two(s)}` : `${minutes}:${two(s)}`;
}

// Updates every element with data-until; at zero, it dispatches one "zero" event.
function tick() {
  for (const clock of document.querySelectorAll("[data-until]")) {
    const left = Number(clock.dataset.until) - serverNow();
    const text = formatCountdown(left);
    if (clock.textContent !== text) clock.textContent = text;
    if (left <= 0 && !clock.dataset.over) {
      clock.dataset.over = "yes";
      clock.dispatchEvent(new CustomEvent("zero", { bubbles: true }));
    }
  }
}

// Shows one of the views in #views. Screen readers get the heading announced, or focused if the focus was in #views.
export function showView(name) {
  const views = document.getElementById("views");
  const host = views.closest("main [data-view]") ?? document.querySelector("main [data-view]");
  const focused = views.contains(document.activeElement);
  for (const view of views.querySelectorAll(":scope > [data-view]")) view.hidden = view.dataset.view !== name;
  if (host.dataset.view === name) return;
  host.dataset.view = name;
  const heading = views.querySelector(`:scope > [data-view="${name}"] h2`);
  const announcer = document.getElementById("announcer");
  if (focused && heading) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  } else if (announcer && heading) {
    announcer.textContent = heading.textContent;
  }
  document.dispatchEvent(new CustomEvent("view", { detail: name }));
}
export const currentView = () => document.querySelector("main [data-view]").dataset.view;

// Shows the message for a problem code; the page contains all messages. Without a code, hides the message.
export function showMessage(code) {
  const note = document.getElementById("note");
  const find = (name) => document.querySelector(`template[data-message="${name}"]`);
  const message = find(code) ?? (code && find("busy"));
  note.hidden = !message;
  note.textContent = message?.content.textContent ?? "";
}

// Sets all elements with this data-field; data-template is a phrase with a placeholder.
export function setField(name, value) {
  for (const element of document.querySelectorAll(`[data-field="${name}"]`)) {
    if (element.dataset.template) element.textContent = element.dataset.template.replace("{}", value);
    else if (element.tagName === "PROGRESS") element.value = value;
    else element.textContent = value;
  }
}

export const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Calls the API. Never throws and always ends: no response is status 0.
export async function call(method, path, body, key) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  try {
    const signal = AbortSignal.timeout(15_000);
    const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
    const json = await response.json().catch(() => ({}));
    const wait = Math.min(Number(response.headers.get("retry-after")) || 1, 10);
    return { status: response.status, json, code: json.code, wait };
  } catch {
    return { status: 0, json: {}, code: "offline", wait: 1 };
  }
}

// Whether the outcome is still unknown, so that the request must be repeated with the same key.
export const isOutcomeUnknown = ({ status, code }) =>
  status === 0 || status === 429 || status >= 500 || code === "idempotency_in_flight";

// Repeats a request with the same idempotency key until the outcome is known, with growing, randomized pauses.
export async function callUntilAnswered(method, path, body, key, onRetry = () => {}) {
  for (let attempt = 1; ; attempt++) {
    const answer = await call(method, path, body, key);
    if (!isOutcomeUnknown(answer)) return answer;
    onRetry(answer, attempt);
    await sleep((answer.wait * 1000 + Math.min(attempt, 6) * 300) * (0.7 + Math.random() * 0.6));
  }
}

// Shows the "busy" or "offline" view while a request is being retried.
export function showRetrying(answer, attempts) {
  setField("attempts", attempts);
  showView(answer.status === 0 && !navigator.onLine ? "offline" : "busy");
}

// The idempotency key of an order or play. It stays the same, even after a refusal, until the request succeeds: the
// server does not store refusals under a key.
export class IdempotencyKey {
  constructor(base) {
    this.store = `key:${base}`;
  }
  get key() {
    const key = sessionStorage.getItem(this.store) ?? crypto.randomUUID();
    sessionStorage.setItem(this.store, key);
    return key;
  }
  // Forgets the key after a success.
  settle({ status, code }) {
    if (status < 300 || code === "idempotency_key_reused") sessionStorage.removeItem(this.store);
  }
}

// Sessions expire one hour after their last use. This keeps the session alive and calls `ended` if it expires anyway.
export async function keepSessionAlive(ended) {
  for (;;) {
    await sleep(600_000 * (0.8 + Math.random() * 0.4));
    if ((await call("GET", "/v1/me")).status === 401) return ended();
  }
}

// A page restored from the back/forward cache is out of date.
addEventListener("pageshow", (event) => event.persisted && location.reload());
// A message in the address is shown once, not again on reload.
if (new URLSearchParams(location.search).has("said")) history.replaceState(null, "", location.pathname);
const reload = document.querySelector("[data-reload]");
if (reload) setTimeout(() => location.reload(), Number(reload.dataset.reload));

showLocalTimes(document);
setInterval(tick, 250);
tick();
