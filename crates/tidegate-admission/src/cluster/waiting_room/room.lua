-- A waiting room shared by all nodes. Every operation is atomic. ../waiting_room.rs describes the keys.
-- ARGV[1] is the operation, the others are its arguments.

local QUEUE, SEEN, ADMITTED, PASSES, ROOM = unpack(KEYS)
-- 2^52: above every rank, so that users who join after the start come behind those with a rank.
local LATE = 4503599627370496
-- Users removed by one call: a script must not block the server for long.
local MAX_REMOVED = 1000

local operations = {}

-- Takes a place, unless the user has one. Without a rank the user comes last.
function operations.join(user, rank, now)
  redis.call("HSET", SEEN, user, now)
  if redis.call("ZSCORE", ADMITTED, user) or redis.call("ZSCORE", QUEUE, user) then
    return 0
  end
  local score = rank ~= "" and rank or LATE + redis.call("HINCRBY", ROOM, "arrivals", 1)
  redis.call("ZADD", QUEUE, score, user)
  return 1
end

-- { state, waiting users, users ahead or expiry of the pass, pass }; false without a place. Marks the user as seen.
function operations.seen(user, now)
  local waiting = redis.call("ZCARD", QUEUE)
  local ends = redis.call("ZSCORE", ADMITTED, user)
  if ends then
    redis.call("HSET", SEEN, user, now)
    return { "admitted", waiting, tonumber(ends), redis.call("HGET", PASSES, user) or "" }
  end
  local ahead = redis.call("ZRANK", QUEUE, user)
  if not ahead then
    return false
  end
  redis.call("HSET", SEEN, user, now)
  return { "waiting", waiting, ahead, "" }
end

-- How many users may be admitted now: a token bucket that holds one second's worth. Also renews the expiry of the room.
function operations.due(per_s, now, ttl)
  for _, key in ipairs(KEYS) do
    redis.call("EXPIRE", key, ttl)
  end
  local before = redis.call("HMGET", ROOM, "credit", "credited_at")
  local since = before[2] and math.max(0, tonumber(now) - tonumber(before[2])) or 0
  local credit = math.min(tonumber(before[1] or 0) + since * tonumber(per_s), tonumber(per_s) * 1000)
  redis.call("HSET", ROOM, "credit", credit, "credited_at", now)
  return math.floor(credit / 1000)
end

-- The first user seen since `gone_before`, "" if there is none; then the users before that one, who lost their place.
function operations.next(gone_before)
  local gone = {}
  while #gone < MAX_REMOVED do
    local user = redis.call("ZRANGE", QUEUE, 0, 0)[1]
    if not user then
      return { "", unpack(gone) }
    end
    if tonumber(redis.call("HGET", SEEN, user) or 0) >= tonumber(gone_before) then
      return { user, unpack(gone) }
    end
    redis.call("ZREM", QUEUE, user)
    redis.call("HDEL", SEEN, user)
    gone[#gone + 1] = user
  end
  return { "", unpack(gone) }
end

-- Admits a user who waits; 0 if the user does not wait any more.
function operations.admit(user, ends, pass)
  if redis.call("ZREM", QUEUE, user) == 0 then
    return 0
  end
  redis.call("HINCRBY", ROOM, "credit", -1000)
  redis.call("ZADD", ADMITTED, ends, user)
  redis.call("HSET", PASSES, user, pass)
  return 1
end

-- Restores a user who was admitted before; the pass is empty if it is not known.
function operations.readmit(user, ends, pass)
  redis.call("ZREM", QUEUE, user)
  redis.call("ZADD", ADMITTED, ends, user)
  if pass ~= "" then
    redis.call("HSET", PASSES, user, pass)
  end
  return redis.status_reply("OK")
end

function operations.waiting()
  return redis.call("ZCARD", QUEUE)
end

-- Removes and returns admitted users whose pass has expired.
function operations.sweep(now)
  local gone = redis.call("ZRANGEBYSCORE", ADMITTED, "-inf", now, "LIMIT", 0, MAX_REMOVED)
  for _, user in ipairs(gone) do
    redis.call("ZREM", ADMITTED, user)
    redis.call("HDEL", PASSES, user)
    redis.call("HDEL", SEEN, user)
  end
  return gone
end

function operations.is_loaded()
  return redis.call("HEXISTS", ROOM, "loaded")
end

function operations.set_loaded()
  redis.call("HSET", ROOM, "loaded", 1)
  return redis.status_reply("OK")
end

return operations[ARGV[1]](unpack(ARGV, 2))
