// The order page: what becomes of the order arrives as an event; while there is no stream it is asked for.

import { call, current, show, sleep, unclear } from "./page.js";

const order = document.getElementById("order");
const path = `/v1/orders/${order.dataset.id}`;
const ended = ["paid", "cancelled", "expired", "refunded", "rejected"];
let known = order.dataset.view;

// The whole page is the server's: a new state is shown by loading it.
function changed(state) {
  if (!state || state === known) return;
  known = state;
  location.reload();
}

async function pay() {
  if (current() === "paying") return;
  show("paying");
  for (let tries = 0; tries < 30; tries++) {
    const answer = await call("POST", `${path}/pay`, { method: "sandbox" });
    if (!unclear(answer)) break;
    await sleep(answer.wait * 1000);
  }
  // Paid, too late, or signed out: the server's page says which.
  location.reload();
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-pay]")) return;
  event.preventDefault();
  pay();
});
addEventListener("offline", () => current() === "paying" || show("offline"));
addEventListener("online", () => current() === "offline" && show(known));

if (!ended.includes(known)) {
  const events = new EventSource(`${path}/stream`);
  events.addEventListener("order", ({ data }) => changed(JSON.parse(data).state));
  (async () => {
    for (;;) {
      await sleep(4_000 + Math.random() * 2_000);
      if (events.readyState === EventSource.OPEN) continue;
      const answer = await call("GET", path);
      if (answer.status === 200) changed(answer.json.state);
      if ([401, 404].includes(answer.status)) location.reload();
    }
  })();
}
