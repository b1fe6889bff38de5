-- The gate's rules: the core's pool, as one script. Every operation is atomic; a rejection changes nothing.
--
-- A pool is split over shards, each a set of keys like these. Slot n belongs to shard (n - 1) mod shards until it is moved.
--
-- KEYS  1 pool      hash: epoch version door top next applied shards, units on their way (queued to the ledger, moving to
--                  another shard), passes (last spent returned), the second that rates are of, a draw's table; "building"
--                  instead of an epoch until it is all there
--       2 returned  sorted set: free slots below next
--       3 users     hash: by user, the units held, then " place key" of each claim that may not be recorded: its entry in the
--                  stream and its idempotency key, "-" for none. "place+key" where the attempt is counted in rates or not at all
--       4 passes    hash: the outstanding pass of each user, "number expires"
--       5 issued    sorted set: "number user" by number, the order of issue
--       6 intake    stream: claims on their way to the ledger
--       7 deck      string: a deck's prize behind every seat, one byte each
--       8 leaving   hash: slots on their way to another shard, "epoch target slots", by transfer
--       9 arrived   set: transfers that have arrived here
--      10 queued    hash: how many claims each entry of the stream has, by place; "claims" is all of them
--      11 rates     hash: how often each user has asked in this second without being granted anything
-- ARGV  1 operation, then its own. Users are strings: a Lua number has 53 bits.
--
-- What a claim costs here is mostly the bytes of the strings that are made for it: Lua hashes every one of them.

local POOL, RETURNED, USERS, PASSES, ISSUED, INTAKE, DECK, LEAVING, ARRIVED, QUEUED, RATES = unpack(KEYS)
local CLOSED_KEPT_S = 7 * 24 * 3600
local ODDS_TOTAL = 1000000000
