"""Rows of artifacts; the bytes are files beside the ledger."""
