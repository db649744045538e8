"""The most probable course of a hidden Markov model: `gemm_argk` says which state each best score came from.

Log-probabilities add along a course, and the best course counts: that is the semiring max_plus. The forward algorithm,
which sums over all courses instead, is the same product over logaddexp_plus. Many sequences are the rows of one matrix.
"""

import numpy as np

from harness import gemm, gemm_argk

rng = np.random.default_rng(1)
STATES, STEPS, SEQUENCES = 6, 5, 40
moves = np.log(rng.dirichlet(np.ones(STATES), STATES))  # from row to column
seen = np.log(rng.random((STEPS, SEQUENCES, STATES)))  # what was observed, given each state

best, total, came_from = seen[0], seen[0], []
for step in range(1, STEPS):
    best, state = gemm_argk(best, moves, semiring="max_plus")
    best += seen[step]
    total = gemm(total, moves, semiring="logaddexp_plus") + seen[step]
    came_from.append(state)

course = [best.argmax(axis=1)]
for state in reversed(came_from):
    course.append(state[np.arange(SEQUENCES), course[-1]])
course = np.array(course[::-1])

rows = np.arange(SEQUENCES)
score = seen[0][rows, course[0]]
for step in range(1, STEPS):
    score = score + moves[course[step - 1], course[step]] + seen[step][rows, course[step]]
assert np.allclose(score, best.max(axis=1))  # the course has the score that the products promised
assert (np.logaddexp.reduce(total, axis=1) >= best.max(axis=1)).all()  # all courses together are more probable
print(f"first course: {course[:, 0].tolist()}, log-probability {best[0].max():.3f}")
