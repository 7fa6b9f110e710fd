"""How many packet-hops a second each engine simulates: 8x8 torus, uniform traffic at a tenth of the links; and the thesis' largest run."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from testbed.interconnect.injection import InjectionProcess, build_injections
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.patterns import build_pattern
from testbed.interconnect.simulation import simulate
from topologies import load_network

BOOKSIM = SimulationParameters(deadlock="virtual-channels")
THESIS = SimulationParameters(model="thesis")
SMALL = replace(THESIS, packet_bytes=512, buffer_bytes=8192)
CASES = (
    ("reference, booksim hops, 2 VCs", "reference", "torus:8x8", BOOKSIM, 12_207.0, 0.01),
    ("compiled, booksim hops, 2 VCs", "compiled", "torus:8x8", BOOKSIM, 12_207.0, 1.0),
    ("compiled, thesis hops", "compiled", "torus:8x8", THESIS, 12_207.0, 0.5),
    ("compiled, thesis hops, NAC at 0.8", "compiled", "torus:8x8", replace(THESIS, deadlock="nac"), 97_656.0, 0.03),
    ("compiled, 32x32, 400/s, 2 s", "compiled", "torus:32x32", SMALL, 400.0, 2.0),
    ("compiled, 32x32, FT-DRB and NAC, 0.2 s", "compiled", "torus:32x32", replace(SMALL, routing="ft-drb", deadlock="nac"), 400.0, 0.2),
)  # fmt: skip


def main() -> None:
    """Prints a table: packet-hops, seconds of this process, hops a second (median of three), over the reference."""
    print(f"{'run':42} {'hops':>10} {'seconds':>9} {'M hops/s':>9} {'x reference':>12}")
    base = 0.0
    for name, engine, network_name, parameters, rate, duration in CASES:
        model = build_model(load_network(network_name), parameters)
        shape = model.network.attributes.get("shape")
        pattern = build_pattern("uniform", model.layout.hosts, shape=shape, to_itself=parameters.hop.to_itself)
        process = InjectionProcess(rate_per_s=rate)
        simulate(model, build_injections(pattern, process, duration_s=0.001, seed=1), parameters, engine=engine)
        injections = build_injections(pattern, process, duration_s=duration, seed=1)
        times = []
        for _ in range(3):
            began = time.process_time()
            run = simulate(model, injections, parameters, engine=engine)
            times.append(time.process_time() - began)
        seconds = statistics.median(times)
        speed = run.packet_hops / seconds
        base = base or speed
        print(f"{name:42} {run.packet_hops:>10} {seconds:>9.2f} {speed / 1e6:>9.2f} {speed / base:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
