-- The gate's rules: the core's pool, as one script. Every operation is atomic; a rejection changes nothing.
--
-- A pool is split over shards, each a set of keys like these. Slot n belongs to shard (n - 1) mod shards until it is moved.
--
-- KEYS  1 pool      hash: epoch version door top next applied shards, units on their way (queued to the ledger, moving to
--                  another shard), passes (last spent returned), the second that rates are of, a draw's table; "building"
--                  instead of an epoch until it is all there
--       2 returned  sorted set: free slots below next
--       3 users     hash: by user, the units held, then " place key" of each claim that may not be recorded: its entry in the
--                  stream and its idempotency key, "-" for none. "place+key" where the attempt is counted in rates
--       4 passes    hash: the outstanding pass of each user, "number expires"
--       5 issued    sorted set: "number user" by number, the order of issue
--       6 intake    stream: claims on their way to the ledger
--       7 deck      string: a deck's prize behind every seat, one byte each
--       8 leaving   hash: slots on their way to another shard, "epoch target slots", by transfer
--       9 arrived   set: transfers that have arrived here
--      10 queued    hash: how many claims each entry of the stream has, by place; "claims" is all of them
--      11 rates     hash: how often each user has asked in this second without being granted anything
-- ARGV  1 operation, then its own. Users are strings: a Lua number has 53 bits.
--
-- What a claim costs here is mostly the bytes of the strings that are made for it: Lua hashes every one of them.

local POOL, RETURNED, USERS, PASSES, ISSUED, INTAKE, DECK, LEAVING, ARRIVED, QUEUED, RATES = unpack(KEYS)
local CLOSED_KEPT_S = 7 * 24 * 3600
local ODDS_TOTAL = 1000000000

