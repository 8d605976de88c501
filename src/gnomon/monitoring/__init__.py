"""Where the reward of a run comes from: a breakdown by part, and alarms for rewards without right answers."""
