-- A waiting room shared by all nodes. Every operation is atomic.
--
-- KEYS  1 queue     sorted set: who waits. Early ones by their rank, later ones behind them in the order of arrival
--       2 seen      hash: when each was last seen
--       3 admitted  sorted set: who was let in, by when their pass ends
--       4 passes    hash: their passes
--       5 room      hash: arrivals, credit (in thousandths), credited_at; "loaded" once all places are there
-- ARGV  1 operation, then its own.

local QUEUE, SEEN, ADMITTED, PASSES, ROOM = unpack(KEYS)
local LATE = 4503599627370496
local AT_ONCE = 1000

local operations = {}

-- A rank below LATE for the early; without one, whoever comes is last.
function operations.join(user, rank, now)
  redis.call("HSET", SEEN, user, now)
  if redis.call("ZSCORE", ADMITTED, user) or redis.call("ZSCORE", QUEUE, user) then
    return 0
  end
  local score = rank ~= "" and rank or LATE + redis.call("HINCRBY", ROOM, "arrivals", 1)
  redis.call("ZADD", QUEUE, score, user)
  return 1
end

-- Where somebody stands, and that they are still there.
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

-- How many may be let in now at this rate; what is not used is saved up, for one second's worth. A room nobody is let in
-- from any more is forgotten after a while.
function operations.due(per_s, now, life)
  for _, key in ipairs(KEYS) do
    redis.call("EXPIRE", key, life)
  end
  local before = redis.call("HMGET", ROOM, "credit", "credited_at")
  local since = before[2] and math.max(0, tonumber(now) - tonumber(before[2])) or 0
  local credit = math.min(tonumber(before[1] or 0) + since * tonumber(per_s), tonumber(per_s) * 1000)
  redis.call("HSET", ROOM, "credit", credit, "credited_at", now)
  return math.floor(credit / 1000)
end

-- The next who is still there, "" if nobody is, then those who lost their place because they were not.
function operations.next(gone_before)
  local gone = {}
  while #gone < AT_ONCE do
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

-- Lets somebody in who waits; 0 if they do not any more.
function operations.admit(user, ends, pass)
  if redis.call("ZREM", QUEUE, user) == 0 then
    return 0
  end
  redis.call("HINCRBY", ROOM, "credit", -1000)
  redis.call("ZADD", ADMITTED, ends, user)
  redis.call("HSET", PASSES, user, pass)
  return 1
end

-- Somebody was let in before; their pass is not known any more, or it is this one.
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

-- Those whose pass has ended lose their place.
function operations.sweep(now)
  local gone = redis.call("ZRANGEBYSCORE", ADMITTED, "-inf", now, "LIMIT", 0, AT_ONCE)
  for _, user in ipairs(gone) do
    redis.call("ZREM", ADMITTED, user)
    redis.call("HDEL", PASSES, user)
    redis.call("HDEL", SEEN, user)
  end
  return gone
end

function operations.loaded()
  return redis.call("HEXISTS", ROOM, "loaded")
end

function operations.load()
  redis.call("HSET", ROOM, "loaded", 1)
  return redis.status_reply("OK")
end

return operations[ARGV[1]](unpack(ARGV, 2))
