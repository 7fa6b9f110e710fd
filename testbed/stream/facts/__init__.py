"""Facts of one run of one plan of a stream, from which its verdict is computed; without I/O.

- ``epoch_facts``: the times in which nothing changes, and the N that each requires.
- ``answer_times``: when the sender had answered each epoch, that is, sent blocks with this N.
- ``loss_bounds``: the probability with which each packet was lost.
- ``beliefs``: what a diagnosing sender believed to have failed.
- ``spurious_losses``: blocks of a sender that treated late packets as lost.
- ``run_facts``: all of these together, with facts about packets, blocks and the machine.
"""
