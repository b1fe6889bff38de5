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
