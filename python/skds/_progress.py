"""Progress of long work: a bar by tqdm on a terminal and in notebooks, or a function of one's own."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

#: What is called with the count, the count at the end, and the loss if there is one.
Listener = Callable[[int, int, "float | None"], Any]

#: Nothing is shown for work that ends sooner.
PATIENCE = 0.8


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and "ZMQ" in type(shell).__name__


class _Bar:
    """A bar that appears when the work takes a while."""

    def __init__(self, what: str) -> None:
        self.what, self.bar, self.total = what, None, None

    def __call__(self, done: int, total: int, loss: float | None) -> None:
        if total != self.total:
            self.close()
            with warnings.catch_warnings():
                # Without ipywidgets, tqdm shows text in notebooks, and says so at length.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm

                self.bar = tqdm(total=total, desc=self.what, delay=PATIENCE, leave=False, disable=False)
            self.total = total
        if loss is not None:
            self.bar.set_postfix_str(f"loss {loss:.3e}", refresh=False)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


@contextlib.contextmanager
def listening(progress: bool | Listener | None, what: str) -> Iterator[Listener | None]:
    """What the native part tells how far it is: a bar for ``True``, nothing for ``False``, and by itself a bar where people look."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and (sys.stderr.isatty() or in_notebook())):
        bar = _Bar(what)
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield None
