"""Two environments: `sums`, of one turn, scored by its task, and `echo`, whose control flow takes two."""

from types import SimpleNamespace


class Sum:
    def __init__(self, number):
        text = f"What is {number} + {number}?"
        self.data = SimpleNamespace(prompt_text=text, system_prompt="Only the number.", answer=str(2 * number))

    async def score(self, trace):
        trace.record_reward("right", float(trace.nodes[-1].message.content == self.data.answer))
        trace.record_reward("short", 0.5, weight=0.0)


class Env:
    def __init__(self):
        self.taskset = [Sum(number) for number in range(40)]

    async def run(self, task, agents):
        await agents.agent.run(task)


class Echo(Env):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as interaction:
            first = await interaction.turn()
            await interaction.turn(f"You said {first.last_reply}.")


class Two(Env):
    async def run(self, task, agents):
        await agents.solver.run(task)
        await agents.judge.run(task)


def resolve_env_config(data):
    return data["taskset"]


def load_environment(config):
    return {"sums": Env, "echo": Echo, "two": Two}[config["id"]]()
