"""The server of the embedded model: the chat interface of OpenAI over a Unix socket.

It runs in an environment of its own, as a user of its own, without a network.
"""
