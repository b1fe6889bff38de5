-- Claims: a batch is decoded, decided one claim after the other, and stored.

-- The terms of a claim, which are everything but the buyer and the key:
-- "quantity limit rate_per_s key_checked pass now play client_seed". Most claims of a batch share their terms.
local function read_terms(text)
  local quantity, limit, rate_per_s, key_checked, pass, now, play, client_seed =
    text:match("^(%d+) (%d+) (%d+) (%d) (%d*) (%-?%d+) (%d) (.*)$")
  return {
    quantity = tonumber(quantity), limit = tonumber(limit), rate_per_s = tonumber(rate_per_s),
    key_checked = key_checked == "1", pass = pass ~= "" and pass, now = tonumber(now), play = play == "1",
    client_seed = client_seed,
  }
end

local format = string.format

-- A number as text, cached: most numbers are printed many times in a batch.
local number_texts = {}
local function number_text(number)
  local text = number_texts[number]
  if not text then
    text = format("%d", number)
    number_texts[number] = text
  end
  return text
end

-- Decodes a batch and reads what the server knows of its buyers. The terms start at ARGV[first_terms], each preceded by
-- the number of consecutive claims that share them.
--
-- Everything about a buyer is indexed by the buyer's first claim in the batch. Read from the server: `records` (buyer
-- records) and `rejected` (attempts counted in RATES). Updated by the batch: `units` held, `attempts` in this second,
-- `granted` keys. `uncounted` marks claims that the rate limit must not count. `first` maps a user to the index of the
-- first claim; it is nil if every buyer has one claim only, the common case.
local function read_batch(p, users, keys, first_terms)
  local batch = {
    users = users, keys = keys, runs = {}, rejected = {}, units = {}, attempts = {}, granted = {}, uncounted = {},
  }
  local rate_limited = false
  for at = first_terms, #ARGV, 2 do
    local terms = read_terms(ARGV[at + 1])
    terms.count = tonumber(ARGV[at])
    batch.runs[#batch.runs + 1] = terms
    rate_limited = rate_limited or terms.rate_per_s > 0
    if terms.play and not batch.dealer then
      batch.dealer = read_dealer()
    end
  end
  local first = {}
  for i = 1, #users do
    local user = users[i]
    if first[user] then
      batch.first = first
    else
      first[user] = i
    end
  end
  batch.records = redis.call("HMGET", USERS, unpack(users))
  -- RATES holds the counts of one second only.
  if rate_limited and p.rate_second and tonumber(p.rate_second) == this_second() then
    batch.rejected = redis.call("HMGET", RATES, unpack(users))
  end
  return batch
end

-- Counts an attempt; returns whether it exceeds the rate limit.
local function exceeds_rate(batch, buyer, rate_per_s)
  local attempts, record, rejected = batch.attempts[buyer], batch.records[buyer], batch.rejected[buyer]
  if not attempts then
    attempts = (rejected and tonumber(rejected) or 0) + (record and granted_this_second(record) or 0)
  end
  if batch.first then
    batch.attempts[buyer] = attempts + 1
  end
  return attempts >= rate_per_s
end

-- Decides one claim. Returns a code if it is not granted, else nil and "prize slots".
--
-- "in_flight": a claim with this key is not recorded yet, and the retry waits for its answer. "check_key": the buyer
-- has claimed here before and may have used the key; the node looks it up in the ledger and submits again.
local function claim(p, batch, i, terms)
  local first = batch.first
  local buyer, key = first and first[batch.users[i]] or i, batch.keys[i]
  local record, granted, left = batch.records[buyer], batch.granted[buyer], p.left
  -- A buyer without a record, without rejected attempts and with one claim in the batch makes the first attempt.
  if terms.rate_per_s > 0 and (record or first or batch.rejected[buyer])
    and exceeds_rate(batch, buyer, terms.rate_per_s) then
    return "rate_limited"
  end
  if p.state == "paused" then
    return "paused"
  elseif p.state ~= "open" then
    return "ended"
  end
  if key ~= "-" and ((granted and granted:find(key, 1, true)) or (record and has_in_flight(record, key))) then
    return "in_flight"
  elseif left == 0 then
    return "sold_out"
  elseif (record or granted) and key ~= "-" and not terms.key_checked then
    return "check_key"
  end
  if terms.pass then
    local number, expires = pass_of(batch.users[i])
    if number ~= terms.pass or expires <= terms.now then
      return "pass_invalid"
    end
  end
  local units, quantity = batch.units[buyer] or (record and units_in(record)) or 0, terms.quantity
  if units + quantity > terms.limit then
    return "limit_reached"
  elseif left < quantity then
    return "sold_out"
  end
  local slot = take_lowest(p)
  local prize = terms.play and batch.dealer and batch.dealer.deal(slot, terms.client_seed) or 0
  local grant = prize == 0 and format("0 %d", slot) or format("%d %d", prize, slot)
  for _ = 2, quantity do
    grant = grant .. format(",%d", take_lowest(p))
  end
  batch.units[buyer] = units + quantity
  if batch.first then
    batch.granted[buyer] = granted and (granted .. " " .. key) or key
  end
  if terms.pass then
    redis.call("HDEL", PASSES, batch.users[i])
    redis.call("HINCRBY", POOL, "spent", 1)
  end
  p.version, p.queued, p.left = p.version + 1, p.queued + quantity, left - quantity
  return nil, grant
end

local operations = {}

-- Appends one entry with `count` claims to the stream; its fields are described in ../../stream/entry.rs. Returns the
-- entry's id and the number of unrecorded claims.
local function append(epoch, version_before, grants, claims, count)
  local entry = redis.call("XADD", INTAKE, "*", "e", epoch, "v", version_before, "g", grants, "c", claims)
  redis.call("HSET", QUEUED, entry, count)
  return entry, redis.call("HINCRBY", QUEUED, "claims", count)
end

-- The encoded claims of a batch, reduced to the granted ones.
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

-- Stores the granted claims of a batch as one stream entry. One entry per claim would cost three calls each.
local function store_granted(p, batch, granted, grants, claims)
  local entry = append(p.epoch, number_text(p.version - #granted), grants, claims, #granted)
  local counted, uncounted, fields, claims_of = " " .. entry .. " ", " " .. entry .. "+", {}, {}
  local users, keys, records, first = batch.users, batch.keys, batch.records, batch.first
  for n = 1, #granted do
    local i = granted[n]
    local buyer, mark = first and first[users[i]] or i, batch.uncounted[i] and uncounted or counted
    local record, units = records[buyer], number_text(batch.units[buyer])
    fields[2 * n - 1] = users[i]
    if first or record then
      -- A buyer with several claims in this batch is written several times, the last time with all of them.
      claims_of[buyer] = (claims_of[buyer] or (record and unrecorded_in(record)) or "") .. mark .. keys[i]
      fields[2 * n] = units .. claims_of[buyer]
    else
      fields[2 * n] = units .. mark .. keys[i]
    end
  end
  redis.call("HSET", USERS, unpack(fields))
end

-- Counts the rejected attempts of this second. Counts of an earlier second are deleted.
local function store_rejected(p, batch, rejected)
  local counts, fields, now, first = {}, {}, number_text(this_second()), batch.first
  if p.rate_second ~= now then
    redis.call("UNLINK", RATES)
    redis.call("HSET", POOL, "rated", now)
  end
  for n, i in ipairs(rejected) do
    local buyer = first and first[batch.users[i]] or i
    counts[buyer] = (counts[buyer] or tonumber(batch.rejected[buyer] or 0)) + 1
    fields[2 * n - 1], fields[2 * n] = batch.users[i], number_text(counts[buyer])
  end
  redis.call("HSET", RATES, unpack(fields))
  redis.call("EXPIRE", RATES, 3)
end

-- Decides a batch in order and stores the result; returns the decisions, separated by semicolons.
local function decide(p, batch, claims)
  local decisions, granted, grants, rejected, i, count = {}, {}, {}, {}, 0, 0
  -- Maintained by `claim`, so that it is not computed for each claim.
  p.left = free(p)
  for _, terms in ipairs(batch.runs) do
    for _ = 1, terms.count do
      i = i + 1
      local code, grant = claim(p, batch, i, terms)
      decisions[i] = code or grant
      if grant then
        count = count + 1
        granted[count] = i
        -- Without a rate limit, or counted when it was first submitted.
        if terms.rate_per_s == 0 then
          batch.uncounted[i] = true
        end
      elseif terms.rate_per_s > 0 then
        rejected[#rejected + 1] = i
      end
    end
  end
  local reply = table.concat(decisions, ";")
  if #granted == i then
    store_granted(p, batch, granted, reply, claims)
  elseif #granted > 0 then
    for n = 1, #granted do
      grants[n] = decisions[granted[n]]
    end
    store_granted(p, batch, granted, table.concat(grants, ";"), only_granted(claims, granted))
  end
  if #rejected > 0 then
    store_rejected(p, batch, rejected)
  end
  return reply
end

-- Decides a batch. `caller` sends its calls one after the other and numbers them upwards; `retry` is "1" if it sends a
-- call again because the reply was lost: then it gets the reply of the first attempt. `seen_epoch` and `seen_version`
-- are the newest the caller has seen. `users` and `keys` are MessagePack lists ("-" for no key), `claims` the encoded
-- claims, each preceded by its length and a space. The terms follow.
--
-- Returns false if this pool must not decide, else { epoch, version, free, decisions }. The decisions are empty if the
-- caller has not seen this epoch: nothing was decided, and it may call again.
--
-- A call can arrive after its caller has given it up, even after later calls or after a reseed. Its claims must not be
-- decided then: they may have been decided by the attempt that was answered.
function operations.claim(caller, call, retry, seen_epoch, seen_version, users, keys, claims)
  local p = pool()
  local last_reply = p and redis.call("HGET", POOL, "answer:" .. caller)
  if last_reply then
    local number, reply = cmsgpack.unpack(last_reply)
    if tonumber(number) == tonumber(call) then
      return reply
    elseif tonumber(number) > tonumber(call) then
      return false
    end
  end
  local seen = { tonumber(seen_epoch), tonumber(seen_version) }
  -- A server that knows less than the caller has seen has lost writes: it may grant only after a reseed.
  if not p or p.epoch < seen[1] or (p.epoch == seen[1] and p.version < seen[2]) then
    return false
  end
  if p.epoch > seen[1] then
    -- The pool that may have decided the first attempt was replaced.
    return retry == "0" and { p.epoch, p.version, free(p) + p.in_transit, "" }
  end
  local batch = read_batch(p, cmsgpack.unpack(users), cmsgpack.unpack(keys), 10)
  local decisions = decide(p, batch, claims)
  write(p)
  local reply = { p.epoch, p.version, free(p) + p.in_transit, decisions }
  redis.call("HSET", POOL, "answer:" .. caller, cmsgpack.pack(call, reply))
  return reply
end
