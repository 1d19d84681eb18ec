-- What the file of a definition says that has no effect, with the reasons.
ALTER TABLE definitions ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
