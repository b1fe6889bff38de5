-- The gate's rules: the core's pool as one script. Every operation is atomic, and a rejection changes nothing.
--
-- The Redis structures behind KEYS are described once, in ../script.rs, together with the operations and their replies.
-- ARGV[1] is the operation, the others are its arguments. User ids are strings: a Lua number holds 53 bits only.
--
-- Performance: a claim costs mostly the bytes of the strings made for it, because Lua hashes every string it creates.

local POOL, RETURNED, USERS, PASSES, ISSUED, INTAKE, DECK, OUTGOING, ARRIVED, QUEUED, RATES = unpack(KEYS)
-- A closed pool is kept this long, so that late requests are still answered with "ended".
local CLOSED_TTL_S = 7 * 24 * 3600
local ODDS_TOTAL = 1000000000
