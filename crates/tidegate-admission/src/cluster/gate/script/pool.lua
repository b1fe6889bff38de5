-- Reading and writing the pool and the buyer records.

-- The pool's fields, or nil if no pool is installed.
local function pool()
  local values =
    redis.call("HMGET", POOL, "epoch", "version", "door", "top", "next", "applied", "shards", "queued", "moving",
      "rated")
  if not values[1] then
    return nil
  end
  local read = { epoch = tonumber(values[1]), version = tonumber(values[2]), state = values[3] }
  read.top, read.next, read.applied = tonumber(values[4]), tonumber(values[5]), tonumber(values[6])
  read.shards, read.queued, read.in_transit = tonumber(values[7]), tonumber(values[8]), tonumber(values[9])
  read.rate_second = values[10]
  read.returned = redis.call("ZCARD", RETURNED)
  return read
end

-- The number of this shard's slots that were never taken.
local function untouched(p)
  return p.next > p.top and 0 or math.floor((p.top - p.next) / p.shards) + 1
end

local function free(p)
  return untouched(p) + p.returned
end

local function write(p)
  redis.call("HSET", POOL, "version", p.version, "door", p.state, "top", p.top, "next", p.next, "applied", p.applied,
    "queued", p.queued, "moving", p.in_transit)
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

-- The units at the start of a buyer record.
local function units_in(record)
  return tonumber(record:match("^%d+"))
end

-- Whether an entry is still in the stream. Redis has no command that tells this without reading the entry, so QUEUED is
-- asked instead; the answers are cached for the duration of the call.
local entry_exists = {}
local function is_in_stream(entry)
  if entry_exists[entry] == nil then
    entry_exists[entry] = redis.call("HEXISTS", QUEUED, entry) == 1
  end
  return entry_exists[entry]
end

-- The current second by the server's clock; read once per call.
local second
local function this_second()
  second = second or tonumber(redis.call("TIME")[1])
  return second
end

-- Whether an entry id was created in the current second. An id from the future (the clock was set back) counts as such.
local function is_from_this_second(entry)
  return tonumber(entry:match("^%d+")) >= this_second() * 1000
end

-- Whether the buyer's claim with this idempotency key is on its way to the ledger.
local function has_in_flight(record, key)
  if record:find(key, 1, true) then
    for entry, known in record:gmatch(" (%d+%-%d+)[ +](%S+)") do
      if known == key and is_in_stream(entry) then
        return true
      end
    end
  end
  return false
end

-- How many rate-limited claims the buyer was granted in the current second. Rejected attempts are counted in RATES.
local function granted_this_second(record)
  local count = 0
  for entry in record:gmatch(" (%d+%-%d+) ") do
    count = count + (is_from_this_second(entry) and 1 or 0)
  end
  return count
end

-- The buyer's claims without those already recorded. Claims of the current second stay, for the rate limit.
local function unrecorded_in(record)
  local kept = ""
  for claim, entry in record:gmatch("( (%d+%-%d+)[ +]%S+)") do
    if is_in_stream(entry) or is_from_this_second(entry) then
      kept = kept .. claim
    end
  end
  return kept
end

local function return_units(p, user, slots, prize)
  for _, slot in ipairs(slots) do
    -- After lost writes the log may return a slot that this copy of the pool never gave out: it is free already.
    local never_taken = slot >= p.next and (slot - p.next) % p.shards == 0
    if not never_taken then
      p.returned = p.returned + redis.call("ZADD", RETURNED, slot, slot)
    end
  end
  local record = redis.call("HGET", USERS, user) or "0"
  local units = math.max(0, units_in(record) - #slots)
  redis.call("HSET", USERS, user, string.format("%d", units) .. unrecorded_in(record))
  redis.call("HINCRBY", POOL, "returned", #slots)
  if prize > 0 and redis.call("HEXISTS", POOL, "left:" .. prize) == 1 then
    redis.call("HINCRBY", POOL, "left:" .. prize, 1)
  end
end

-- The numbers in a comma-separated list.
local function split(list)
  local numbers = {}
  for word in list:gmatch("%d+") do
    numbers[#numbers + 1] = tonumber(word)
  end
  return numbers
end

-- The user's outstanding pass: its number and when it expires.
local function pass_of(user)
  local number, expires = (redis.call("HGET", PASSES, user) or ""):match("^(%d+) (%-?%d+)$")
  return number, tonumber(expires)
end
