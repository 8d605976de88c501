"""Where the reward of a run comes from: a ledger of its parts, and alarms for rewards without right answers."""
