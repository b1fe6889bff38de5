-- Claims that are recorded late, or that the gate decided twice.

-- Claims that the gate granted twice, by the epoch and version of the second grant. Its slots went back on sale in the
-- transaction that inserted the row, so that they go back once however often the grant is recorded.
CREATE TABLE second_grant (
    claim   INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (claim, epoch, version)
);

-- Whether every claim on a closed campaign is recorded: until then its streams are read, however long ago it closed.
ALTER TABLE campaign ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;
CREATE INDEX campaign_undrained ON campaign (id) WHERE state = 'closed' AND drained = 0;
