-- Claims that are recorded late, or that the gate decided twice.

-- Claims that the gate granted twice, by the epoch and version of the second grant. Its slots went back on sale in the
-- transaction that inserted the row, so that they go back once however often the grant is recorded.
CREATE TABLE second_grant (
    claim   BIGINT NOT NULL,
    epoch   BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (claim, epoch, version)
);

-- Whether every claim on a closed campaign is recorded: until then its streams are read, however long ago it closed.
ALTER TABLE campaign ADD COLUMN drained BIGINT NOT NULL DEFAULT 0;
CREATE INDEX campaign_undrained ON campaign (id) WHERE state = 'closed' AND drained = 0;

-- A held slot exists: checked once per statement, since recording inserts thousands of rows at a time.
CREATE FUNCTION held_slots_exist() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM inserted LEFT JOIN campaign ON campaign.id = inserted.campaign
               WHERE campaign.top IS NULL OR inserted.slot > campaign.top) THEN
        RAISE EXCEPTION 'a slot is held that does not exist' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER held_slots_exist AFTER INSERT ON held
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION held_slots_exist();
