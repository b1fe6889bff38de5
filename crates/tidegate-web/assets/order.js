// The order page: follows the order through server-sent events, and polls while the stream is down.

import { call, currentView, isOutcomeUnknown, showView, sleep } from "./page.js";

const order = document.getElementById("order");
const path = `/v1/orders/${order.dataset.id}`;
const ended = ["paid", "cancelled", "expired", "refunded", "rejected"];
let known = order.dataset.view;

// The server renders every state, so a new state reloads the page.
function reloadIfChanged(state) {
  if (!state || state === known) return;
  known = state;
  location.reload();
}

async function pay() {
  if (currentView() === "paying") return;
  showView("paying");
  for (let attempt = 0; attempt < 30; attempt++) {
    const answer = await call("POST", `${path}/pay`, { method: "sandbox" });
    if (!isOutcomeUnknown(answer)) break;
    await sleep(answer.wait * 1000);
  }
  // The reloaded page shows whether the order is paid, expired, or the buyer signed out.
  location.reload();
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-pay]")) return;
  event.preventDefault();
  pay();
});
addEventListener("offline", () => currentView() === "paying" || showView("offline"));
addEventListener("online", () => currentView() === "offline" && showView(known));

if (!ended.includes(known)) {
  const events = new EventSource(`${path}/stream`);
  events.addEventListener("order", ({ data }) => reloadIfChanged(JSON.parse(data).state));
  (async () => {
    for (;;) {
      await sleep(4_000 + Math.random() * 2_000);
      if (events.readyState === EventSource.OPEN) continue;
      const answer = await call("GET", path);
      if (answer.status === 200) reloadIfChanged(answer.json.state);
      if ([401, 404].includes(answer.status)) location.reload();
    }
  })();
}
