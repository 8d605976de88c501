"""Every name of the objectives. `gnomon.objectives` gives them out without importing torch before the first."""

# ruff: noqa: F403

from gnomon.objectives.advantages import *
from gnomon.objectives.aggregate import *
from gnomon.objectives.context_rows import *
from gnomon.objectives.count_rows import *
from gnomon.objectives.counts import *
from gnomon.objectives.credit import *
from gnomon.objectives.declaration import *
from gnomon.objectives.entropy_rows import *
from gnomon.objectives.group_rows import *
from gnomon.objectives.likelihood_rows import *
from gnomon.objectives.options import *
from gnomon.objectives.outcome_rows import *
from gnomon.objectives.pairs import *
from gnomon.objectives.past import *
from gnomon.objectives.penalties import *
from gnomon.objectives.position_rows import *
from gnomon.objectives.preference_rows import *
from gnomon.objectives.ratio_rows import *
from gnomon.objectives.ratios import *
from gnomon.objectives.rollout_credit import *
from gnomon.objectives.row import *
from gnomon.objectives.state_rows import *
from gnomon.objectives.step_rows import *
from gnomon.objectives.table import *
from gnomon.objectives.target import *
from gnomon.objectives.token_credit import *
from gnomon.objectives.token_rows import *
from gnomon.objectives.tokens import *
from gnomon.objectives.trust_region_rows import *
from gnomon.objectives.trust_regions import *
from gnomon.objectives.turn_credit import *
from gnomon.objectives.turn_rows import *

NAMES = [name for name in globals() if not name.startswith("_")]
