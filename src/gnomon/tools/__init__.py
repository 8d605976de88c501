"""Tools that an environment offers to the policy. Every call returns a text; no call ends an episode."""

from __future__ import annotations

from gnomon.tools.base import Ended, EnvTool, Outcome, Overtime, Result, Stateless, Use, text_argument, use
from gnomon.tools.calculator import CalculatorTool
from gnomon.tools.calls import Call, calls
from gnomon.tools.lend import WithTools
from gnomon.tools.mcp import MCPTool, start_server
from gnomon.tools.python import PythonTool
from gnomon.tools.screen import Screen
from gnomon.tools.search import SearchTool
from gnomon.tools.terminal import TerminalTool, key_bytes

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
    "calls",
    "key_bytes",
    "start_server",
    "text_argument",
    "use",
]
