#!/usr/bin/python3
"""An agent that answers every message with its text, and every task with the text of the task."""

import hive_agent

hive = hive_agent.AgentClient()
while True:
    message = hive.recv()
    if not message.task:
        hive.reply(message, message.body)
    elif task := hive.begin(message):
        hive.report(task, task.text)
