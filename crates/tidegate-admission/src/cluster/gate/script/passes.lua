-- Issuing passes.

-- Issues a pass, or returns the one the user has: { "", epoch, number, expires }; { code } if it is refused. At most
-- `factor` times `stock` passes, plus one for each returned unit, are outstanding or spent.
function operations.issue_pass(user, factor, stock, limit, now, expires)
  local p, record = pool(), redis.call("HGET", USERS, user)
  now = tonumber(now)
  if not p then
    return { "not_ready" }
  elseif p.state ~= "open" and p.state ~= "paused" then
    return { "ended" }
  elseif free(p) == 0 then
    return { "sold_out" }
  elseif record and units_in(record) >= tonumber(limit) then
    return { "limit_reached" }
  end
  -- Delete expired passes, oldest first; bounded, the next call deletes more.
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
