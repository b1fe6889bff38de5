// Worker that solves a proof of work (ALTCHA protocol, SHA-256) without blocking the page.

import { concat, hex, sha256, unhex } from "./sha256.js";

onmessage = ({ data: challenge }) => {
  const { nonce, salt, keyPrefix, cost, keyLength } = challenge.parameters;
  const start = concat(unhex(salt), unhex(nonce)), tried = concat(start, new Uint8Array(4));
  const counterAt = new DataView(tried.buffer);
  for (let counter = 0; counter < 2 ** 32; counter++) {
    counterAt.setUint32(start.length, counter);
    let key = sha256(tried);
    for (let i = 1; i < Math.max(1, cost); i++) key = sha256(key);
    const derivedKey = hex(key.subarray(0, keyLength));
    if (derivedKey.startsWith(keyPrefix.toLowerCase())) {
      postMessage({ challenge, solution: { counter, derivedKey } });
      return;
    }
  }
};
