"""What can end the demo early, as a tree of exceptions.

```
DemoError
├── SetupError              it cannot begin: something is missing, taken or busy
├── StepFailedError(step)   a step did not come to its end in time, or was refused
├── DeadlineError           something that should have come true did not
└── OperatorEndedError      the operator's process ended by itself
```
"""


class DemoError(Exception):
    """Base of every error that the demo raises on purpose."""


class SetupError(DemoError):
    """The demo cannot begin; the message says why and what to do."""


class DeadlineError(DemoError):
    """Something that was waited for did not come true.

    Attributes:
        what: What was waited for.
        seen: What was seen last.
    """

    def __init__(self, what: str, within_s: float, last_state: str) -> None:
        self.what = what
        self.last_state = last_state
        super().__init__(
            f"not within {within_s:.0f} s: {what}; last seen: {last_state or 'nothing'}"
        )


class OperatorEndedError(DemoError):
    """The operator's process ended by itself."""


class StepFailedError(DemoError):
    """A step failed.

    Attributes:
        step: Its title.
        cause: Why.
    """

    def __init__(self, step: str, cause: Exception) -> None:
        self.step = step
        self.cause = cause
        kind = "" if isinstance(cause, DemoError) else f"{type(cause).__name__}: "
        super().__init__(f"step “{step}” failed: {kind}{cause}")
