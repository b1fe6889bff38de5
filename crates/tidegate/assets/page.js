// What all pages share: times in the visitor's own zone, clocks that follow the server's time, and views.

const html = document.documentElement;
const marked = document.querySelector("[data-now]");
// Clients' clocks are wrong: countdowns follow the server's.
const ahead = marked ? Number(marked.dataset.now) - Date.now() : 0;
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

// Shows one of the views in #views and says it to those who listen instead of looking.
export function show(name) {
  const views = document.getElementById("views");
  const host = views.closest("[data-view]") ?? document.querySelector("main [data-view]");
  for (const view of views.querySelectorAll(":scope > [data-view]")) view.hidden = view.dataset.view !== name;
  if (host.dataset.view === name) return;
  host.dataset.view = name;
  const heading = views.querySelector(`:scope > [data-view="${name}"] h2`);
  const said = document.getElementById("said");
  if (said && heading) said.textContent = heading.textContent;
}
export const current = () => document.querySelector("main [data-view]").dataset.view;

export function field(name, value) {
  for (const element of document.querySelectorAll(`[data-field="${name}"]`)) {
    if (element.dataset.words) element.textContent = element.dataset.words.replace("{}", value);
    else if ("value" in element && element.tagName === "PROGRESS") element.value = value;
    else element.textContent = value;
  }
}

export const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A call of the API. Never throws: no answer is status 0.
export async function call(method, path, body, key) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  try {
    const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const json = await response.json().catch(() => ({}));
    return { status: response.status, json, code: json.code, wait: Number(response.headers.get("retry-after") ?? 1) };
  } catch {
    return { status: 0, json: {}, code: "offline", wait: 1 };
  }
}

// Asks until there is a clear answer: the same request with the same key, with growing pauses that differ from others'.
export async function insist(method, path, body, key, waiting) {
  for (let tries = 1; ; tries++) {
    const answer = await call(method, path, body, key);
    const unclear = answer.status === 0 || answer.status === 429 || answer.status >= 500 || answer.code === "idempotency_in_flight";
    if (!unclear) return answer;
    waiting(answer, tries);
    await sleep((Math.min(answer.wait, 10) * 1000 + Math.min(tries, 6) * 300) * (0.7 + Math.random() * 0.6));
  }
}

localTimes(document);
tick();
setInterval(tick, 250);
