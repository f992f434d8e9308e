"""Which quorum changes to another default image now.

An image that does not work then stops at one quorum. Losing it costs nothing: another operator
gives the turn to the first quorum that it observes in the middle of a roll.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator.model.objects import Owner


@dataclass(slots=True)
class ImageTurn:
    """The turn, which one quorum has at a time.

    Attributes:
        holder: the resource that has it; None: it is free.
    """

    holder: Owner | None = None

    def rests(self, quorum: Owner, *, wants: bool) -> bool:
        """A quorum has nothing left to do; returns whether it may change its image now.

        Args:
            quorum: its resource.
            wants: whether it has another image than it is to have.
        """
        if wants and self.holder in {None, quorum}:
            self.holder = quorum
            return True
        self.give_up(quorum.uid)
        return False

    def rolls(self, quorum: Owner) -> None:
        """A quorum that follows the default is in the middle of a roll: it takes a free turn."""
        self.holder = self.holder or quorum

    def wait_of(self, quorum: Owner, image: str | None) -> str:
        """For the report of a quorum: for which one its change to an image waits; empty: for none.

        Args:
            quorum: its resource.
            image: what it is to change to; None: it has that.
        """
        first = self.holder
        if image is None or first is None or first == quorum:
            return ""
        return (
            f"; the operator's default image {image} waits for quorum {first.name} in namespace "
            f"{first.namespace}, which changes to it first"
        )

    def give_up(self, uid: str) -> None:
        """A quorum does not change its image, or is gone.

        Args:
            uid: of its resource.
        """
        if self.holder is not None and self.holder.uid == uid:
            self.holder = None
