"""Descriptions of the erasure code to which a redundancy overall requirement (ROR) belongs.

A ROR depends on the order of labels, on the number of source packets per block (M), on the loss
tolerance and on the decoding error rate (DER). They are therefore printed next to every ROR.
"""

from topologies.text.json_types import Json

#: The code of studies that compare many tolerances.
SHORT_AND_LARGE = (
    "random labels, M 20, DER 1e-05 (equation 25), and large blocks (equation 29),"
    " each at the tolerance of its column or axis"
)
#: The code of studies that compare both orders of labels.
BOTH_LABELS = "stratified labels, and random ones where it is said; M 20, tolerance 5 %, DER 1e-05"


def describe_code(
    *, labels: str, m: int, tolerance: float | None, der: float, large_blocks: bool = False
) -> str:
    """Return one line that describes a code.

    Args:
        labels: The order of labels, such as "stratified" or "random".
        m: Number of source packets per block.
        tolerance: Fraction of lost packets that a block tolerates. None if an axis or a column
            shows the tolerance.
        der: Decoding error rate, the fraction of blocks that may fail to decode.
        large_blocks: Whether the ROR is the limit for large blocks, in which labels, M and DER
            make no difference.

    >>> describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5)
    'stratified labels, M 20, tolerance 5 %, DER 1e-05'
    >>> describe_code(labels="random", m=20, tolerance=0.05, der=1e-5, large_blocks=True)
    'large blocks (equation 29, any labels, M and DER), tolerance 5 %'
    """
    parts = []
    if large_blocks:
        parts.append("large blocks (equation 29, any labels, M and DER)")
    else:
        parts.append(f"{labels} labels")
        parts.append(f"M {m}")
    if tolerance is not None:
        parts.append(f"tolerance {100 * tolerance:.4g} %")
    if not large_blocks:
        parts.append(f"DER {der:g}")
    return ", ".join(parts)


def describe_coding(coding: Json) -> str:
    """Describe the code in the JSON document of ``testbed ror`` or ``testbed demands``."""
    return describe_code(
        labels=coding["labels"],
        m=coding["source_packets"],
        tolerance=coding["static_tolerance"],
        der=coding["decoding_error_rate"],
        large_blocks=coding["large_blocks"],
    )


def describe_stream_code(parameters: Json) -> str:
    """Describe the code in the parameters of a stored stream, or return "" if it has none."""
    if not {"labels", "source_packets", "tolerance", "decoding_error_rate"} <= parameters.keys():
        return ""
    return describe_code(
        labels=parameters["labels"],
        m=parameters["source_packets"],
        tolerance=parameters["tolerance"],
        der=parameters["decoding_error_rate"],
    )
