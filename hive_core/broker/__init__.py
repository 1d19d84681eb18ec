"""The request path: registry of operations, dispatch, batches and streams."""
