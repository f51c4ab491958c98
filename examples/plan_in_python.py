"""Plan for a federation from public facts alone, and read the answer."""

import noiseworthy as nw

study = nw.parse_study(
    {
        "federation": {"sizes": [6000] * 8 + [1500] * 2},
        "task": {"dimension": 7840},
        "privacy": {
            "mechanism": "gaussian",
            "epsilon": [1.0] * 8 + [4.0] * 2,
            "delta": 1e-5,
            "clip_norm": 1.0,
        },
        "constants": {
            "smoothness": 1.0,
            "strong_convexity": 0.1,
            "gradient_bound": 1.0,
            "initial_distance_sq": 50.0,
            "heterogeneity": 0.05,
        },
    }
)
plan = nw.decide(nw.prepare(study)).plan
print(plan.outcome)
for client, (noise, spent) in enumerate(zip(plan.noise, plan.spent(), strict=True)):
    print(f"client {client}: noise std {noise:.4f}, {plan.releases[client]} uploads, epsilon {spent:.4f}")
