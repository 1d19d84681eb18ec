"""Operations on questions and escalations."""
