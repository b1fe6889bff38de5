-- Transfers of free slots between shards: leave, arrive, acknowledge. Any node can repeat any step.

-- Takes up to `most` free slots out of this shard and keeps them in OUTGOING until they are acknowledged. `caller`
-- numbers its transfers upwards; together they are the transfer's id. Returns the transfer, "epoch target slots"; "" if
-- nothing leaves: nothing is free, or the call arrives after its caller has given it up, when the same transfer may
-- already have arrived and been forgotten here.
function operations.leave(caller, number, epoch, target, most)
  local p = pool()
  if not p then
    return false
  end
  local id = caller .. "-" .. number
  if redis.call("HEXISTS", OUTGOING, id) == 1 then
    return redis.call("HGET", OUTGOING, id)
  end
  local last = tonumber(redis.call("HGET", POOL, "transfer:" .. caller) or -1)
  if p.epoch ~= tonumber(epoch) or tonumber(number) <= last then
    return ""
  end
  redis.call("HSET", POOL, "transfer:" .. caller, number)
  local slots = {}
  while #slots < tonumber(most) and free(p) > 0 do
    slots[#slots + 1] = take_lowest(p)
  end
  if #slots == 0 then
    return ""
  end
  local transfer = p.epoch .. " " .. target .. " " .. table.concat(slots, ",")
  redis.call("HSET", OUTGOING, id, transfer)
  p.version, p.in_transit = p.version + 1, p.in_transit + #slots
  write(p)
  return transfer
end

-- Adds a transfer's slots to this shard, once. Returns 1 if they are here now, 0 if this shard has another epoch.
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

-- The transfer has arrived: its slots are no longer in transit.
function operations.acknowledge(id)
  local p, transfer = pool(), redis.call("HGET", OUTGOING, id)
  if p and transfer then
    p.in_transit = p.in_transit - #split(transfer:match("^%d+ %d+ (.*)$"))
    write(p)
  end
  return redis.call("HDEL", OUTGOING, id)
end

-- All transfers that are not acknowledged: id, transfer, …
function operations.outgoing()
  return redis.call("HGETALL", OUTGOING)
end
