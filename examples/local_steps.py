"""How many local steps before a noised reply? The plan, the guide, and a mechanism of one's own."""

import noiseworthy as nw
from noiseworthy.methods.dp_fedavg.bound import LocalBound, PowerLaw
from noiseworthy.methods.dp_fedavg.search import optimum

CONSTANTS = {
    "smoothness": 1.0,
    "strong_convexity": 0.1,
    "gradient_bound": 1.0,
    "initial_distance_sq": 900.0,
    "heterogeneity": 0.5,
}
study = nw.parse_study(
    {
        "federation": {"sizes": [80] * 500},
        "task": {"dimension": 11},
        "privacy": {"mechanism": "laplace", "epsilon": 20.0, "clip_norm": 1.0},
        "algorithm": {"name": "dp-fedavg", "clipping_mode": "C", "clients_per_round": 50},
        "constants": CONSTANTS,
    }
)
plan = nw.decide(nw.prepare(study)).plan
print(plan.outcome, *plan.notes, sep="\n")

own = PowerLaw(exponent=1.5, constant=0.01)  # noise whose variance grows like T_g^1.5
best = optimum(LocalBound(**CONSTANTS), own, clients=500, max_iterations=500)
print(f"own mechanism: {best.total_iterations} iterations, {best.local_steps} local steps per reply")
