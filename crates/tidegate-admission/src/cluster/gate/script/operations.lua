-- The other operations: recorded claims, the stock log, the gate's state, figures. Also the dispatch of the script.

-- Deletes entries that the ledger has, each once. Three arguments per entry: id, epoch, units. Returns the number of
-- claims left. The buyer records keep these entry ids until their next write; `is_in_stream` tells that they are gone.
function operations.delete_recorded(group, ...)
  local p, entries, claims = pool(), { ... }, 0
  for at = 1, #entries, 3 do
    local entry, epoch, units = unpack(entries, at, at + 2)
    redis.call("XACK", INTAKE, group, entry)
    if redis.call("XDEL", INTAKE, entry) == 1 and p and p.epoch == tonumber(epoch) then
      p.queued = p.queued - tonumber(units)
    end
    -- Entries of an earlier epoch are not in QUEUED, which a reseed clears.
    claims = claims + tonumber(redis.call("HGET", QUEUED, entry) or 0)
    redis.call("HDEL", QUEUED, entry)
  end
  if p then
    redis.call("HSET", POOL, "queued", p.queued)
  end
  if claims > 0 then
    redis.call("HINCRBY", QUEUED, "claims", -claims)
  end
  return operations.unrecorded_claims()
end

-- Appends a claim that was not granted by this script: the encoding is that of one entry. Returns the number of
-- unrecorded claims.
function operations.append(epoch, version_before, user, key, grant, claim)
  local entry, count = append(epoch, version_before, grant, claim, 1)
  local record = redis.call("HGET", USERS, user) or "0"
  redis.call("HSET", USERS, user, record .. " " .. entry .. "+" .. key)
  return count
end

function operations.unrecorded_claims()
  return tonumber(redis.call("HGET", QUEUED, "claims") or 0)
end

-- Whether a claim of this user with this key is on its way to the ledger.
function operations.in_flight(user, key)
  local record = redis.call("HGET", USERS, user)
  return record and has_in_flight(record, key) and 1 or 0
end

-- The stream entry with an unrecorded claim of this user whose encoding starts with `prefix`; an empty list if none.
function operations.find_queued(user, prefix)
  local read = {}
  for entry in (redis.call("HGET", USERS, user) or ""):gmatch(" (%d+%-%d+)[ +]") do
    if not read[entry] and is_in_stream(entry) then
      read[entry] = true
      local entries = redis.call("XRANGE", INTAKE, entry, entry)
      if entries[1] and (entries[1][2][8] or ""):find(prefix, 1, true) then
        return entries
      end
    end
  end
  return {}
end

-- Applies stock log entries in order, six arguments each: seq kind top user slots prize. Entries already applied are
-- skipped; a gap ends the batch. Returns the last entry applied.
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
        return_units(p, user, split(slots), tonumber(prize))
      elseif kind == "withdraw" then
        -- A later withdrawal that is not recorded yet may have lowered the top further.
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

-- Takes up to `units` free units out of sale, the highest slots first. `caller` numbers its withdrawals upwards; one
-- that arrives after a later one, or after it was put back, takes nothing. Returns { top, units, slots }.
function operations.withdraw(caller, number, epoch, units)
  local p = pool()
  if not p or p.epoch ~= tonumber(epoch)
    or tonumber(number) <= tonumber(redis.call("HGET", POOL, "withdrawal:" .. caller) or -1) then
    return false
  end
  units = tonumber(units)
  local top_before, cut, slots = p.top, 0, {}
  if p.shards == 1 then
    cut = math.min(units, untouched(p))
    p.top = p.top - cut
  end
  while cut + #slots < units and p.returned > 0 do
    slots[#slots + 1] = redis.call("ZPOPMAX", RETURNED)[1]
    p.returned = p.returned - 1
  end
  -- The top is common to all shards, so a shard cannot lower it: its untouched slots are withdrawn one by one.
  while cut + #slots < units and free(p) > 0 do
    slots[#slots + 1] = take_lowest(p)
  end
  p.version = p.version + 1
  write(p)
  local list = table.concat(slots, ",")
  redis.call("HSET", POOL, "withdrawal:" .. caller, number, "withdrawn:" .. caller, top_before .. " " .. list)
  return { p.top, cut + #slots, list }
end

-- Undoes what this shard gave to the caller's withdrawal of this number, once, and refuses it from now on. The top
-- never falls below what it was before, whatever was restocked meanwhile.
function operations.put_back(caller, number, epoch)
  local p = pool()
  if not p or p.epoch ~= tonumber(epoch) then
    return OK
  end
  local last, withdrawn = unpack(redis.call("HMGET", POOL, "withdrawal:" .. caller, "withdrawn:" .. caller))
  if tonumber(number) < tonumber(last or -1) then
    return OK
  end
  redis.call("HSET", POOL, "withdrawal:" .. caller, number)
  if last == number and withdrawn then
    local top, slots = withdrawn:match("^(%d+) (.*)$")
    p.top = math.max(p.top, tonumber(top))
    for _, slot in ipairs(split(slots)) do
      redis.call("ZADD", RETURNED, slot, slot)
    end
    p.version = p.version + 1
    write(p)
    redis.call("HDEL", POOL, "withdrawn:" .. caller)
  end
  return OK
end

-- Sets the gate's state as of a moment; a state older than the current one is ignored.
function operations.set_state(state, as_of)
  local p = pool()
  if p and tonumber(as_of) >= tonumber(redis.call("HGET", POOL, "door_at") or 0) then
    redis.call("HSET", POOL, "door_at", as_of)
    p.state, p.version = state, p.version + 1
    write(p)
    for _, key in ipairs(KEYS) do
      -- The intake never expires: the ledger may not have its claims yet.
      if state == "closed" and key ~= INTAKE then
        redis.call("EXPIRE", key, CLOSED_TTL_S)
      else
        redis.call("PERSIST", key)
      end
    end
  end
  return OK
end

-- { epoch, version, free, applied, outgoing transfers, queued units, units in transit, state, arrived transfers }
function operations.figures()
  local p = pool()
  if not p then
    return p
  end
  return {
    p.epoch, p.version, free(p), p.applied, redis.call("HLEN", OUTGOING), p.queued, p.in_transit, p.state,
    redis.call("SCARD", ARRIVED),
  }
end

-- The slots that can be sold here or are on their way to another shard: { epoch, applied, next, top, shards, list }.
-- The slots from `next` to `top`, in steps of `shards`, are not in the list.
function operations.unsold_slots()
  local p = pool()
  if not p then
    return p
  end
  local slots = redis.call("ZRANGE", RETURNED, 0, -1)
  for _, transfer in ipairs(redis.call("HVALS", OUTGOING)) do
    slots[#slots + 1] = transfer:match("^%d+ %d+ (.*)$")
  end
  return { p.epoch, p.applied, p.next, p.top, p.shards, table.concat(slots, ",") }
end

-- The stock left of each of a draw's prizes.
function operations.prizes_left()
  local left = {}
  for i = 1, tonumber(redis.call("HGET", POOL, "prizes") or 0) do
    left[i] = tonumber(redis.call("HGET", POOL, "left:" .. i))
  end
  return left
end

function operations.shard_count()
  return tonumber(redis.call("HGET", POOL, "shards") or nil)
end

function operations.units_of(user)
  local record = redis.call("HGET", USERS, user)
  return record and units_in(record)
end

return operations[ARGV[1]](unpack(ARGV, 2))
