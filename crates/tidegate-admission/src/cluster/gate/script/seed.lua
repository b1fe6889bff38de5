-- Installing a pool from a seed.
--
-- A script must not block the server for long, so a seed arrives in parts: `build` clears the keys, `gap`, `slots` and
-- `users` fill them, `install` makes them the pool. Until `install` there is no pool. Every part checks the epoch: a
-- seed that arrives late or twice must not bring back what was sold since.

-- Defining the operations below takes longer than deciding a claim, so claims are dispatched before.
if ARGV[1] == "claim" then
  return operations.claim(unpack(ARGV, 2))
end

local OK, STALE = redis.status_reply("OK"), redis.status_reply("STALE")

function operations.build(epoch, shard)
  local known = redis.call("HMGET", POOL, "epoch", "building")
  if tonumber(known[1] or -1) >= tonumber(epoch) or tonumber(known[2] or -1) > tonumber(epoch) then
    return STALE
  end
  redis.call("UNLINK", POOL, RETURNED, USERS, PASSES, ISSUED, DECK, OUTGOING, ARRIVED, QUEUED, RATES)
  redis.call("HSET", POOL, "building", epoch, "expected", tonumber(shard) + 1)
  redis.call("PERSIST", INTAKE)
  return OK
end

local function is_building(epoch)
  return redis.call("HGET", POOL, "building") == epoch
end

-- All slots of this shard below `below` are free.
function operations.gap(epoch, shards, below)
  if not is_building(epoch) then
    return STALE
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
function operations.slots(epoch, shards, taken)
  if not is_building(epoch) then
    return STALE
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
function operations.users(epoch, users)
  if not is_building(epoch) then
    return STALE
  end
  local list = cmsgpack.unpack(users)
  for i = 1, #list, 2 do
    redis.call("HSET", USERS, list[i], list[i + 1])
  end
  return OK
end

-- Makes what was built the pool. The arguments from `strategy` on describe the draw; they are empty for a sale.
function operations.install(epoch, state, top, applied, shards, strategy, seed, odds, left, deck)
  if not is_building(epoch) then
    return STALE
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
  redis.call("HSET", POOL, "epoch", epoch, "version", 0, "door", state, "top", top, "next", expected,
    "applied", applied, "shards", shards, "last", 0, "spent", 0, "returned", 0, "queued", 0, "moving", 0)
  return OK
end
