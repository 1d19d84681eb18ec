-- A send writes to as few pages as possible.

-- Counters of inboxes are kept in memory and computed from the queue when an inbox is first used:
-- that saves a page for each send, and the counters cannot differ from the queue. Recent messages
-- have no place in the queue yet; up to the id `placed` in meta, all have one. So far every message
-- has one.
ALTER TABLE parties DROP COLUMN live;
ALTER TABLE parties DROP COLUMN live_bytes;
ALTER TABLE parties DROP COLUMN dead;
ALTER TABLE parties DROP COLUMN dead_bytes;
ALTER TABLE parties DROP COLUMN done;
ALTER TABLE parties DROP COLUMN done_bytes;
INSERT INTO meta
SELECT 'placed', CAST(last AS TEXT) FROM (SELECT MAX(id) AS last FROM messages)
WHERE last IS NOT NULL;

-- Messages in a thread that they did not start. It is a table beside the messages, because an index
-- on messages would be updated for each message, including the many without a thread.
CREATE TABLE threads (
    thread TEXT NOT NULL,
    message INTEGER NOT NULL,
    sender INTEGER NOT NULL,
    recipient INTEGER NOT NULL,
    PRIMARY KEY (thread, message)
) STRICT, WITHOUT ROWID;
INSERT INTO threads SELECT thread, id, sender, recipient FROM messages WHERE thread IS NOT NULL;
DROP INDEX messages_thread;
