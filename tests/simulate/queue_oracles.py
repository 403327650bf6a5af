"""The same queues played by other people's simulators, and step by step."""

import ciw
import numpy as np
import simpy


def play_in_simpy(at_s, class_of, sizes, *, discipline, speedup=1.0, after_s=np.inf):
    """Return when each recorded job ends; sprints have no bucket here."""
    world = simpy.Environment()
    engine = simpy.PreemptiveResource(world, capacity=1)
    ends = np.full(len(at_s), np.nan)
    preempts = discipline != "non-preemptive"

    def length(work, attained):
        before = max(after_s - attained, 0.0)
        return work if work <= before else before + (work - before) / speedup

    def work_in(elapsed, attained):
        before = min(max(after_s - attained, 0.0), elapsed)
        return before + speedup * (elapsed - before)

    def live(i):
        yield world.timeout(at_s[i])
        left, attained = sizes[i], 0.0
        while True:
            # Among equals the first comes first, also after it was evicted.
            rank = (-int(class_of[i]), i)
            with engine.request(priority=rank, preempt=preempts) as request:
                yield request
                began = world.now
                try:
                    yield world.timeout(length(left, attained))
                except simpy.Interrupt:
                    elapsed = world.now - began
                    if discipline == "resume":
                        left -= work_in(elapsed, attained)
                        attained += elapsed
                    continue
            ends[i] = world.now
            return

    for i in range(len(at_s)):
        world.process(live(i))
    world.run()
    return ends


_IN_CIW = {"non-preemptive": False, "resume": "resume", "repeat": "restart", "redraw": "resample"}


def mean_responses_in_ciw(classes, discipline, *, n_jobs, seed):
    """Return the mean response time of each class, lowest first; services are exponential.

    ``classes`` are pairs of a rate and a mean.
    """
    names = [f"class {k}" for k in range(len(classes))]
    order = {name: len(names) - 1 - k for k, name in enumerate(names)}
    network = ciw.create_network(
        arrival_distributions={
            n: [ciw.dists.Exponential(rate=rate)]
            for n, (rate, _) in zip(names, classes, strict=True)
        },
        service_distributions={
            n: [ciw.dists.Exponential(rate=1 / mean)]
            for n, (_, mean) in zip(names, classes, strict=True)
        },
        number_of_servers=[1],
        priority_classes=(order, [_IN_CIW[discipline]]),
    )
    ciw.seed(seed)
    world = ciw.Simulation(network)
    world.simulate_until_max_customers(n_jobs)
    first: dict[int, float] = {}
    last: dict[int, tuple[str, float]] = {}
    for record in world.get_all_records():
        first.setdefault(record.id_number, record.arrival_date)
        first[record.id_number] = min(first[record.id_number], record.arrival_date)
        if record.record_type == "service":
            last[record.id_number] = (record.customer_class, record.exit_date)
    ids = sorted(last)[n_jobs // 10 :]
    return [np.array([last[i][1] - first[i] for i in ids if last[i][0] == name]) for name in names]


def play_step_by_step(at_s, class_of, sizes, *, after_s, power, step_s):
    """Return when jobs end without evictions, moving a small step at a time; and the bucket."""
    n = len(at_s)
    left, ends, levels = list(sizes), [None] * n, []
    running, began, may_sprint = None, 0.0, True
    level, now = power.budget_j, 0.0
    while None in ends:
        if running is None:
            waiting = [i for i in range(n) if ends[i] is None and at_s[i] <= now + 1e-12]
            if waiting:
                running = max(waiting, key=lambda i: (class_of[i], -i))
                began, may_sprint = now, True
        extra, speed = 0.0, 1.0
        if running is not None and now - began >= after_s[class_of[running]] - 1e-12:
            needed = (power.extra_w - power.refill_w) * step_s
            may_sprint = may_sprint and level >= needed
            if may_sprint:
                extra, speed = power.extra_w, power.speedup
        level = min(level + (power.refill_w - extra) * step_s, power.budget_j)
        levels.append(level)
        now += step_s
        if running is not None:
            left[running] -= speed * step_s
            if left[running] <= 1e-9:
                ends[running] = now
                running = None
    return np.array(ends), np.array(levels)
