"""The shape of TextArena's registry, and a game for two whose second player moves first. Not the package."""

import random
import re
import types


class Bids:
    """Both name a number once; the higher one wins. Cards come from the generator of the process, as upstream."""

    def reset(self, num_players, seed=None):
        assert num_players == 2
        random.seed(seed)
        self.cards = [random.randint(1, 9) for _ in range(2)]
        self.player, self.bids = 1, {}
        self.news = {player: [(-1, f"Your card is {self.cards[player]}.", None)] for player in range(2)}
        self.state = types.SimpleNamespace(done=False)

    def get_observation(self):
        told, self.news[self.player] = self.news[self.player], []
        return self.player, told

    def step(self, action):
        found = re.search(r"\[(\d+)\]", action)
        for player in range(2):
            self.news[player].append((self.player, action, None))
        self.bids[self.player] = int(found.group(1)) if found else -1
        self.player = 1 - self.player
        return len(self.bids) == 2, {}

    def close(self):
        if self.bids[0] == self.bids[1]:
            return {0: 0, 1: 0}, {}
        return {player: 1 if self.bids[player] > self.bids[1 - player] else -1 for player in range(2)}, {}


ENV_REGISTRY = {"Bids-v0": Bids, "Bids-v0-raw": Bids}


def make(name):
    return ENV_REGISTRY[name]()
