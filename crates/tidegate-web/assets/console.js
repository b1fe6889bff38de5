// Shared by the pages of the console: live updates of dashboards, and local times beside UTC fields.

import { showLocalTimes } from "./page.js";

// Replaces only the parts that changed, so that open details and focused fields stay as they are.
const rendered = new Map();
function applyUpdate(text) {
  const update = document.createElement("template");
  update.innerHTML = text;
  for (const part of update.content.querySelectorAll("[data-live][id]")) {
    const previous = rendered.get(part.id);
    const html = part.innerHTML;
    if (previous === html) continue;
    const element = document.getElementById(part.id);
    // Do not replace a form that the operator has opened.
    const inUse = element?.querySelector("details[open] form") && previous === undefined;
    rendered.set(part.id, html);
    if (!element || inUse) continue;
    showLocalTimes(part);
    element.replaceChildren(...part.childNodes);
  }
}

// Follows the stream of a dashboard; `badge` shows whether it is connected.
function follow(dashboard, badge) {
  const showConnected = (connected) => {
    const text = connected ? badge.dataset.liveLabel : badge.dataset.lostLabel;
    if (badge.textContent === text) return;
    badge.hidden = false;
    badge.dataset.tone = connected ? "good" : "warn";
    badge.textContent = text;
  };
  const stream = new EventSource(dashboard.dataset.liveUrl);
  stream.addEventListener("live", (event) => {
    applyUpdate(event.data);
    showConnected(true);
  });
  stream.addEventListener("error", () => {
    showConnected(false);
    // The browser reconnects by itself unless the server refused the stream.
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 5000, dashboard, badge);
  });
}

const dashboard = document.querySelector("[data-live-url]");
if (dashboard) follow(dashboard, document.getElementById("stream"));

// Shows the local time beside a UTC field.
const format = { dateStyle: "medium", timeStyle: "short" };
const dates = new Intl.DateTimeFormat(document.documentElement.lang, format);
function showLocalTime(field) {
  const time = new Date(`${field.value}Z`);
  const hint = document.getElementById(field.dataset.utc);
  if (!hint) return;
  const isValid = !Number.isNaN(time.getTime());
  hint.textContent = isValid ? hint.dataset.template.replace("{}", dates.format(time)) : "";
}
for (const field of document.querySelectorAll("[data-utc]")) showLocalTime(field);
document.addEventListener("input", (event) => {
  if (event.target.dataset?.utc) showLocalTime(event.target);
});
