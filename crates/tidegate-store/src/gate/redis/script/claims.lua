-- Claims: a batch is read, decided one after the other, and kept.

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

local format = string.format

-- A number as text; most are printed many times in a batch.
local printed = {}
local function print_number(number)
  local text = printed[number]
  if not text then
    text = format("%d", number)
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

-- Counts an attempt; gives whether it is one too many.
local function is_too_often(batch, who, per_s)
  local asked, line, refused = batch.asked[who], batch.lines[who], batch.refused[who]
  if not asked then
    asked = (refused and tonumber(refused) or 0) + (line and granted_now(line) or 0)
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
  local first = batch.first
  local who, key = first and first[batch.users[i]] or i, batch.keys[i]
  local line, granted, left = batch.lines[who], batch.granted[who], p.left
  -- Whoever is not known and comes once has not asked before.
  if terms.per_s > 0 and (line or first or batch.refused[who]) and is_too_often(batch, who, terms.per_s) then
    return "slower"
  end
  if p.door == "paused" then
    return "paused"
  elseif p.door ~= "open" then
    return "ended"
  end
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
  local given = prize == 0 and format("0 %d", slot) or format("%d %d", prize, slot)
  for _ = 2, quantity do
    given = given .. format(",%d", take_lowest(p))
  end
  batch.units[who] = units + quantity
  if batch.first then
    batch.granted[who] = granted and (granted .. " " .. key) or key
  end
  if terms.pass then
    redis.call("HDEL", PASSES, batch.users[i])
    redis.call("HINCRBY", POOL, "spent", 1)
  end
  p.version, p.queued, p.left = p.version + 1, p.queued + quantity, left - quantity
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
  local users, keys, lines, first = batch.users, batch.keys, batch.lines, batch.first
  for n = 1, #granted do
    local i = granted[n]
    local who, mark = first and first[users[i]] or i, batch.apart[i] and apart or counted
    local line, units = lines[who], print_number(batch.units[who])
    fields[2 * n - 1] = users[i]
    if first or line then
      -- Whoever has several in this batch is written several times, the last time with all of them.
      before[who] = (before[who] or (line and still_needed(line)) or "") .. mark .. keys[i]
      fields[2 * n] = units .. before[who]
    else
      fields[2 * n] = units .. mark .. keys[i]
    end
  end
  redis.call("HSET", USERS, unpack(fields))
end

-- Counts those who were refused. What was counted in another second is forgotten.
local function keep_refused(p, batch, refused)
  local counts, fields, now, first = {}, {}, print_number(this_second()), batch.first
  if p.rated ~= now then
    redis.call("UNLINK", RATES)
    redis.call("HSET", POOL, "rated", now)
  end
  for n, i in ipairs(refused) do
    local who = first and first[batch.users[i]] or i
    counts[who] = (counts[who] or tonumber(batch.refused[who] or 0)) + 1
    fields[2 * n - 1], fields[2 * n] = batch.users[i], print_number(counts[who])
  end
  redis.call("HSET", RATES, unpack(fields))
  redis.call("EXPIRE", RATES, 3)
end

-- Decides a batch, one after the other, and keeps what comes of it; gives the answers.
local function decide(p, batch, claims)
  local answers, granted, given, refused, i, grants = {}, {}, {}, {}, 0, 0
  -- Kept up to date by claims: it need not be told anew for each.
  p.left = free(p)
  for _, terms in ipairs(batch.runs) do
    for _ = 1, terms.count do
      i = i + 1
      local code, slots = claim(p, batch, i, terms)
      answers[i] = code or slots
      if slots then
        grants = grants + 1
        granted[grants] = i
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
