"""Operations of hive-egress: it asks about every connection of an agent, and reports it."""
