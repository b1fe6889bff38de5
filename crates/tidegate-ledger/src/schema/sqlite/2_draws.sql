-- Draws (campaigns whose slots are seats) with their prizes, plays and deliveries; and webhooks.

-- A campaign is a sale or a draw: columns that only a sale has become optional. SQLite needs a new table for that.
DROP TRIGGER held_slot_exists;
CREATE TABLE new_campaign (
    id             INTEGER PRIMARY KEY,
    kind           TEXT NOT NULL,
    item           INTEGER REFERENCES item (id),
    price          INTEGER CHECK (price >= 0),
    currency       TEXT,
    stock          INTEGER NOT NULL CHECK (stock >= 0),
    top            INTEGER NOT NULL CHECK (top >= stock),
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL CHECK (ends_at > starts_at),
    per_user_limit INTEGER NOT NULL CHECK (per_user_limit > 0),
    pay_within_s   INTEGER CHECK (pay_within_s > 0),
    shards         INTEGER NOT NULL,
    protect        TEXT NOT NULL,
    state          TEXT NOT NULL,
    epoch          INTEGER NOT NULL,
    opened         INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    -- Units by state: the dashboard reads these columns, the audit recounts them. A played seat counts as paid.
    awaiting       INTEGER NOT NULL DEFAULT 0 CHECK (awaiting >= 0),
    paid           INTEGER NOT NULL DEFAULT 0 CHECK (paid >= 0),
    returned       INTEGER NOT NULL DEFAULT 0,
    -- At every commit: no more active units than stock.
    CHECK (awaiting + paid <= stock),
    CHECK ((kind = 'sale') = (item IS NOT NULL AND price IS NOT NULL AND currency IS NOT NULL
                              AND pay_within_s IS NOT NULL))
) STRICT;
INSERT INTO new_campaign
SELECT id, 'sale', item, price, currency, stock, top, starts_at, ends_at, per_user_limit, pay_within_s, shards, protect,
       state, epoch, opened, created_at, updated_at, awaiting, paid, returned
FROM campaign;
DROP TABLE campaign;
ALTER TABLE new_campaign RENAME TO campaign;
CREATE INDEX campaign_running ON campaign (ends_at) WHERE state IN ('live', 'paused');
CREATE TRIGGER held_slot_exists BEFORE INSERT ON held
WHEN NEW.slot > (SELECT top FROM campaign WHERE id = NEW.campaign)
BEGIN
    SELECT RAISE(ABORT, 'the slot does not exist');
END;

-- A rejected play returns its prize together with its seat.
ALTER TABLE stock_log ADD COLUMN prize INTEGER;