-- What deals a draw's prizes, or nil; made once a call, and only where there is a play.
local function read_dealer()
  local strategy = redis.call("HGET", POOL, "strategy")
  if not strategy then
    return nil
  end

  -- SHA-256, for the outcomes. The server offers SHA-1 only.

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

  -- The state after one more block of 64 bytes.
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

  -- The digest of a message behind one block that `state` has taken in already.
  local function finish(state, message)
    local bits = (64 + #message) * 8
    local padded = message .. "\128" .. string.rep("\0", (55 - #message) % 64) .. string.rep("\0", 4)
    padded = padded .. string.char(rshift(bits, 24), band(rshift(bits, 16), 255), band(rshift(bits, 8), 255), band(bits, 255))
    for at = 1, #padded, 64 do
      state = compress(state, padded:sub(at, at + 63))
    end
    return state
  end

  local function masked(key, mask)
    local bytes = {}
    for i = 1, 64 do
      bytes[i] = string.char(bxor(key:byte(i) or 0, mask))
    end
    return table.concat(bytes)
  end

  local function text(state)
    local bytes = {}
    for i = 1, 8 do
      local word = state[i]
      bytes[i] = string.char(band(rshift(word, 24), 255), band(rshift(word, 16), 255), band(rshift(word, 8), 255), band(word, 255))
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

  -- A number below `bound`, each as likely as the others: docs/fairness.md.
  local function number(label, bound)
    local two64 = 1
    for _ = 1, 4 do
      two64 = two64 * 65536 % bound
    end
    local turn = 0
    while true do
      local mac = finish(dealer.outer, text(finish(dealer.inner, label .. "\n" .. turn)))
      local high, low = mac[1] % 4294967296, mac[2] % 4294967296
      -- Above the greatest multiple of the bound: counted from the end there are fewer than 2^64 mod bound of these.
      if not (high == 4294967295 and 4294967295 - low < two64) then
        local rest = 0
        for _, chunk in ipairs({ math.floor(high / 65536), high % 65536, math.floor(low / 65536), low % 65536 }) do
          rest = (rest * 65536 + chunk) % bound
        end
        return rest
      end
      turn = turn + 1
    end
  end

  -- What the seat wins, 0 for nothing; it is taken.
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

-- The pool.

local function pool()
  local values =
    redis.call("HMGET", POOL, "epoch", "version", "door", "top", "next", "applied", "shards", "queued", "moving",
      "rated")
  if not values[1] then
    return nil
  end
  local read = { epoch = tonumber(values[1]), version = tonumber(values[2]), door = values[3] }
  read.top, read.next, read.applied = tonumber(values[4]), tonumber(values[5]), tonumber(values[6])
  read.shards, read.queued, read.moving = tonumber(values[7]), tonumber(values[8]), tonumber(values[9])
  read.rated = values[10]
  read.returned = redis.call("ZCARD", RETURNED)
  return read
end

-- Slots of this shard that were never taken.
local function fresh(p)
  return p.next > p.top and 0 or math.floor((p.top - p.next) / p.shards) + 1
end

local function free(p)
  return fresh(p) + p.returned
end

local function write(p)
  redis.call("HSET", POOL, "version", p.version, "door", p.door, "top", p.top, "next", p.next, "applied", p.applied,
    "queued", p.queued, "moving", p.moving)
end

local function take_lowest(p)
  if p.returned > 0 then
    p.returned = p.returned - 1
    return tonumber(redis.call("ZPOPMIN", RETURNED)[1])
  end
  local slot = p.next
  p.next = slot + p.shards
  return slot
end

-- What is known of a buyer, a line of USERS: the units, and whatever follows them.
local function units_in(line)
  return tonumber(line:match("^%d+"))
end

-- Whether an entry is still in the stream. No command tells that of a stream without reading the entry.
local there = {}
local function is_there(place)
  if there[place] == nil then
    there[place] = redis.call("HEXISTS", QUEUED, place) == 1
  end
  return there[place]
end

-- This second, the server's; read once a call.
local second
local function this_second()
  second = second or tonumber(redis.call("TIME")[1])
  return second
end

-- Whether a place is of this second. One that is of a later one, because the clock was set back, counts as such.
local function is_of_now(place)
  return tonumber(place:match("^%d+")) >= this_second() * 1000
end

-- Whether a buyer's claim with this key is on its way to the ledger.
local function has_in_flight(line, key)
  if line:find(key, 1, true) then
    for place, known in line:gmatch(" (%d+%-%d+)[ +](%S+)") do
      if known == key and is_there(place) then
        return true
      end
    end
  end
  return false
end

-- How often a buyer was granted something in this second, but for what rates has counted.
local function granted_now(line)
  local count = 0
  for place in line:gmatch(" (%d+%-%d+) ") do
    count = count + (is_of_now(place) and 1 or 0)
  end
  return count
end

-- A buyer's claims without those that are recorded. Those of this second stay: they are counted.
local function still_needed(line)
  local kept = ""
  for claim, place in line:gmatch("( (%d+%-%d+)[ +]%S+)") do
    if is_there(place) or is_of_now(place) then
      kept = kept .. claim
    end
  end
  return kept
end

local function give_back(p, user, slots, prize)
  for _, slot in ipairs(slots) do
    -- After lost writes a slot may come back that this copy never gave: it is free here already.
    local never_taken = slot >= p.next and (slot - p.next) % p.shards == 0
    if not never_taken then
      p.returned = p.returned + redis.call("ZADD", RETURNED, slot, slot)
    end
  end
  local line = redis.call("HGET", USERS, user) or "0"
  redis.call("HSET", USERS, user, string.format("%d", math.max(0, units_in(line) - #slots)) .. still_needed(line))
  redis.call("HINCRBY", POOL, "returned", #slots)
  if prize > 0 and redis.call("HEXISTS", POOL, "left:" .. prize) == 1 then
    redis.call("HINCRBY", POOL, "left:" .. prize, 1)
  end
end

local function split(list)
  local numbers = {}
  for word in list:gmatch("%d+") do
    numbers[#numbers + 1] = tonumber(word)
  end
  return numbers
end

-- The user's outstanding pass.
local function pass_of(user)
  local number, expires = (redis.call("HGET", PASSES, user) or ""):match("^(%d+) (%-?%d+)$")
  return number, tonumber(expires)
end

-- What a claim asks for but for who asks: "quantity limit per_s looked pass now play client_seed". Most claims of a batch ask
-- for the same.
local function read_terms(list)
  local quantity, limit, per_s, looked, pass, now, play, client_seed =
    list:match("^(%d+) (%d+) (%d+) (%d) (%d*) (%-?%d+) (%d) (.*)$")
  return {
    quantity = tonumber(quantity), limit = tonumber(limit), per_s = tonumber(per_s), looked = looked == "1",
    pass = pass ~= "" and pass, now = tonumber(now), play = play == "1", client_seed = client_seed,
  }
end

-- A number as text; most are printed many times in a batch.
local printed = {}
local function print_number(number)
  local text = printed[number]
  if not text then
    text = string.format("%d", number)
    printed[number] = text
  end
  return text
end

-- A batch of claims by their users and keys, and what the server has about these. `terms` come from there in the arguments on,
-- each behind how many claims in a row ask under them. Everything about a buyer is at the place of their first claim in the
-- batch: `lines` what is known of them, `refused` how often in this second; then what the batch makes of it: `units` they hold,
-- `asked` how often in this second, `granted` with which keys.
local function read_batch(p, users, keys, terms)
  local batch = { users = users, keys = keys, runs = {}, refused = {}, units = {}, asked = {}, granted = {}, apart = {} }
  local rated = false
  for at = terms, #ARGV, 2 do
    local read = read_terms(ARGV[at + 1])
    read.count = tonumber(ARGV[at])
    batch.runs[#batch.runs + 1] = read
    rated = rated or read.per_s > 0
    if read.play and not batch.dealer then
      batch.dealer = read_dealer()
    end
  end
  local first = {}
  for i = 1, #users do
    local user = users[i]
    if first[user] then
      -- Only then is it needed.
      batch.first = first
    else
      first[user] = i
    end
  end
  batch.lines = redis.call("HMGET", USERS, unpack(users))
  -- Nobody was refused in a second that rates are not of.
  if rated and p.rated and tonumber(p.rated) == this_second() then
    batch.refused = redis.call("HMGET", RATES, unpack(users))
  end
  return batch
end

local function first_of(batch, i)
  return batch.first and batch.first[batch.users[i]] or i
end

-- Counts an attempt; gives whether it is one too many.
local function is_too_often(batch, who, per_s)
  local asked, line = batch.asked[who], batch.lines[who]
  if not asked then
    asked = tonumber(batch.refused[who] or 0) + (line and granted_now(line) or 0)
  end
  if batch.first then
    batch.asked[who] = asked + 1
  end
  return asked >= per_s
end

-- One claim; gives a rejection's code, or nil with "prize slots".
-- A key that is in flight waits for its first answer. Whoever has claimed here before may have used theirs: then "look" asks
-- the caller to look it up in the ledger and to come again.
local function claim(p, batch, i, terms)
  local who, key = first_of(batch, i), batch.keys[i]
  if terms.per_s > 0 and is_too_often(batch, who, terms.per_s) then
    return "slower"
  end
  if p.door == "paused" then
    return "paused"
  elseif p.door ~= "open" then
    return "ended"
  end
  local line, granted, left = batch.lines[who], batch.granted[who], free(p)
  if key ~= "-" and ((granted and granted:find(key, 1, true)) or (line and has_in_flight(line, key))) then
    return "in_flight"
  elseif left == 0 then
    return "sold_out"
  elseif (line or granted) and key ~= "-" and not terms.looked then
    return "look"
  end
  if terms.pass then
    local number, expires = pass_of(batch.users[i])
    if number ~= terms.pass or expires <= terms.now then
      return "pass_invalid"
    end
  end
  local units, quantity = batch.units[who] or (line and units_in(line)) or 0, terms.quantity
  if units + quantity > terms.limit then
    return "limit_reached"
  elseif left < quantity then
    return "sold_out"
  end
  local slot = take_lowest(p)
  local prize = terms.play and batch.dealer and batch.dealer.deal(slot, terms.client_seed) or 0
  local given = string.format("%d %d", prize, slot)
  for _ = 2, quantity do
    given = given .. string.format(",%d", take_lowest(p))
  end
  batch.units[who] = units + quantity
  if batch.first then
    batch.granted[who] = granted and (granted .. " " .. key) or key
  end
  if terms.pass then
    redis.call("HDEL", PASSES, batch.users[i])
    redis.call("HINCRBY", POOL, "spent", 1)
  end
  p.version, p.queued = p.version + 1, p.queued + quantity
  return nil, given
end

local operations = {}

-- Appends an entry of so many claims to the stream: "e" their epoch, "v" the version before the first of them, "g" what was
-- given for each, "prize slots" with semicolons, "c" the claims, each behind its length and a space. Gives its place, and how many
-- claims there are now.
local function append(epoch, before, given, claims, count)
  local place = redis.call("XADD", INTAKE, "*", "e", epoch, "v", before, "g", given, "c", claims)
  redis.call("HSET", QUEUED, place, count)
  return place, redis.call("HINCRBY", QUEUED, "claims", count)
end

-- Those of a batch's claims that were granted.
local function only_granted(claims, granted)
  local parts, at, n = {}, 1, 1
  for i = 1, granted[#granted] do
    local _, before, length = claims:find("^(%d+) ", at)
    local last = before + tonumber(length)
    if i == granted[n] then
      parts[n], n = claims:sub(at, last), n + 1
    end
    at = last + 1
  end
  return table.concat(parts)
end

-- Writes what was granted, all of a batch in one entry of the stream. Each claim by itself would cost three calls.
local function keep_granted(p, batch, granted, given, claims)
  local place = append(p.epoch, print_number(p.version - #granted), given, claims, #granted)
  local counted, apart, fields, before = " " .. place .. " ", " " .. place .. "+", {}, {}
  for n = 1, #granted do
    local i = granted[n]
    local who, mark = first_of(batch, i), batch.apart[i] and apart or counted
    local line, units = batch.lines[who], print_number(batch.units[who])
    fields[2 * n - 1] = batch.users[i]
    if batch.first or line then
      -- Whoever has several in this batch is written several times, the last time with all of them.
      before[who] = (before[who] or (line and still_needed(line)) or "") .. mark .. batch.keys[i]
      fields[2 * n] = units .. before[who]
    else
      fields[2 * n] = units .. mark .. batch.keys[i]
    end
  end
  redis.call("HSET", USERS, unpack(fields))
end

-- Counts those who were refused. What was counted in another second is forgotten.
local function keep_refused(p, batch, refused)
  local counts, fields, now = {}, {}, print_number(this_second())
  if p.rated ~= now then
    redis.call("UNLINK", RATES)
    redis.call("HSET", POOL, "rated", now)
  end
  for n, i in ipairs(refused) do
    local who = first_of(batch, i)
    counts[who] = (counts[who] or tonumber(batch.refused[who] or 0)) + 1
    fields[2 * n - 1], fields[2 * n] = batch.users[i], print_number(counts[who])
  end
  redis.call("HSET", RATES, unpack(fields))
  redis.call("EXPIRE", RATES, 3)
end

-- Decides a batch, one after the other, and keeps what comes of it; gives the answers.
local function decide(p, batch, claims)
  local answers, granted, given, refused, i = {}, {}, {}, {}, 0
  for _, terms in ipairs(batch.runs) do
    for _ = 1, terms.count do
      i = i + 1
      local code, slots = claim(p, batch, i, terms)
      answers[i] = code or slots
      if slots then
        granted[#granted + 1] = i
        -- It is not limited, or was counted before.
        if terms.per_s == 0 then
          batch.apart[i] = true
        end
      elseif terms.per_s > 0 then
        refused[#refused + 1] = i
      end
    end
  end
  local told = table.concat(answers, ";")
  if #granted == i then
    keep_granted(p, batch, granted, told, claims)
  elseif #granted > 0 then
    for n = 1, #granted do
      given[n] = answers[granted[n]]
    end
    keep_granted(p, batch, granted, table.concat(given, ";"), only_granted(claims, granted))
  end
  if #refused > 0 then
    keep_refused(p, batch, refused)
  end
  return told
end

-- Who calls, the number of this call and whether it is sent again, the caller's last epoch and version; the claims: their users,
-- packed, their keys ("-" for none), packed, and all of them, each behind its length and a space; then what they ask under. Gives
-- epoch, version, what is free, and for each claim "prize slots" (each of these of the next version, up to the last) or the code
-- of its rejection, with semicolons. A call that is sent again, because its answer was lost, gets the answer it had.
function operations.claim(node, call, again, seen_epoch, seen_version, users, keys, claims)
  local p = pool()
  local before = p and redis.call("HGET", POOL, "answer:" .. node)
  if before then
    local number, answer = cmsgpack.unpack(before)
    if number == call then
      return answer
    end
  end
  local seen = { tonumber(seen_epoch), tonumber(seen_version) }
  -- A server that has forgotten what the caller has seen must be told again what is free.
  if not p or p.epoch < seen[1] or (p.epoch == seen[1] and p.version < seen[2]) then
    return false
  end
  -- The pool that may have decided it the first time is gone.
  if again == "1" and p.epoch ~= seen[1] then
    return false
  end
  local batch = read_batch(p, cmsgpack.unpack(users), cmsgpack.unpack(keys), 10)
  local told = decide(p, batch, claims)
  write(p)
  local answer = { p.epoch, p.version, free(p) + p.moving, told }
  redis.call("HSET", POOL, "answer:" .. node, cmsgpack.pack(call, answer))
  return answer
end

-- The others are made only where one of them is called: that takes longer than to decide a claim.
if ARGV[1] == "claim" then
  return operations.claim(unpack(ARGV, 2))
end

-- A seed comes in pieces, since a script must not take long: `build` clears the place, `slots` and `users` fill it, `install`
-- makes it the pool. Until then there is none. A seed that comes late or twice must not bring back what was sold since.
function operations.build(epoch, shard)
  local known = redis.call("HMGET", POOL, "epoch", "building")
  if tonumber(known[1] or -1) >= tonumber(epoch) or tonumber(known[2] or -1) > tonumber(epoch) then
    return redis.status_reply("OLD")
  end
  redis.call("UNLINK", POOL, RETURNED, USERS, PASSES, ISSUED, DECK, LEAVING, ARRIVED, QUEUED, RATES)
  redis.call("HSET", POOL, "building", epoch, "expected", tonumber(shard) + 1)
  redis.call("PERSIST", INTAKE)
  return redis.status_reply("OK")
end

local function is_building(epoch)
  return redis.call("HGET", POOL, "building") == epoch
end

-- Slots below this one are free.
function operations.gap(epoch, shards, below)
  if not is_building(epoch) then
    return redis.status_reply("OLD")
  end
  local expected = tonumber(redis.call("HGET", POOL, "expected"))
  while expected < tonumber(below) do
    redis.call("ZADD", RETURNED, expected, expected)
    expected = expected + tonumber(shards)
  end
  redis.call("HSET", POOL, "expected", expected)
  return redis.status_reply("OK")
end

-- Slots that are taken, rising; those between them are free.
function operations.slots(epoch, shards, taken)
  if not is_building(epoch) then
    return redis.status_reply("OLD")
  end
  local expected = tonumber(redis.call("HGET", POOL, "expected"))
  for _, slot in ipairs(cmsgpack.unpack(taken)) do
    for gap = expected, slot - 1, tonumber(shards) do
      redis.call("ZADD", RETURNED, gap, gap)
    end
    expected = slot + tonumber(shards)
  end
  redis.call("HSET", POOL, "expected", expected)
  return redis.status_reply("OK")
end

-- Users and their units.
function operations.users(epoch, users)
  if not is_building(epoch) then
    return redis.status_reply("OLD")
  end
  local list = cmsgpack.unpack(users)
  for i = 1, #list, 2 do
    redis.call("HSET", USERS, list[i], list[i + 1])
  end
  return redis.status_reply("OK")
end

-- epoch door top applied, over how many shards, and the draw.
function operations.install(epoch, door, top, applied, shards, strategy, seed, odds, left, deck)
  if not is_building(epoch) then
    return redis.status_reply("OLD")
  end
  local expected = redis.call("HGET", POOL, "expected")
  if strategy ~= "" then
    odds, left = split(odds), split(left)
    redis.call("HSET", POOL, "strategy", strategy, "seed", seed, "prizes", #odds)
    for i = 1, #odds do
      redis.call("HSET", POOL, "odds:" .. i, odds[i], "left:" .. i, left[i])
    end
    if deck ~= "" then
      redis.call("SET", DECK, deck)
    end
  end
  redis.call("HDEL", POOL, "building", "expected")
  redis.call("HSET", POOL, "epoch", epoch, "version", 0, "door", door, "top", top, "next", expected, "applied", applied,
    "shards", shards, "last", 0, "spent", 0, "returned", 0, "queued", 0, "moving", 0)
  return redis.status_reply("OK")
end

function operations.pass(user, factor, stock, limit, now, expires)
  local p, line = pool(), redis.call("HGET", USERS, user)
  now = tonumber(now)
  if not p then
    return { "not_ready" }
  elseif p.door ~= "open" and p.door ~= "paused" then
    return { "ended" }
  elseif free(p) == 0 then
    return { "sold_out" }
  elseif line and units_in(line) >= tonumber(limit) then
    return { "limit_reached" }
  end
  -- Some at a time: those that are left go with the next.
  for _ = 1, 1000 do
    local front = redis.call("ZRANGE", ISSUED, 0, 0)[1]
    if not front then
      break
    end
    local issued, holder = front:match("^(%d+) (%d+)$")
    local current, ends = pass_of(holder)
    if current == issued and ends > now then
      break
    end
    if current == issued then
      redis.call("HDEL", PASSES, holder)
    end
    redis.call("ZREM", ISSUED, front)
  end
  local number, ends = pass_of(user)
  if number and ends > now then
    return { "", p.epoch, number, ends }
  end
  local spent, returned = unpack(redis.call("HMGET", POOL, "spent", "returned"))
  local quota = tonumber(factor) * tonumber(stock) + tonumber(returned)
  if redis.call("HLEN", PASSES) + tonumber(spent) >= quota then
    return { "busy" }
  end
  number = redis.call("HINCRBY", POOL, "last", 1)
  redis.call("HSET", PASSES, user, number .. " " .. expires)
  redis.call("ZADD", ISSUED, number, number .. " " .. user)
  return { "", p.epoch, tostring(number), tonumber(expires) }
end

-- Entries that the ledger has, of three arguments: place, epoch, units. They are deleted, each once. Gives how many claims are
-- left. Their buyers keep their places, which lead nowhere now.
function operations.done(group, ...)
  local p, entries, claims = pool(), { ... }, 0
  for at = 1, #entries, 3 do
    local place, epoch, units = unpack(entries, at, at + 2)
    redis.call("XACK", INTAKE, group, place)
    if redis.call("XDEL", INTAKE, place) == 1 and p and p.epoch == tonumber(epoch) then
      p.queued = p.queued - tonumber(units)
    end
    -- What an earlier epoch has queued is not counted.
    claims = claims + tonumber(redis.call("HGET", QUEUED, place) or 0)
    redis.call("HDEL", QUEUED, place)
  end
  if p then
    redis.call("HSET", POOL, "queued", p.queued)
  end
  if claims > 0 then
    redis.call("HINCRBY", QUEUED, "claims", -claims)
  end
  return operations.unrecorded()
end

-- A claim that something else has granted: its epoch, the version before it, its buyer and key, then as in an entry.
function operations.append(epoch, before, user, key, given, claim)
  local place, count = append(epoch, before, given, claim, 1)
  local line = redis.call("HGET", USERS, user) or "0"
  redis.call("HSET", USERS, user, line .. " " .. place .. "+" .. key)
  return count
end

-- How many claims are not recorded.
function operations.unrecorded()
  return tonumber(redis.call("HGET", QUEUED, "claims") or 0)
end

-- Whether a claim of this buyer with this key is on its way to the ledger.
function operations.in_flight(user, key)
  local line = redis.call("HGET", USERS, user)
  return line and has_in_flight(line, key) and 1 or 0
end

-- The entry that has a claim of this buyer that is not recorded; it begins like this.
function operations.queued(user, beginning)
  local read = {}
  for place in (redis.call("HGET", USERS, user) or ""):gmatch(" (%d+%-%d+)[ +]") do
    if not read[place] and is_there(place) then
      read[place] = true
      local entries = redis.call("XRANGE", INTAKE, place, place)
      if entries[1] and (entries[1][2][8] or ""):find(beginning, 1, true) then
        return entries
      end
    end
  end
  return {}
end

-- Log entries of six arguments: seq kind top user slots prize. Gives the last that is taken in.
function operations.follow(...)
  local p, args = pool(), { ... }
  if not p then
    return false
  end
  for at = 1, #args, 6 do
    local seq, kind, top, user, slots, prize = unpack(args, at, at + 5)
    seq = tonumber(seq)
    if seq > p.applied + 1 then
      break
    end
    if seq == p.applied + 1 then
      if kind == "restock" then
        p.top = math.max(p.top, tonumber(top))
      elseif kind == "return" then
        give_back(p, user, split(slots), tonumber(prize))
      elseif kind == "withdraw" then
        -- More may have been taken out since, by somebody who has not recorded it yet.
        p.top = math.min(p.top, tonumber(top))
        for _, slot in ipairs(split(slots)) do
          p.returned = p.returned - redis.call("ZREM", RETURNED, slot)
        end
      end
      p.applied, p.version = seq, p.version + 1
    end
  end
  write(p)
  return p.applied
end

function operations.withdraw(epoch, units)
  local p = pool()
  if not p or p.epoch ~= tonumber(epoch) then
    return false
  end
  units = tonumber(units)
  local cut, slots = 0, {}
  if p.shards == 1 then
    cut = math.min(units, fresh(p))
    p.top = p.top - cut
  end
  while cut + #slots < units and p.returned > 0 do
    slots[#slots + 1] = redis.call("ZPOPMAX", RETURNED)[1]
    p.returned = p.returned - 1
  end
  -- The top is every shard's: what was never taken here goes slot by slot.
  while cut + #slots < units and free(p) > 0 do
    slots[#slots + 1] = take_lowest(p)
  end
  p.version = p.version + 1
  write(p)
  return { p.top, cut + #slots, table.concat(slots, ",") }
end

-- They are for sale again; the top is at least what it was, whatever was added meanwhile.
function operations.put_back(epoch, top, slots)
  local p = pool()
  if p and p.epoch == tonumber(epoch) then
    slots = split(slots)
    p.top = math.max(p.top, tonumber(top))
    for _, slot in ipairs(slots) do
      redis.call("ZADD", RETURNED, slot, slot)
    end
    p.version = p.version + 1
    write(p)
  end
  return redis.status_reply("OK")
end

-- What held at an earlier moment than what was said last is not listened to.
function operations.door(door, at)
  local p = pool()
  if p and tonumber(at) >= tonumber(redis.call("HGET", POOL, "door_at") or 0) then
    redis.call("HSET", POOL, "door_at", at)
    p.door, p.version = door, p.version + 1
    write(p)
    for _, key in ipairs(KEYS) do
      -- Whoever comes late still finds it closed; then it is forgotten.
      if door == "closed" and key ~= INTAKE then
        redis.call("EXPIRE", key, CLOSED_KEPT_S)
      else
        redis.call("PERSIST", key)
      end
    end
  end
  return redis.status_reply("OK")
end

-- A transfer: slots leave here for another shard, and are kept until they have arrived there.
function operations.leave(id, target, most)
  local p = pool()
  if not p then
    return false
  end
  if redis.call("HEXISTS", LEAVING, id) == 1 then
    return redis.call("HGET", LEAVING, id)
  end
  local slots = {}
  while #slots < tonumber(most) and free(p) > 0 do
    slots[#slots + 1] = take_lowest(p)
  end
  if #slots == 0 then
    return ""
  end
  local transfer = p.epoch .. " " .. target .. " " .. table.concat(slots, ",")
  redis.call("HSET", LEAVING, id, transfer)
  p.version, p.moving = p.version + 1, p.moving + #slots
  write(p)
  return transfer
end

-- They arrive, once. Gives 1 if they are here now, 0 if this shard is of another life.
function operations.arrive(id, epoch, slots)
  local p = pool()
  if not p or p.epoch ~= tonumber(epoch) then
    return 0
  end
  if redis.call("SADD", ARRIVED, id) == 1 then
    for _, slot in ipairs(split(slots)) do
      redis.call("ZADD", RETURNED, slot, slot)
    end
    p.version = p.version + 1
    write(p)
  end
  return 1
end

function operations.left(id)
  local p, transfer = pool(), redis.call("HGET", LEAVING, id)
  if p and transfer then
    p.moving = p.moving - #split(transfer:match("^%d+ %d+ (.*)$"))
    write(p)
  end
  return redis.call("HDEL", LEAVING, id)
end

-- What is on its way from here: id, "epoch target slots", …
function operations.leaving()
  return redis.call("HGETALL", LEAVING)
end

function operations.figures()
  local p = pool()
  return p and { p.epoch, p.version, free(p), p.applied, redis.call("HLEN", LEAVING), p.queued, p.moving, p.door }
end

-- What is left of each of a draw's prizes.
function operations.prizes()
  local left = {}
  for i = 1, tonumber(redis.call("HGET", POOL, "prizes") or 0) do
    left[i] = tonumber(redis.call("HGET", POOL, "left:" .. i))
  end
  return left
end

-- Over how many shards the pool is split.
function operations.shards()
  return tonumber(redis.call("HGET", POOL, "shards") or nil)
end

function operations.units(user)
  local line = redis.call("HGET", USERS, user)
  return line and units_in(line)
end

return operations[ARGV[1]](unpack(ARGV, 2))
