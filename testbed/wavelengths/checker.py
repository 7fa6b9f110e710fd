"""Checks a wavelength plan independently of the algorithms that compute plans.

Every lightpath must be lit once, no wavelength of a fibre may be used twice in a round, and
wavelength-selective switches must keep the wavelength of a path.
"""

from testbed.errors import InputError
from testbed.wavelengths.plan import LitPath, WavelengthPlan
from topologies import LinkId


def check_wavelength_plan(plan: WavelengthPlan) -> None:
    """Check a plan. The time is O(total length of the paths).

    Raises:
        InputError: The plan is invalid. The message names the lightpath, or the two lightpaths.
    """
    # The round in which each lightpath is lit.
    round_of: dict[int, int] = {}
    for number, lit_paths in enumerate(plan.rounds):
        if not lit_paths:
            raise InputError(f"round {number} lights no path; leave it out")
        # The lightpath that uses each wavelength of each fibre in this round.
        users: dict[tuple[LinkId, int], int] = {}
        for lit in lit_paths:
            _check_lit_path(plan, lit, number)
            if lit.lightpath in round_of:
                raise InputError(
                    f"lightpath {lit.lightpath} ({_label(plan, lit.lightpath)}) is lit in round"
                    f" {round_of[lit.lightpath]} and again in round {number}; light it once"
                )
            round_of[lit.lightpath] = number
            _check_wavelengths(plan, lit, number, users)
    for i in range(len(plan.lightpaths)):
        if i not in round_of:
            raise InputError(f"lightpath {i} ({_label(plan, i)}) is lit in no round")


def _check_wavelengths(
    plan: WavelengthPlan, lit: LitPath, number: int, users: dict[tuple[LinkId, int], int]
) -> None:
    """Raise InputError if another path uses a wavelength of a fibre that a lit path uses.

    Args:
        plan: The plan.
        lit: The lit path.
        number: Index of the round, for messages.
        users: The lightpath on each wavelength of each fibre. The function adds this path.
    """
    links = plan.lightpaths[lit.lightpath].links
    for link, wavelength in zip(links, lit.wavelengths, strict=True):
        user = users.setdefault((link, wavelength), lit.lightpath)
        if user != lit.lightpath:
            raise InputError(
                f"round {number}: lightpaths {user} ({_label(plan, user)}) and {lit.lightpath}"
                f" ({_label(plan, lit.lightpath)}) share wavelength {wavelength} of"
                f" {plan.network.link(*link).label}"
            )


def _check_lit_path(plan: WavelengthPlan, lit: LitPath, number: int) -> None:
    """Raise InputError if the lightpath or the wavelengths of a lit path are invalid."""
    if not 0 <= lit.lightpath < len(plan.lightpaths):
        raise InputError(
            f"round {number}: there is no lightpath {lit.lightpath};"
            f" there are {len(plan.lightpaths)}"
        )
    name = f"round {number}: lightpath {lit.lightpath} ({_label(plan, lit.lightpath)})"
    if len(lit.wavelengths) != len(plan.lightpaths[lit.lightpath].links):
        raise InputError(
            f"{name} names {len(lit.wavelengths)} wavelengths; give one for each fibre"
        )
    for wavelength in lit.wavelengths:
        if not 0 <= wavelength < plan.wavelengths:
            raise InputError(
                f"{name} uses wavelength {wavelength}; fibres have 0 to {plan.wavelengths - 1}"
            )
    if plan.switching == "wsxc" and lit.conversions:
        raise InputError(
            f"{name} changes its wavelength, which wavelength-selective switches cannot"
        )


def _label(plan: WavelengthPlan, lightpath: int) -> str:
    return plan.lightpaths[lightpath].label
