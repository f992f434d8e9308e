"""Which quorum changes to another default image now.

An image that does not work then stops at one quorum. Losing it costs nothing: another operator
gives the turn to the first quorum that it observes in the middle of a roll.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ImageTurn:
    """The turn, which one quorum has at a time.

    Attributes:
        holder: UID of the resource that has it; None: it is free.
    """

    holder: str | None = None

    def rests(self, uid: str, *, wants: bool) -> bool:
        """A quorum has nothing left to do; returns whether it may change its image now.

        Args:
            uid: of its resource.
            wants: whether it has another image than it is to have.
        """
        if wants and self.holder in {None, uid}:
            self.holder = uid
            return True
        self.give_up(uid)
        return False

    def rolls(self, uid: str) -> None:
        """A quorum that follows the default is in the middle of a roll: it takes a free turn."""
        self.holder = self.holder or uid

    def give_up(self, uid: str) -> None:
        """A quorum does not change its image, or is gone."""
        if self.holder == uid:
            self.holder = None
