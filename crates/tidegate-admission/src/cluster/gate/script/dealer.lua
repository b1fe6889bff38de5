-- Deals a draw's prizes: the outcome function of docs/fairness.md, in Lua.

-- Returns the dealer, or nil if the pool is not a draw. Built at most once per call, and only if the batch has a play.
local function read_dealer()
  local strategy = redis.call("HGET", POOL, "strategy")
  if not strategy then
    return nil
  end

  -- SHA-256, because the server offers SHA-1 only.
  local band, bor, bxor, bnot = bit.band, bit.bor, bit.bxor, bit.bnot
  local rshift, lshift, ror, tobit = bit.rshift, bit.lshift, bit.ror, bit.tobit

  local K = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
  }
  local IV = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
  }

  -- The hash state after one more block of 64 bytes.
  local function compress(state, block)
    local w = {}
    for i = 1, 16 do
      local a, b, c, d = block:byte(4 * i - 3, 4 * i)
      w[i] = bor(lshift(a, 24), lshift(b, 16), lshift(c, 8), d)
    end
    for i = 17, 64 do
      local x, y = w[i - 15], w[i - 2]
      local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
      local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
      w[i] = tobit(w[i - 16] + s0 + w[i - 7] + s1)
    end
    local a, b, c, d, e, f, g, h = unpack(state)
    for i = 1, 64 do
      local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
      local t1 = h + s1 + bxor(band(e, f), band(bnot(e), g)) + K[i] + w[i]
      local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
      local t2 = s0 + bxor(band(a, b), band(a, c), band(b, c))
      h, g, f, e, d, c, b, a = g, f, e, tobit(d + t1), c, b, a, tobit(t1 + t2)
    end
    local s = state
    return {
      tobit(s[1] + a), tobit(s[2] + b), tobit(s[3] + c), tobit(s[4] + d), tobit(s[5] + e), tobit(s[6] + f),
      tobit(s[7] + g), tobit(s[8] + h),
    }
  end

  -- The digest of a message that follows one block already absorbed into `state`.
  local function finish(state, message)
    local bits = (64 + #message) * 8
    local padded = message .. "\128" .. string.rep("\0", (55 - #message) % 64) .. string.rep("\0", 4)
    padded = padded
      .. string.char(rshift(bits, 24), band(rshift(bits, 16), 255), band(rshift(bits, 8), 255), band(bits, 255))
    for at = 1, #padded, 64 do
      state = compress(state, padded:sub(at, at + 63))
    end
    return state
  end

  -- The key block of HMAC: the key padded to 64 bytes, each XORed with `mask`.
  local function masked(key, mask)
    local bytes = {}
    for i = 1, 64 do
      bytes[i] = string.char(bxor(key:byte(i) or 0, mask))
    end
    return table.concat(bytes)
  end

  -- A hash state as its 32 bytes.
  local function to_bytes(state)
    local bytes = {}
    for i = 1, 8 do
      local word = state[i]
      bytes[i] = string.char(band(rshift(word, 24), 255), band(rshift(word, 16), 255), band(rshift(word, 8), 255),
        band(word, 255))
    end
    return table.concat(bytes)
  end

  local seed, prizes = unpack(redis.call("HMGET", POOL, "seed", "prizes"))
  local dealer = { strategy = strategy, odds = {}, left = {} }
  for i = 1, tonumber(prizes) do
    dealer.odds[i] = tonumber(redis.call("HGET", POOL, "odds:" .. i))
    dealer.left[i] = tonumber(redis.call("HGET", POOL, "left:" .. i))
  end
  dealer.inner = compress(IV, masked(seed, 0x36))
  dealer.outer = compress(IV, masked(seed, 0x5c))

  -- A uniformly distributed number below `bound`, by rejection sampling over HMAC-SHA-256.
  local function number(label, bound)
    local two64 = 1
    for _ = 1, 4 do
      two64 = two64 * 65536 % bound
    end
    local attempt = 0
    while true do
      local mac = finish(dealer.outer, to_bytes(finish(dealer.inner, label .. "\n" .. attempt)))
      local high, low = mac[1] % 4294967296, mac[2] % 4294967296
      -- Reject values from the greatest multiple of `bound` on: the last 2^64 mod `bound` values.
      if not (high == 4294967295 and 4294967295 - low < two64) then
        local rest = 0
        for _, chunk in ipairs({ math.floor(high / 65536), high % 65536, math.floor(low / 65536), low % 65536 }) do
          rest = (rest * 65536 + chunk) % bound
        end
        return rest
      end
      attempt = attempt + 1
    end
  end

  -- The prize of a seat, 0 for none; the prize is taken from the stock.
  function dealer.deal(seat, client_seed)
    local won = 0
    if dealer.strategy == "deck" then
      won = redis.call("GETRANGE", DECK, seat - 1, seat - 1):byte() or 0
    else
      local whole, bound = dealer.strategy == "whole", ODDS_TOTAL
      for i, odds in ipairs(dealer.odds) do
        if whole and dealer.left[i] == 0 then
          bound = bound - odds
        end
      end
      if bound > 0 then
        local drawn = number("play\n" .. seat .. "\n" .. client_seed, bound)
        for i, odds in ipairs(dealer.odds) do
          if not (whole and dealer.left[i] == 0) then
            if drawn < odds then
              won = dealer.left[i] > 0 and i or 0
              break
            end
            drawn = drawn - odds
          end
        end
      end
    end
    if won > 0 then
      dealer.left[won] = dealer.left[won] - 1
      redis.call("HINCRBY", POOL, "left:" .. won, -1)
    end
    return won
  end

  return dealer
end
