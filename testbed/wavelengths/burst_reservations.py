"""Which wavelengths of which fibres are reserved in the slots to come, as bits: first fit over slots and
wavelengths."""

from collections.abc import Sequence


class Reservations:
    """Bit k stands for the slot k after the present one; ``advance`` moves on by one slot.

    ``converting``: a path takes any wavelength on each fibre, so that only the number in use counts; else one on all of
    them.
    """

    def __init__(self, paths: Sequence[Sequence[int]], wavelengths: int, *, converting: bool) -> None:
        self._paths = [tuple(path) for path in paths]
        links = 1 + max(link for path in self._paths for link in path)
        # Converting: layer w holds the slots in which more than w wavelengths are in use; else those of wavelength w
        # itself.
        self._layers = [[0] * links for _ in range(wavelengths)]
        self._converting = converting

    def advance(self) -> None:
        self._layers = [[slots >> 1 for slots in layer] for layer in self._layers]

    def reserve(self, pair: int, earliest: int, *, most_ahead: int | None = None) -> int | None:
        """Reserve the first slot from ``earliest`` on, the lowest wavelength in it; how many slots ahead it is.

        None, and nothing reserved, where that is more than ``most_ahead``. O(W * length).
        """
        path = self._paths[pair]
        layers = self._layers[-1:] if self._converting else self._layers
        best, chosen = -1, layers[0]
        for layer in layers:
            taken = 0
            for link in path:
                taken |= layer[link]
            taken >>= earliest
            first = (~taken & (taken + 1)).bit_length() - 1
            if best < 0 or first < best:
                best, chosen = first, layer
                if not first:
                    break
        ahead = earliest + best
        if most_ahead is not None and ahead > most_ahead:
            return None
        bit = 1 << ahead
        for link in path:
            if self._converting:
                layer = next(layer for layer in self._layers if not layer[link] & bit)
                layer[link] |= bit
            else:
                chosen[link] |= bit
        return ahead
