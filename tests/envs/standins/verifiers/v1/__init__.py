"""The shape of what the host asks of `verifiers` 0.4. Not the package."""

from types import SimpleNamespace


class Trace(SimpleNamespace):
    def __init__(self, **fields):
        super().__init__(nodes=[], rewards={}, **fields)

    def record_reward(self, name, value, weight=1.0):
        self.rewards[name] = SimpleNamespace(score=value, weight=weight)


AgentConfig = AgentInfo = MessageNode = TraceTask = SimpleNamespace


class SystemMessage(SimpleNamespace):
    role = "system"


class UserMessage(SimpleNamespace):
    role = "user"


class AssistantMessage(SimpleNamespace):
    role = "assistant"
