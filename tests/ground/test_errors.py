"""Errors: what a user reads, and that they survive the way from a worker."""

import pickle

import pytest

import gnomon.errors as errors
from gnomon.errors import ConfigError, ConfigErrors, GnomonError

PUBLIC = [getattr(errors, name) for name in errors.__all__]
PLAIN = [kind for kind in PUBLIC if isinstance(kind, type) and kind is not ConfigErrors]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_an_error_travels_whole(kind: type[GnomonError]) -> None:
    error = kind("E101", "the judge broke", where="task 3", why="it divided by zero", fix="mend it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and str(copy) == str(error)
    assert (copy.code, copy.what, copy.where, copy.why, copy.fix) == (
        "E101", "the judge broke", "task 3", "it divided by zero", "mend it",
    )  # fmt: skip


def test_an_error_says_what_where_why_and_the_fix() -> None:
    error = GnomonError("E101", "the judge broke", where="task 3", why="it divided by zero", fix="mend it")
    assert str(error).splitlines() == [
        "error[E101] the judge broke", "   at task 3", "   it divided by zero", "   fix: mend it",
    ]  # fmt: skip
    assert str(GnomonError("E101", "the judge broke")) == "error[E101] the judge broke"
    assert error.args == (str(error),)


def test_several_mistakes_are_told_together_and_travel() -> None:
    both = ConfigErrors([ConfigError("E011", "one"), ConfigError("E012", "two", fix="mend it")])
    assert str(both).splitlines() == [
        "error[E011] one", "error[E012] two", "   fix: mend it", "2 errors. Nothing was started.",
    ]  # fmt: skip
    assert str(ConfigErrors([ConfigError("E011", "one")])).endswith("1 error. Nothing was started.")
    copy = pickle.loads(pickle.dumps(both))
    assert type(copy) is ConfigErrors and str(copy) == str(both) and copy.code == "E011"
    assert [error.code for error in copy.errors] == ["E011", "E012"]


@pytest.mark.parametrize("kind", [*PLAIN, ConfigErrors], ids=lambda kind: kind.__name__)
def test_the_tree_drawn_in_the_docstring_is_the_tree(kind: type[GnomonError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert issubclass(kind, GnomonError)
    assert kind.exit_code == (2 if kind.__name__.startswith("Config") else 1)
