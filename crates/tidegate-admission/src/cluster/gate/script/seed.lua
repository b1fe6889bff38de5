-- Installing a pool from a seed.
--
-- A script must not block the server for long, so a seed arrives in parts: `build` clears the keys, `gap`, `slots` and
-- `users` fill them, `install` makes them the pool. Until `install` there is no pool. Every part names its epoch, its
-- attempt and its number: a seed that arrives late or twice must not bring back what was sold since, and a part that
-- arrives late or twice must not disturb another attempt to load the same seed.

-- Defining the operations below takes longer than deciding a claim, so claims are dispatched before.
if ARGV[1] == "claim" then
  return operations.claim(unpack(ARGV, 2))
end

local OK, STALE = redis.status_reply("OK"), redis.status_reply("STALE")

-- `attempt` names one attempt to load the seed, `part` numbers its parts from 1.
function operations.build(epoch, attempt, _, shard)
  local known = redis.call("HMGET", POOL, "epoch", "building", "attempt")
  if tonumber(known[1] or -1) >= tonumber(epoch) or tonumber(known[2] or -1) > tonumber(epoch) then
    return STALE
  elseif known[3] == attempt then
    return OK
  end
  redis.call("UNLINK", POOL, RETURNED, USERS, PASSES, ISSUED, DECK, OUTGOING, ARRIVED, QUEUED, RATES)
  redis.call("HSET", POOL, "building", epoch, "attempt", attempt, "parts", 0, "expected", tonumber(shard) + 1)
  redis.call("PERSIST", INTAKE)
  return OK
end

-- Whether this part is the next one of the attempt that is being loaded. Otherwise also returns the reply: a part that
-- arrives twice changes nothing, and one of an attempt that was given up is refused.
local function is_next(epoch, attempt, part)
  local building = redis.call("HMGET", POOL, "building", "attempt", "parts")
  if building[1] ~= epoch or building[2] ~= attempt or tonumber(building[3]) + 1 < tonumber(part) then
    return false, STALE
  elseif tonumber(building[3]) >= tonumber(part) then
    return false, OK
  end
  redis.call("HSET", POOL, "parts", part)
  return true
end

-- All slots of this shard below `below` are free.
function operations.gap(epoch, attempt, part, shards, below)
  local proceed, reply = is_next(epoch, attempt, part)
  if not proceed then
    return reply
  end
  local expected = tonumber(redis.call("HGET", POOL, "expected"))
  while expected < tonumber(below) do
    redis.call("ZADD", RETURNED, expected, expected)
    expected = expected + tonumber(shards)
  end
  redis.call("HSET", POOL, "expected", expected)
  return OK
end

-- Taken slots in ascending order; the slots between them are free.
function operations.slots(epoch, attempt, part, shards, taken)
  local proceed, reply = is_next(epoch, attempt, part)
  if not proceed then
    return reply
  end
  local expected = tonumber(redis.call("HGET", POOL, "expected"))
  for _, slot in ipairs(cmsgpack.unpack(taken)) do
    for gap = expected, slot - 1, tonumber(shards) do
      redis.call("ZADD", RETURNED, gap, gap)
    end
    expected = slot + tonumber(shards)
  end
  redis.call("HSET", POOL, "expected", expected)
  return OK
end

-- Users and the units they hold.
function operations.users(epoch, attempt, part, users)
  local proceed, reply = is_next(epoch, attempt, part)
  if not proceed then
    return reply
  end
  local list = cmsgpack.unpack(users)
  for i = 1, #list, 2 do
    redis.call("HSET", USERS, list[i], list[i + 1])
  end
  return OK
end

-- Makes what was built the pool. The arguments from `strategy` on describe the draw; they are empty for a sale.
function operations.install(epoch, attempt, part, state, top, applied, shards, strategy, seed, odds, left, deck)
  local proceed, reply = is_next(epoch, attempt, part)
  if not proceed then
    return reply
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
  redis.call("HDEL", POOL, "building", "attempt", "parts", "expected")
  redis.call("HSET", POOL, "epoch", epoch, "version", 0, "door", state, "top", top, "next", expected,
    "applied", applied, "shards", shards, "last", 0, "spent", 0, "returned", 0, "queued", 0, "moving", 0)
  return OK
end
