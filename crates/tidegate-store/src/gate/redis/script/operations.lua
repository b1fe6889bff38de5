-- What else the gate is asked: passes, what is recorded, the stock log, doors, transfers, figures.

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
