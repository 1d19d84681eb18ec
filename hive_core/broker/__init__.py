"""The request road: registry of operations, dispatch, batches and streams."""
