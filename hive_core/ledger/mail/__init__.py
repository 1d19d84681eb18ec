"""Rows of messages, mailboxes, queues, pipes and subscriptions."""
