"""The code that a ROR belongs to, in words: labels, M, tolerance and DER stand next to every ROR, for it says nothing
without them."""

from topologies.text.json_types import Json


def describe_code(
    *, labels: str, m: int, tolerance: float | None, der: float, large_blocks: bool = False
) -> str:
    """In one line; ``tolerance`` None where it is said elsewhere (as an axis, a column).

    >>> describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5)
    'stratified labels, M 20, tolerance 5 %, DER 1e-05'
    >>> describe_code(labels="random", m=20, tolerance=0.05, der=1e-5, large_blocks=True)
    'large blocks (equation 29, any labels, M and DER), tolerance 5 %'
    """
    share = () if tolerance is None else (f"tolerance {100 * tolerance:.4g} %",)
    if large_blocks:
        return ", ".join(("large blocks (equation 29, any labels, M and DER)", *share))
    return ", ".join((f"{labels} labels", f"M {m}", *share, f"DER {der:g}"))


def describe_coding(coding: Json) -> str:
    """Of a document of ``ror`` or ``demands``."""
    return describe_code(
        labels=coding["labels"],
        m=coding["source_packets"],
        tolerance=coding["static_tolerance"],
        der=coding["decoding_error_rate"],
        large_blocks=coding["large_blocks"],
    )


SHORT_AND_LARGE = (
    "random labels, M 20, DER 1e-05 (equation 25), and large blocks (equation 29),"
    " each at the tolerance of its column or axis"
)
"""Of studies over many tolerances."""
BOTH_LABELS = "stratified labels, and random ones where it is said; M 20, tolerance 5 %, DER 1e-05"


def describe_stream_code(parameters: Json) -> str:
    """Of a stored stream's parameters; empty where it has none."""
    if not {"labels", "source_packets", "tolerance", "decoding_error_rate"} <= parameters.keys():
        return ""
    return describe_code(
        labels=parameters["labels"],
        m=parameters["source_packets"],
        tolerance=parameters["tolerance"],
        der=parameters["decoding_error_rate"],
    )
