// The order page: what becomes of the order arrives as an event; where events cannot be had it is asked for.

import { call, current, show, sleep } from "./page.js";

const order = document.getElementById("order");
const path = `/v1/orders/${order.dataset.id}`;
const ended = ["paid", "cancelled", "expired", "refunded", "rejected"];
let known = order.dataset.view;

// The whole page is the server's: a new state is shown by loading it.
function changed(state) {
  if (state && state !== known) {
    known = state;
    location.reload();
  }
}

function listen() {
  const events = new EventSource(`${path}/stream`);
  let heard = Date.now();
  events.addEventListener("order", ({ data }) => {
    heard = Date.now();
    changed(JSON.parse(data).state);
    if (current() === "offline") show(known);
  });
  events.onerror = () => {
    if (!navigator.onLine) show("offline");
  };
  return () => Date.now() - heard;
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-pay]")) return;
  event.preventDefault();
  pay();
});

async function pay() {
  if (current() === "paying") return;
  show("paying");
  for (let tries = 0; tries < 30; tries++) {
    const answer = await call("POST", `${path}/pay`, { method: "sandbox" });
    if (answer.status === 200) return changed(answer.json.state);
    if (answer.status !== 0 && answer.status !== 429 && answer.status < 500) break;
    await sleep(answer.wait * 1000);
  }
  location.reload();
}

addEventListener("offline", () => show("offline"));
addEventListener("online", () => current() === "offline" && show(known));

if (!ended.includes(known)) {
  const silence = listen();
  (async () => {
    for (;;) {
      await sleep(4_000 + Math.random() * 2_000);
      if (silence() < 8_000 && known !== "queued") continue;
      const answer = await call("GET", path);
      if (answer.status === 200) changed(answer.json.state);
    }
  })();
}
