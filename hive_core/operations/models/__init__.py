"""Operations of hive-model: it reserves, notes and settles every call of a model."""
