"""Operations on the phases of a queen and on her colony."""
