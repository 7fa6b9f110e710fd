"""Figures of the block sizes that were counted: link by link, and as often as equation 25 says."""

from experiments.stream.ror.counting_checks import links_of
from testbed.model.studies.study import Results, Rows, where
from testbed.report.drawing.charts import BLUE, INK, ORANGE, panels


def counting_figures(rows: Rows) -> Results:
    """``counted_block_sizes``, of stratified labels."""
    sizes, (one, two) = panels(10, 4.4, columns=2)
    links = list(links_of(where(rows, labels="stratified")))
    claimed = [link["claimed"] for link in links]
    span = [min(claimed, default=20) - 1, max(claimed, default=21) + 1]
    one.plot(span, span, "--", color=INK, label="as claimed")
    one.plot(claimed, [link["counted"] for link in links], "o", color=BLUE, label=f"{len(links)} failed links")
    one.set(xlabel="packets a block, claimed", ylabel="packets a block, counted", title="stratified labels")
    one.legend(loc="upper left")
    for less, colour in enumerate((BLUE, ORANGE, INK)):
        shares = sorted(link["short"][less] / link["blocks"][less] for link in links if less < len(link["short"]))
        label = "N packets" if not less else f"N - {less}"
        two.plot(range(1, len(shares) + 1), shares, ".", color=colour, label=label)
    two.set(xlabel="failed links, in order", ylabel="share of blocks not decodable", title="stratified labels")
    two.legend(loc="center left")
    return {"counted_block_sizes": sizes}
