"""Operations on mail, queues, pipes and topics."""
