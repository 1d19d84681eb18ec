-- A send touches as few pages as it can.

-- Counters of mailboxes are kept in memory and counted from the queue when a box is first asked
-- for: a page less for each send, and nothing that could say something else than the queue.
-- Messages that came in lately have no place in the queue yet; `placed` in meta is the id up to
-- which all have one. So far every message has one.
ALTER TABLE parties DROP COLUMN live;
ALTER TABLE parties DROP COLUMN live_bytes;
ALTER TABLE parties DROP COLUMN dead;
ALTER TABLE parties DROP COLUMN dead_bytes;
ALTER TABLE parties DROP COLUMN done;
ALTER TABLE parties DROP COLUMN done_bytes;
INSERT INTO meta
SELECT 'placed', CAST(last AS TEXT) FROM (SELECT MAX(id) AS last FROM messages)
WHERE last IS NOT NULL;

-- Which messages belong to a thread that is not their own: a table beside the messages, because an
-- index on them is looked at for each message, also for the many that are in none.
CREATE TABLE threads (
    thread TEXT NOT NULL,
    message INTEGER NOT NULL,
    sender INTEGER NOT NULL,
    recipient INTEGER NOT NULL,
    PRIMARY KEY (thread, message)
) STRICT, WITHOUT ROWID;
INSERT INTO threads SELECT thread, id, sender, recipient FROM messages WHERE thread IS NOT NULL;
DROP INDEX messages_thread;
