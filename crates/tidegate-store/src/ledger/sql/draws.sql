-- Draws: campaigns whose slots are seats; their prizes, plays and deliveries; and webhooks.

-- A campaign is a sale or a draw; what only a sale has may be missing. SQLite changes a column by a new table.
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
    -- Units by what became of them: the dashboard reads these, the audit recounts them. A seat played counts as paid.
    awaiting       INTEGER NOT NULL DEFAULT 0 CHECK (awaiting >= 0),
    paid           INTEGER NOT NULL DEFAULT 0 CHECK (paid >= 0),
    returned       INTEGER NOT NULL DEFAULT 0,
    -- Never more active units than stock, at any commit.
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

-- A rejected play gives its prize back with its seat.
ALTER TABLE stock_log ADD COLUMN prize INTEGER;

CREATE TABLE draw (
    campaign INTEGER PRIMARY KEY REFERENCES campaign (id),
    name     TEXT NOT NULL,
    strategy TEXT NOT NULL,
    seed     BLOB NOT NULL CHECK (length(seed) = 32),
    -- How many plays the history has, and its hash: committed with the plays.
    plays    INTEGER NOT NULL DEFAULT 0,
    hash     BLOB NOT NULL CHECK (length(hash) = 32),
    -- Prizes that waited for the close were let go; plays recorded after it do not wait.
    released INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX draw_unreleased ON draw (campaign) WHERE released = 0;

CREATE TABLE prize (
    campaign    INTEGER NOT NULL REFERENCES draw (campaign),
    number      INTEGER NOT NULL CHECK (number > 0),
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    odds        INTEGER NOT NULL CHECK (odds >= 0),
    stock       INTEGER NOT NULL CHECK (stock > 0),
    granted     TEXT NOT NULL,
    content     TEXT NOT NULL,
    -- Never more winners than prizes, at any commit.
    taken       INTEGER NOT NULL DEFAULT 0 CHECK (taken BETWEEN 0 AND stock),
    codes_given INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (campaign, number)
) STRICT, WITHOUT ROWID;

-- The n-th winner to be served gets the n-th code; each is given once.
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

CREATE TABLE play (
    id          INTEGER PRIMARY KEY,
    campaign    INTEGER NOT NULL REFERENCES campaign (id),
    user        INTEGER NOT NULL,
    seat        INTEGER NOT NULL,
    client_seed TEXT NOT NULL,
    prize       INTEGER,
    state       TEXT NOT NULL,
    reason      TEXT,
    -- Its place in the history and the history's hash there; a rejected play has none.
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

-- Where events are sent. Secrets are kept as they are: they sign.
CREATE TABLE webhook (
    id         INTEGER PRIMARY KEY,
    url        TEXT NOT NULL,
    events     TEXT NOT NULL,
    secret     BLOB NOT NULL,
    -- The secret before the last rotation, and until when it still signs.
    old_secret BLOB,
    old_until  INTEGER,
    -- Why nothing is sent there any more.
    disabled   TEXT,
    -- Only events after this one are sent.
    after      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- How far the outbox is turned into deliveries: committed with them, so none is made twice.
CREATE TABLE fanned_out (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    event INTEGER NOT NULL
) STRICT;
INSERT INTO fanned_out SELECT 1, coalesce(max(id), 0) FROM outbox;

-- What has to reach somebody. A prize's is written with its play, so there is exactly one for every win.
CREATE TABLE delivery (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Who takes it: 0 this program itself, 1 the merchant, else the webhook of this id.
    target     INTEGER NOT NULL,
    -- Deliveries to one target in one lane go one after the other.
    lane       INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    campaign   INTEGER,
    play       INTEGER UNIQUE REFERENCES play (id),
    event      INTEGER REFERENCES outbox (id),
    state      TEXT NOT NULL,
    waits_for  TEXT,
    tries      INTEGER NOT NULL DEFAULT 0,
    due_at     INTEGER NOT NULL,
    -- Since when it can be tried: it is given up so long after this.
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
-- What is forgotten after a while.
CREATE INDEX delivery_over ON delivery (updated_at) WHERE state IN ('delivered', 'dead') AND event IS NOT NULL;
