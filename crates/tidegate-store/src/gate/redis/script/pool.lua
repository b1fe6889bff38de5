-- The pool, and what is known of buyers.

local function pool()
  local values =
    redis.call("HMGET", POOL, "epoch", "version", "door", "top", "next", "applied", "shards", "queued", "moving",
      "rated")
  if not values[1] then
    return nil
  end
  local read = { epoch = tonumber(values[1]), version = tonumber(values[2]), door = values[3] }
  read.top, read.next, read.applied = tonumber(values[4]), tonumber(values[5]), tonumber(values[6])
  read.shards, read.queued, read.moving = tonumber(values[7]), tonumber(values[8]), tonumber(values[9])
  read.rated = values[10]
  read.returned = redis.call("ZCARD", RETURNED)
  return read
end

-- Slots of this shard that were never taken.
local function fresh(p)
  return p.next > p.top and 0 or math.floor((p.top - p.next) / p.shards) + 1
end

local function free(p)
  return fresh(p) + p.returned
end

local function write(p)
  redis.call("HSET", POOL, "version", p.version, "door", p.door, "top", p.top, "next", p.next, "applied", p.applied,
    "queued", p.queued, "moving", p.moving)
end

local function take_lowest(p)
  if p.returned > 0 then
    p.returned = p.returned - 1
    return tonumber(redis.call("ZPOPMIN", RETURNED)[1])
  end
  local slot = p.next
  p.next = slot + p.shards
  return slot
end

-- What is known of a buyer, a line of USERS: the units, and whatever follows them.
local function units_in(line)
  return tonumber(line:match("^%d+"))
end

-- Whether an entry is still in the stream. No command tells that of a stream without reading the entry.
local there = {}
local function is_there(place)
  if there[place] == nil then
    there[place] = redis.call("HEXISTS", QUEUED, place) == 1
  end
  return there[place]
end

-- This second, the server's; read once a call.
local second
local function this_second()
  second = second or tonumber(redis.call("TIME")[1])
  return second
end

-- Whether a place is of this second. One that is of a later one, because the clock was set back, counts as such.
local function is_of_now(place)
  return tonumber(place:match("^%d+")) >= this_second() * 1000
end

-- Whether a buyer's claim with this key is on its way to the ledger.
local function has_in_flight(line, key)
  if line:find(key, 1, true) then
    for place, known in line:gmatch(" (%d+%-%d+)[ +](%S+)") do
      if known == key and is_there(place) then
        return true
      end
    end
  end
  return false
end

-- How often a buyer was granted something in this second, but for what rates has counted.
local function granted_now(line)
  local count = 0
  for place in line:gmatch(" (%d+%-%d+) ") do
    count = count + (is_of_now(place) and 1 or 0)
  end
  return count
end

-- A buyer's claims without those that are recorded. Those of this second stay: they are counted.
local function still_needed(line)
  local kept = ""
  for claim, place in line:gmatch("( (%d+%-%d+)[ +]%S+)") do
    if is_there(place) or is_of_now(place) then
      kept = kept .. claim
    end
  end
  return kept
end

local function give_back(p, user, slots, prize)
  for _, slot in ipairs(slots) do
    -- After lost writes a slot may come back that this copy never gave: it is free here already.
    local never_taken = slot >= p.next and (slot - p.next) % p.shards == 0
    if not never_taken then
      p.returned = p.returned + redis.call("ZADD", RETURNED, slot, slot)
    end
  end
  local line = redis.call("HGET", USERS, user) or "0"
  redis.call("HSET", USERS, user, string.format("%d", math.max(0, units_in(line) - #slots)) .. still_needed(line))
  redis.call("HINCRBY", POOL, "returned", #slots)
  if prize > 0 and redis.call("HEXISTS", POOL, "left:" .. prize) == 1 then
    redis.call("HINCRBY", POOL, "left:" .. prize, 1)
  end
end

local function split(list)
  local numbers = {}
  for word in list:gmatch("%d+") do
    numbers[#numbers + 1] = tonumber(word)
  end
  return numbers
end

-- The user's outstanding pass.
local function pass_of(user)
  local number, expires = (redis.call("HGET", PASSES, user) or ""):match("^(%d+) (%-?%d+)$")
  return number, tonumber(expires)
end
