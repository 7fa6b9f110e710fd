"""Checks a wavelength plan from its values alone: every lightpath once, no wavelength of a fibre twice a round,
continuity.

It knows no algorithm and imports none.
"""

from testbed.errors import InputError
from testbed.wavelengths.plan import LitPath, WavelengthPlan
from topologies import LinkId


def check_wavelength_plan(plan: WavelengthPlan) -> None:
    """Return where the plan holds; InputError that names the lightpath, or the two, where it does not. O(total path
    length)."""
    seen: dict[int, int] = {}
    for number, lit_paths in enumerate(plan.rounds):
        if not lit_paths:
            raise InputError(f"round {number} lights no path; leave it out")
        taken: dict[tuple[LinkId, int], int] = {}
        for lit in lit_paths:
            _check_lit_path(plan, lit, number)
            if lit.lightpath in seen:
                raise InputError(
                    f"lightpath {lit.lightpath} ({_name(plan, lit.lightpath)}) is lit in round {seen[lit.lightpath]} "
                    f"and again in round {number}; light it once"
                )
            seen[lit.lightpath] = number
            for link, wavelength in zip(
                plan.lightpaths[lit.lightpath].links, lit.wavelengths, strict=True
            ):
                other = taken.setdefault((link, wavelength), lit.lightpath)
                if other != lit.lightpath:
                    raise InputError(
                        f"round {number}: lightpaths {other} ({_name(plan, other)}) and {lit.lightpath} "
                        f"({_name(plan, lit.lightpath)}) share wavelength {wavelength} of "
                        f"{plan.network.link(*link).label}"
                    )
    missing = next((i for i in range(len(plan.lightpaths)) if i not in seen), None)
    if missing is not None:
        raise InputError(f"lightpath {missing} ({_name(plan, missing)}) is lit in no round")


def _check_lit_path(plan: WavelengthPlan, lit: LitPath, number: int) -> None:
    if not 0 <= lit.lightpath < len(plan.lightpaths):
        raise InputError(
            f"round {number}: there is no lightpath {lit.lightpath}; there are {len(plan.lightpaths)}"
        )
    name = f"round {number}: lightpath {lit.lightpath} ({_name(plan, lit.lightpath)})"
    if len(lit.wavelengths) != len(plan.lightpaths[lit.lightpath].links):
        raise InputError(f"{name} names {len(lit.wavelengths)} wavelengths; give one a fibre")
    outside = next((w for w in lit.wavelengths if not 0 <= w < plan.wavelengths), None)
    if outside is not None:
        raise InputError(
            f"{name} uses wavelength {outside}; fibres have 0 to {plan.wavelengths - 1}"
        )
    if plan.switching == "wsxc" and lit.conversions:
        raise InputError(
            f"{name} changes its wavelength, which wavelength-selective switches cannot"
        )


def _name(plan: WavelengthPlan, lightpath: int) -> str:
    return plan.lightpaths[lightpath].label
