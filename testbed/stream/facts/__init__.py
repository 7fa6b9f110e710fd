"""Facts of one run of one plan of a stream, which every judgement of it needs; pure.

- ``epoch_facts``: the times in which nothing changes, and the N that answers each.
- ``answer_times``: when the sender had answered each of them.
- ``loss_bounds``: the probability with which each packet was lost.
- ``beliefs``: what a diagnosing sender believed to have failed.
- ``spurious_losses``: blocks of a sender that treated late packets as lost.
- ``run_facts``: all of these together, with facts about packets, blocks and the machine.
"""
