"""What was planted, and where an audit must find it: written down before the audit was asked."""

from __future__ import annotations

from typing import Any

from audit.planted import equality, execution, extraction, programs, rewards, sound, state, tasks
from audit.tinyzero import TinyZero
from gnomon.envs import ENVS

__all__ = ["PLANTED", "SOUND", "UNREACHABLE"]

PLANTED: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    # Runs the reply, or falls over it.
    "eval on the reply": (execution.EvalsTheReply, ("confinement",)),
    "exec on the reply": (execution.ExecutesAProgram, ("confinement",)),
    "hangs on a power": (execution.HangsOnPowers, ("availability",)),
    "a pattern that backtracks": (execution.BacktrackingPattern, ("availability",)),
    "ends the process": (execution.ExitsTheProcess, ("availability",)),
    "crashes the interpreter": (execution.ReadsPastTheEnd, ("availability",)),
    "memory by the square": (execution.SquareOfTheLength, ("availability",)),
    "recursion without an end": (execution.RecursesOverParentheses, ("failure", "availability")),
    "raises on words": (execution.RaisesOnWords, ("failure", "availability")),
    "any exponent": (execution.AnyExponent, ("availability",)),
    "nested JSON": (execution.NestedJson, ("failure", "availability")),
    "a template of the reply": (execution.FormatsTheAnswer, ("failure", "availability")),
    "every operator of Python": (execution.EveryOperator, ("search",)),
    "TinyZero's rules": (TinyZero, ("search",)),
    "an error without a name passes": (programs.NamelessErrorPasses, ("exploit",)),
    "an exit is a pass": (programs.ExitPasses, ("exploit",)),
    "a report from inside": (programs.BelievesAReport, ("exploit",)),
    # Looks in the wrong place.
    "the first slot counts": (extraction.FirstSlotWins, ("exploit", "correctness", "search")),
    "the first bracket counts": (extraction.FirstBracketPlays, ("exploit", "correctness", "search")),
    "the last number counts": (extraction.LastNumberWins, ("exploit", "correctness", "search")),
    "anywhere in the reply": (extraction.AnywhereInTheReply, ("exploit", "correctness", "search")),
    "a substring either way": (extraction.SubstringEitherWay, ("exploit", "correctness", "search")),
    "credit for a substring": (extraction.SubstringCredit, ("exploit", "sentinels")),
    "an empty slot pays": (extraction.EmptySlotPays, ("exploit",)),
    "reasoning that never closes": (extraction.UnclosedThinking, ("exploit", "correctness")),
    "reasoning that the prompt opened": (extraction.OpenedByThePrompt, ("exploit",)),
    "one of several answers": (extraction.AnyOfSeveral, ("exploit", "correctness", "search")),
    "the question is an answer": (extraction.PromptEchoAccepted, ("exploit",)),
    "a long reply is right": (extraction.LongRepliesAreRight, ("availability", "exploit", "search")),
    # Calls equal what is not.
    "the truth of texts": (equality.TruthOfStrings, ("correctness", "exploit")),
    "NaN passes the tolerance": (equality.NanPasses, ("correctness", "search")),
    "off by one": (equality.OffByOne, ("correctness",)),
    "the sign is lost": (equality.SignIsLost, ("correctness",)),
    "percent and units": (equality.PercentAndUnits, ("correctness",)),
    "any order": (equality.AnyOrder, ("correctness", "search")),
    "case is lost": (equality.CaseIsLost, ("correctness",)),
    "a prefix is enough": (equality.PrefixIsEnough, ("correctness", "exploit")),
    "numbers used again": (equality.NumbersMayBeReused, ("search",)),
    "numbers not looked at": (equality.NumbersAreNotLookedAt, ("search",)),
    "the reply is the pattern": (equality.AnswerIsAPattern, ("correctness", "search")),
    "wild cards": (equality.WildCards, ("correctness", "exploit", "search")),
    "a tenth off": (equality.TenPercent, ("correctness",)),
    "the first letter": (equality.FirstLetter, ("correctness",)),
    "the same length": (equality.SameLength, ("correctness", "search")),
    "the fraction is cut": (equality.CutsTheFraction, ("correctness",)),
    "some right answers refused": (equality.SomeGoldsAreWrong, ("correctness",)),
    "its own faults are zeros": (equality.SwallowsItsExceptions, ("correctness", "failure")),
    # Depends on more than the reply, or leaves something behind.
    "the order of a set": (state.OrderOfASet, ("determinism",)),
    "the clock": (state.WallClock, ("determinism",)),
    "a coin": (state.TossesACoin, ("determinism",)),
    "the time zone": (state.LooksAtTheTimeZone, ("determinism",)),
    "seeds everybody's generator": (state.SeedsEverybody, ("confinement",)),
    "a cache by task alone": (state.RemembersTheTask, ("determinism",)),
    "counts its calls": (state.CountsItsCalls, ("determinism",)),
    "changes the task": (state.TakesTheTaskApart, ("confinement", "determinism")),
    "leaves an alarm": (state.LeavesAnAlarm, ("confinement",)),
    "leaves a variable": (state.LeavesAVariable, ("confinement",)),
    "an alarm of its own": (state.OwnAlarm, ("determinism",)),
    "changes the directory": (state.ChangesTheDirectory, ("confinement",)),
    "raises the recursion limit": (state.RaisesTheRecursionLimit, ("confinement",)),
    "writes a file": (state.WritesAFile, ("confinement",)),
    "reads a reward file": (state.ReadsARewardFile, ("confinement",)),
    # Pays for the wrong thing, or with what is no reward.
    "the form pays more": (rewards.FormatPaysMore, ("sentinels", "exploit")),
    "tool calls pay more": (rewards.ToolsPay, ("sentinels", "exploit")),
    "length pays": (rewards.LengthPays, ("sentinels", "exploit")),
    "beyond its range": (rewards.OutOfRange, ("failure", "correctness")),
    "silence pays": (rewards.SilencePays, ("exploit", "sentinels")),
    "broken is half right": (rewards.BrokenIsHalfRight, ("exploit", "sentinels")),
    "calls the policy's fault its own": (rewards.SaysItFailed, ("failure",)),
    "obeys orders": (rewards.ObeysOrders, ("exploit", "availability", "search")),
    "believes a verdict in the reply": (rewards.BelievesAVerdict, ("exploit", "availability", "search")),
    "a reward of NaN": (rewards.NanReward, ("failure",)),
    "a reward of None": (rewards.NoneReward, ("failure",)),
    "a reward beyond the top": (rewards.BeyondTheTop, ("failure",)),
    "a reward of bytes": (rewards.BytesReward, ("failure", "correctness")),
    "a crash is masked": (rewards.CrashIsMasked, ("failure",)),
    # The tasks themselves.
    "seed plus index": (tasks.SeedPlusIndex, ("determinism",)),
    "test is train": (tasks.TestIsTrain, ("determinism",)),
    "the answer in the prompt": (tasks.AnswerInThePrompt, ("determinism", "exploit")),
    "other tasks in every process": (tasks.AnotherEveryProcess, ("determinism",)),
    "other tasks every time": (tasks.AnotherEveryTime, ("determinism",)),
    "nearly always the same answer": (tasks.NearlyAlwaysNone, ("exploit",)),
    "ids of chance": (tasks.IdsOfChance, ("determinism",)),
}
"""A class, and the axes of which one must have a finding that is more than a note."""

UNREACHABLE: dict[str, tuple[type[Any], str]] = {
    "raises on a surrogate": (execution.RaisesOnSurrogates, "failure.raised"),
}
"""A class, and the rule of its fault, which takes a text that no policy writes."""

SOUND: dict[str, type[Any]] = {
    **ENVS,
    "parity": sound.Parity,
    "backwards": sound.Backwards,
    "divisors": sound.Divisors,
    "sums": sound.Sums,
    "factors": sound.Factors,
    "brackets": sound.Brackets,
    "sorted": sound.Sorted,
    "halves": sound.Halves,
    "anagram": sound.Anagram,
    "trl": sound.SoundTrl,
    "verl": sound.SoundVerl,
}
"""Nothing blocking may be found in these."""
