"""Tools that an environment lends to the policy: each call gets a text, and none ends an episode by itself."""

from __future__ import annotations

from gnomon.envs.tools.base import Ended, EnvTool, Outcome, Overtime, Result, Stateless, Use, text_argument, use
from gnomon.envs.tools.calculator import CalculatorTool, calculate
from gnomon.envs.tools.calls import Call, calls
from gnomon.envs.tools.keys import pressed
from gnomon.envs.tools.lend import WithTools
from gnomon.envs.tools.mcp import MCPTool, served
from gnomon.envs.tools.python import PythonTool
from gnomon.envs.tools.screen import Screen
from gnomon.envs.tools.search import SearchTool
from gnomon.envs.tools.terminal import TerminalTool

__all__ = [
    "CalculatorTool",
    "Call",
    "Ended",
    "EnvTool",
    "MCPTool",
    "Outcome",
    "Overtime",
    "PythonTool",
    "Result",
    "Screen",
    "SearchTool",
    "Stateless",
    "TerminalTool",
    "Use",
    "WithTools",
    "calculate",
    "calls",
    "pressed",
    "served",
    "text_argument",
    "use",
]
