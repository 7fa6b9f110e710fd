"""The page's colours, light and dark; chosen to hold for colour-blind readers.

Hues differ in lightness as well as in tint, and no meaning rests on colour alone (marks, numbers, dashes say it too).
"""

from collections.abc import Mapping

LAYER_STEPS = 7
"""Steps of the ramp for capillary layers: step 0 is layer 1, the most loaded bottleneck."""

_BOTH = {
    "paper": ("#ffffff", "#14171a"),
    "wash": ("#f5f6f8", "#1d2125"),
    "ink": ("#16191d", "#eceef0"),
    "soft": ("#555d66", "#a9b1ba"),
    "rule": ("#d9dde2", "#333940"),
    "faint": ("#c3c9d0", "#4a525b"),
    "measured": ("#0b62a8", "#6cb6f5"),
    "predicted": ("#a3470a", "#f0a367"),
    "band": ("#e3a008", "#e3a008"),
    "good": ("#16693f", "#62c98f"),
    "bad": ("#b3261e", "#ff8a80"),
    "odd": ("#855a00", "#e6b450"),
    "plain-load": ("#5c6670", "#98a2ad"),
    "layer-0": ("#3a0853", "#fde34a"),
    "layer-1": ("#45327f", "#b8dc3c"),
    "layer-2": ("#35598c", "#6bcc60"),
    "layer-3": ("#25768c", "#35b67f"),
    "layer-4": ("#1a8576", "#2fa193"),
    "layer-5": ("#3a8c3f", "#4f8bb0"),
    "layer-6": ("#7a8b12", "#8276bd"),
}
"""Name -> on a light and on a dark page."""
LIGHT, DARK = ({name: both[theme] for name, both in _BOTH.items()} for theme in (0, 1))


def layer_colour(layer: int, layers: int) -> str:
    """The colour, on a light page, of a link by its 1-based capillary layer of ``layers``; of one that belongs to
    none."""
    if layer < 1:
        return LIGHT["plain-load"]
    step = layer - 1 if layers <= LAYER_STEPS else round((layer - 1) / (layers - 1) * (LAYER_STEPS - 1))
    return LIGHT[f"layer-{step}"]


def custom_properties(colours: Mapping[str, str]) -> str:
    """The colours as CSS custom properties."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())