-- Draws: the columns of a campaign that only draws have.
CREATE TABLE draw (
    campaign INTEGER PRIMARY KEY REFERENCES campaign (id),
    name     TEXT NOT NULL,
    strategy TEXT NOT NULL,
    seed     BLOB NOT NULL CHECK (length(seed) = 32),
    -- Length and hash of the history: committed with the plays.
    plays    INTEGER NOT NULL DEFAULT 0,
    hash     BLOB NOT NULL CHECK (length(hash) = 32),
    -- Whether all prizes that waited for the close are released; plays recorded after it do not wait.
    released INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX draw_unreleased ON draw (campaign) WHERE released = 0;

-- Prizes of a draw, numbered from 1.
CREATE TABLE prize (
    campaign    INTEGER NOT NULL REFERENCES draw (campaign),
    number      INTEGER NOT NULL CHECK (number > 0),
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    odds        INTEGER NOT NULL CHECK (odds >= 0),
    stock       INTEGER NOT NULL CHECK (stock > 0),
    granted     TEXT NOT NULL,
    content     TEXT NOT NULL,
    -- At every commit: no more winners than units of the prize.
    taken       INTEGER NOT NULL DEFAULT 0 CHECK (taken BETWEEN 0 AND stock),
    codes_given INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (campaign, number)
) STRICT, WITHOUT ROWID;

-- Codes of a prize: the n-th delivery gets the n-th code; a code is given once.
CREATE TABLE prize_code (
    campaign INTEGER NOT NULL,
    prize    INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    code     TEXT NOT NULL,
    play     INTEGER UNIQUE,
    PRIMARY KEY (campaign, prize, number),
    UNIQUE (campaign, prize, code),
    FOREIGN KEY (campaign, prize) REFERENCES prize (campaign, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Plays: one per claim, one per number in the history, at most one per buyer and idempotency key.
CREATE TABLE play (
    id          INTEGER PRIMARY KEY,
    campaign    INTEGER NOT NULL REFERENCES campaign (id),
    user        INTEGER NOT NULL,
    seat        INTEGER NOT NULL,
    client_seed TEXT NOT NULL,
    prize       INTEGER,
    state       TEXT NOT NULL,
    reason      TEXT,
    -- Number in the history and the hash after it; NULL for a rejected play.
    number      INTEGER,
    hash        BLOB,
    key         BLOB,
    created_at  INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL
) STRICT;
CREATE INDEX play_of_campaign ON play (campaign, id);
CREATE INDEX play_of_user ON play (user, id);
CREATE UNIQUE INDEX play_in_history ON play (campaign, number) WHERE number IS NOT NULL;
CREATE UNIQUE INDEX play_by_key ON play (user, key) WHERE key IS NOT NULL;

-- Receivers of events. Secrets are stored in plain text: they sign.
CREATE TABLE webhook (
    id         INTEGER PRIMARY KEY,
    url        TEXT NOT NULL,
    events     TEXT NOT NULL,
    secret     BLOB NOT NULL,
    -- The secret before the last rotation, and the time until which it still signs.
    old_secret BLOB,
    old_until  INTEGER,
    -- The reason, if it is disabled.
    disabled   TEXT,
    -- Only events after this one are sent.
    after      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- The fan-out position in the outbox: committed with the deliveries, so that none is created twice.
CREATE TABLE fanned_out (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    event INTEGER NOT NULL
) STRICT;
INSERT INTO fanned_out SELECT 1, coalesce(max(id), 0) FROM outbox;

-- Deliveries of prizes and events. A prize's is inserted with its play, so that every win has exactly one.
CREATE TABLE delivery (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Receiver: 0 is this program, 1 the merchant, any other value a webhook's id.
    target     INTEGER NOT NULL,
    -- Deliveries of one target and lane are sent in order.
    lane       INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    campaign   INTEGER,
    play       INTEGER UNIQUE REFERENCES play (id),
    event      INTEGER REFERENCES outbox (id),
    state      TEXT NOT NULL,
    waits_for  TEXT,
    tries      INTEGER NOT NULL DEFAULT 0,
    due_at     INTEGER NOT NULL,
    -- Time of the first possible attempt; the deadline for giving up counts from here.
    open_since INTEGER NOT NULL,
    error      TEXT,
    content    TEXT,
    address    TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK ((play IS NULL) <> (event IS NULL))
) STRICT;
CREATE UNIQUE INDEX delivery_of_event ON delivery (target, event) WHERE event IS NOT NULL;
CREATE INDEX delivery_due ON delivery (target, due_at) WHERE state IN ('new', 'failed');
CREATE INDEX delivery_lane ON delivery (target, lane, id) WHERE state IN ('new', 'failed');
CREATE INDEX delivery_by_state ON delivery (state, id);
CREATE INDEX delivery_waiting ON delivery (campaign) WHERE state = 'waiting' AND waits_for = 'close';
CREATE INDEX delivery_of_campaign ON delivery (campaign, state) WHERE campaign IS NOT NULL;
-- Finished deliveries, which are deleted after a while.
CREATE INDEX delivery_over ON delivery (updated_at) WHERE state IN ('delivered', 'dead') AND event IS NOT NULL;
