"""The page's colours, light and dark; chosen to hold for colour-blind readers.

Hues differ in lightness as well as in tint, and no meaning rests on colour alone (marks, numbers, dashes say it too).
"""

from collections.abc import Mapping

LAYER_STEPS = 7
"""Steps of the ramp for capillary layers: step 0 is layer 1, the most loaded bottleneck."""

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "wash": "#f5f6f8",
    "ink": "#16191d",
    "soft": "#555d66",
    "rule": "#d9dde2",
    "faint": "#c3c9d0",
    "measured": "#0b62a8",
    "predicted": "#a3470a",
    "band": "#e3a008",
    "good": "#16693f",
    "bad": "#b3261e",
    "odd": "#855a00",
    "plain-load": "#5c6670",
    "layer-0": "#3a0853",
    "layer-1": "#45327f",
    "layer-2": "#35598c",
    "layer-3": "#25768c",
    "layer-4": "#1a8576",
    "layer-5": "#3a8c3f",
    "layer-6": "#7a8b12",
}

DARK: Mapping[str, str] = {
    "paper": "#14171a",
    "wash": "#1d2125",
    "ink": "#eceef0",
    "soft": "#a9b1ba",
    "rule": "#333940",
    "faint": "#4a525b",
    "measured": "#6cb6f5",
    "predicted": "#f0a367",
    "band": "#e3a008",
    "good": "#62c98f",
    "bad": "#ff8a80",
    "odd": "#e6b450",
    "plain-load": "#98a2ad",
    "layer-0": "#fde34a",
    "layer-1": "#b8dc3c",
    "layer-2": "#6bcc60",
    "layer-3": "#35b67f",
    "layer-4": "#2fa193",
    "layer-5": "#4f8bb0",
    "layer-6": "#8276bd",
}


def layer_class(layer: int, layers: int) -> str:
    """The CSS class of a link by its 1-based capillary layer of ``layers``; "l-none" where it belongs to none."""
    if layer < 1:
        return "l-none"
    if layers <= LAYER_STEPS:
        return f"l-{min(layer, LAYER_STEPS) - 1}"
    return f"l-{round((layer - 1) / (layers - 1) * (LAYER_STEPS - 1))}"


def custom_properties(colours: Mapping[str, str]) -> str:
    """The colours as CSS custom properties."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())
